"""Settings of queues and lanes, checked and in the letters of the engine; counts as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from headrace.errors import OptionError
from headrace.protocol.guesses import check_names
from headrace.protocol.looking import Tally
from headrace.protocol.options import SPECS, check_priority, whole
from headrace.protocol.texts import shown
from headrace.protocol.times import Duration, Time, duration_ms, to_ms

_RATE: Final = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,12}(?:\.\d{1,12})?)?\s*(ms|s|m|h|d|)\s*\Z")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
MAX_RATE: Final = 10_000


class LaneSettings(TypedDict, total=False):
    """What a lane or queue can be set to; None takes a setting back."""

    cap: int | None
    rate: str | tuple[int, Duration] | None
    priority: int | None
    weight: float | None
    quantum: int | None
    aging: Duration | None
    not_before: Time | None


def parse_rate(rate: str | tuple[int, Duration]) -> tuple[int, int]:
    """A rate, "10/10s" or (10, 10): the number of starts, and the window in milliseconds."""
    wrong = f"rate={shown(rate)}: expected 'n/window' such as '10/10s', '100/m' or '5/500ms', or (n, window)"
    if isinstance(rate, str):
        found = _RATE.match(rate)
        if found is None:
            raise OptionError(wrong)
        n, window = int(found[1]), float(found[2] or 1) * _UNITS[found[3]]
    else:
        if not isinstance(rate, tuple) or len(rate) != 2 or type(rate[0]) is not int:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
            raise OptionError(wrong)
        n, window = rate[0], duration_ms(rate[1], "window of the rate") / 1000
    if not 1 <= n <= MAX_RATE:
        raise OptionError(f"rate={shown(rate)}: from 1 to {MAX_RATE:,} starts a window are possible")
    if not 0.001 <= window <= 31_622_400:
        raise OptionError(f"rate={shown(rate)}: the window must be between 1 ms and a year")
    return n, round(window * 1000)


_NAMES: Final = frozenset(LaneSettings.__annotations__)


def lane_letters(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check settings; the letters and numbers that `lane.lua` takes."""
    check_names(given, _NAMES, where)
    letters: dict[str, Any] = {}
    for name, value in given.items():
        letters |= _SETTERS[name](value)
    return letters


def _cap(value: Any) -> dict[str, Any]:
    return {"c": -1 if value is None else whole(value, "cap", 1, "no cap; pause() stops a lane")}


def _rate(value: Any) -> dict[str, Any]:
    if value is None:
        return {"rn": -1, "rw": -1}
    n, window = parse_rate(value)
    return {"rn": n, "rw": window}


def _number(letter: str, name: str, low: float, high: float) -> Any:
    def setter(value: Any) -> dict[str, Any]:
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high
        ):
            raise OptionError(
                f"{name}={shown(value)}: expected a number from {low:g} to {high:g}, or None for the usual"
            )
        return {letter: -1 if value is None else value}

    return setter


def _aging(value: Any) -> dict[str, Any]:
    if value is not None and duration_ms(value, "aging") < 1000:
        raise OptionError(f"aging={shown(value)}: expected at least 1 second for each level of priority, or None")
    return {"ag": -1 if value is None else duration_ms(value, "aging")}


def _priority(value: Any) -> dict[str, Any]:
    return {"p": -1 if value is None else check_priority(value)}


def _not_before(value: Any) -> dict[str, Any]:
    return {"nb": 0 if value is None else to_ms(value, "not_before")}


_SETTERS: Final[dict[str, Any]] = {
    "cap": _cap,
    "rate": _rate,
    "priority": _priority,
    "weight": _number("w", "weight", 0.01, 1000),
    "quantum": _number("q", "quantum", 1, 1000),
    "aging": _aging,
    "not_before": _not_before,
}


def failure_letters(options: Mapping[str, Any], queue: str) -> dict[str, Any]:
    """Options of the jobs that the server writes into `<queue>-fail`."""
    if not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"failure_options={shown(options)} of queue {queue!r}: expected a mapping of options")
    check_names(options, frozenset(SPECS), f"failure_options of queue {queue!r}")
    return {SPECS[name].letter: SPECS[name].check(value, name) for name, value in options.items()}


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs stand where; `parked` ones (their task has no handler) are among the ready."""

    scheduled: int
    ready: int
    held: int
    running: int
    failed: int
    parked: int

    @property
    def waiting(self) -> int:
        """Jobs that have not been started: scheduled, ready and held."""
        return self.scheduled + self.ready + self.held


def read_counts(tally: Tally) -> Counts:
    """Counts as the server gave them."""
    return Counts(*tally)
