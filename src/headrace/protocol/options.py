"""Options of a job (E18): checked before anything is sent, and packed as the head of an enqueue.

A queue has defaults; a call gives some options; what neither names has the engine's default and is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict

import msgspec

from headrace.errors import OptionError
from headrace.protocol.guesses import check_names
from headrace.protocol.names import check_lane, check_task
from headrace.protocol.routing import check_route
from headrace.protocol.texts import shown
from headrace.protocol.times import Duration, Time, duration_ms, to_ms

#: The most that a budget or cap can be: what the server counts exactly, and far more than anybody runs.
MAX_COUNT: Final = (1 << 31) - 1


class _Limits(TypedDict, total=False):
    max_failures: int | None
    max_stalls: int | None
    max_timeouts: int | None
    timeout: Duration | None
    min_backoff: Duration
    max_backoff: Duration | None
    keep_result: Duration | None
    keep_failed: Duration | None
    unique_for: Duration | None


class QueueDefaults(_Limits, total=False):
    """Options that a queue may preset for its jobs."""

    priority: int


class FailureOptions(_Limits, total=False):
    """Options of the jobs that the server writes about failures."""

    task: str


class JobOptions(QueueDefaults, total=False):
    """What `enqueue` takes beside the data; None means "no limit" where a limit can be left out."""

    id: Any
    run_at: Time | None
    delay: Duration | None
    lane: str
    route: str | int | None
    task: str
    if_exists: Literal["update", "ignore", "error"]
    update_data: bool
    update_run_at: bool | Literal["if_later", "if_earlier"]
    reset_counts: bool
    update_priority: bool
    update_lane: bool
    update_max_failures: bool
    update_max_stalls: bool
    update_max_timeouts: bool
    update_timeout: bool
    update_min_backoff: bool
    update_max_backoff: bool
    update_keep_result: bool
    update_keep_failed: bool
    update_unique_for: bool


def _count(value: object, name: str) -> int:
    if value is None:
        return -1
    return whole(value, name, 0, "no limit")


def whole(value: object, name: str, least: int, without: str) -> int:
    """A whole number from `least` on; `without` is what None stands for, for the error's text."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{name}={shown(value)}: expected a whole number from {least} on, or None for {without}")
    if value > MAX_COUNT:
        raise OptionError(f"{name} is too large: at most {MAX_COUNT:,}, or None for {without}")
    return value


def _duration(value: object, name: str) -> int:
    return -1 if value is None else duration_ms(value, name)


def _timeout(value: object, name: str) -> int:
    if value is not None and duration_ms(value, name) == 0:
        raise OptionError(f"{name}={shown(value)}: an attempt needs some time; None stands for no limit")
    return _duration(value, name)


def _bounded(value: object, name: str) -> int:
    if value is None:
        raise OptionError(f"{name}=None: give seconds or a timedelta")
    return duration_ms(value, name)


