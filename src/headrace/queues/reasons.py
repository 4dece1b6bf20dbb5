"""Reasons why a job is not running, as values and as sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a stable code, since when it holds and when time alone ends it (epoch seconds), and details."""

    code: str
    since: float | None = None
    until: float | None = None
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return _SENTENCES.get(self.code, _other)(self)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a job stands and every reason why it is not running; `str()` gives it in words."""

    job: str
    status: str
    reasons: tuple[Reason, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the reasons, in order."""
        return tuple(reason.code for reason in self.reasons)

    def __str__(self) -> str:
        head = f"job {self.job} is {self.status or 'unknown: it never was, or its record is no longer kept'}"
        if not self.reasons:
            return head
        return head + ": " + "; ".join(str(reason) for reason in self.reasons)


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _rule(reason: Reason) -> str:
    d = reason.details
    why = f" ({d['why']})" if d.get("why") else ""
    end = f" until {_clock(reason.until)}" if reason.until else ""
    return f"{d['path']} is {reason.code} by {d.get('who') or 'somebody'}{why} since {_clock(reason.since)}{end}"


def _cap(reason: Reason) -> str:
    d = reason.details
    holders = [str(holder) for holder in d["holders"]]
    more = ", ..." if d["running"] > len(holders) else ""
    return f"{d['path']} has {d['running']} running and its cap is {d['cap']}: held by {', '.join(holders)}{more}"


def _rate(reason: Reason) -> str:
    d = reason.details
    window = f"{d['window'] / 1000:g} s"
    return f"{d['path']} has had {d['rate']} starts within {window}; the next may start at {_clock(reason.until)}"


def _position(reason: Reason) -> str:
    d = reason.details
    lanes = f", {d['lanes_ahead']} lanes before {d['path']}" if d["lanes_ahead"] else ""
    return f"{d['ahead']} jobs before it in {d['path']}{lanes}; waiting since {_clock(reason.since)}"


def _where(session: str) -> str:
    return f"in session {session}" if session else "under a lease by hand"


def _running(reason: Reason) -> str:
    d = reason.details
    return f"attempt {d['attempt']} runs {_where(d['session'])} since {_clock(reason.since)}"


def _twin(reason: Reason) -> str:
    where = _where(reason.details["session"])
    return f"the earlier job with this id still runs {where}, since {_clock(reason.since)}"


def _no_handler(reason: Reason) -> str:
    d = reason.details
    if not d["task"]:
        return f"no session handles plain data of queue {d['queue']!r}; it waits until one opens, or somebody leases it"
    return f"no session of queue {d['queue']!r} has a handler for task {d['task']!r}; it waits until one opens"


def _other(reason: Reason) -> str:
    return f"{reason.code}: {reason.details}"


_SENTENCES: Final[dict[str, Callable[[Reason], str]]] = {
    "not_due": lambda r: f"it is not due before {_clock(r.until)}",
    "not_before": lambda r: f"{r.details['path']} starts nothing before {_clock(r.until)}",
    "blocked": _rule,
    "paused": _rule,
    "cap": _cap,
    "rate": _rate,
    "position": _position,
    "running": _running,
    "cancelling": lambda r: f"it is to be cancelled: {r.details['by']}",
    "twin": _twin,
    "no_handler": _no_handler,
    "nobody_listens": lambda r: f"no session serves queue {r.details['queue']!r} now",
    "stranded": lambda _: "it stands in no place: somebody changed the server's data; audit(repair=True) mends it",
}


def read_reasons(raw: list[dict[str, Any]]) -> tuple[Reason, ...]:
    """Turn the server's maps into values: milliseconds become seconds."""
    reasons: list[Reason] = []
    for item in raw:
        rest = dict(item)
        code, since, ends = rest.pop("code"), rest.pop("since", None), rest.pop("ends", None)
        reasons.append(Reason(code, since and since / 1000, ends and ends / 1000, rest))
    return tuple(reasons)