def check_priority(value: object, name: str = "priority") -> int:
    """A priority: 0..100, greater goes first."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise OptionError(
            f"{name}={shown(value)}: expected a whole number from 0 to 100; greater goes first, 50 is usual"
        )
    return value


@dataclass(frozen=True, slots=True)
class _Spec:
    letter: str
    default: int | None
    check: Callable[[object, str], int | str]


#: Options that travel by letter; the server's table in `20_record.lua` has the same letters and defaults.
SPECS: Final[dict[str, _Spec]] = {
    "max_failures": _Spec("f", 10, _count),
    "max_stalls": _Spec("s", 3, _count),
    "max_timeouts": _Spec("o", 3, _count),
    "timeout": _Spec("t", -1, _timeout),
    "min_backoff": _Spec("b", 2_000, _bounded),
    "max_backoff": _Spec("x", 300_000, _duration),
    "keep_result": _Spec("k", 600_000, _duration),
    "keep_failed": _Spec("d", 604_800_000, _duration),
    "unique_for": _Spec("u", 0, _duration),
    "task": _Spec("n", None, check_task),
}
_BY_LETTER: Final = {spec.letter: name for name, spec in SPECS.items()}
_PLACES: Final = {"priority": "p", "lane": "l"}
_OTHERS: Final = ("id", "run_at", "delay", "route", "if_exists", "update_data", "update_run_at", "reset_counts")
_UPDATES: Final = tuple(f"update_{name}" for name in (*SPECS, *_PLACES) if name != "task")
ENQUEUE_NAMES: Final = frozenset((*SPECS, *_PLACES, *_OTHERS, *_UPDATES))
DEFAULT_NAMES: Final = frozenset((*(set(SPECS) - {"task"}), "priority"))
_RUN_AT_MODES: Final[dict[Any, int]] = {False: 0, True: 1, "if_later": 2, "if_earlier": 3}
_IF_EXISTS: Final = {"update": "u", "ignore": "i", "error": "e"}


@dataclass(frozen=True, slots=True)
class Head:
    """The options of one enqueue, checked: what is sent, and what decides where it is sent."""

    packed: bytes
    lane: str
    route: str | None
    if_exists: str


def queue_defaults(given: Mapping[str, Any], queue: str) -> dict[str, Any]:
    """Check the defaults of a queue."""
    check_names(given, DEFAULT_NAMES, f"queue {queue!r}")
    for name, value in given.items():
        if name == "priority":
            check_priority(value)
        else:
            SPECS[name].check(value, name)
    return dict(given)


def build_head(given: Mapping[str, Any], defaults: Mapping[str, Any], queue: str) -> Head:
    """Check the options of one call and pack them over the queue's defaults."""
    check_names(given, ENQUEUE_NAMES, f"enqueue into {queue!r}")
    options, letters = _stored(given, defaults)
    priority = check_priority(given.get("priority", defaults.get("priority", 50)))
    lane = check_lane(given.get("lane"))
    at, delay = _time(given)
    letters += "".join(letter for name, letter in _PLACES.items() if _takes(given, name))
    data = _flag(given, "update_data", True)
    mode = given.get("update_run_at", True)
    if not isinstance(mode, bool | str) or mode not in _RUN_AT_MODES:
        raise OptionError(f"update_run_at={shown(mode)}: expected True, False, 'if_later' or 'if_earlier'")
    if not given and priority == 50 and not options:
        return Head(b"", "", None, "u")  # nothing special: the server knows what that means
    packed = msgspec.msgpack.encode(
        (
            lane,
            priority,
            at,
            delay,
            options,
            data,
            _RUN_AT_MODES[mode],
            _flag(given, "reset_counts", bool(data)),
            letters,
        )
    )
    return Head(packed, lane, check_route(given.get("route")), _if_exists(given))


def _stored(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Options that differ from the engine's defaults, by letter; and the letters that an existing job takes over."""
    options: dict[str, Any] = {}
    letters = ""
    for name, spec in SPECS.items():
        if name in given or name in defaults:
            value = spec.check(given[name] if name in given else defaults[name], name)
            if value != spec.default:
                options[spec.letter] = value
        if _takes(given, name):
            letters += spec.letter
    low, high = options.get("b", 2_000), options.get("x", 300_000)
    if high != -1 and low > high:
        raise OptionError(f"min_backoff must not be greater than max_backoff: {low / 1000:g} s, {high / 1000:g} s")
    return options, letters


def _takes(given: Mapping[str, Any], name: str) -> bool:
    """An existing job takes an option over when it was given, unless `update_<name>` says otherwise."""
    return bool(_flag(given, f"update_{name}", name in given))


def _flag(given: Mapping[str, Any], name: str, default: bool) -> int:
    return int(check_flag(given.get(name, default), name))


def check_flag(value: object, name: str) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool):
        raise OptionError(f"{name}={shown(value)}: expected True or False")
    return value


def _time(given: Mapping[str, Any]) -> tuple[int, int]:
    run_at, delay = given.get("run_at"), given.get("delay")
    if run_at is not None and delay is not None:
        raise OptionError("give run_at or delay, not both")
    return (
        0 if run_at is None else to_ms(run_at, "run_at"),
        0 if delay is None else duration_ms(delay, "delay"),
    )


def _if_exists(given: Mapping[str, Any]) -> str:
    value = given.get("if_exists", "update")
    if not isinstance(value, str) or value not in _IF_EXISTS:
        raise OptionError(f"if_exists={shown(value)}: expected 'update', 'ignore' or 'error'")
    return _IF_EXISTS[value]


def named_options(letters: Mapping[str, Any]) -> dict[str, Any]:
    """Stored options with their names, in the units people use: seconds, and None for no limit."""
    named: dict[str, Any] = {}
    for name, spec in SPECS.items():
        value = letters.get(spec.letter, spec.default)
        if value == -1:
            value = None
        elif spec.check in (_duration, _timeout, _bounded) and value is not None:
            value = value / 1000
        if name != "task" or value is not None:
            named[name] = value
    return named
