"""The things of the model: jobs, held twins, runs, sessions, lanes. Plain values with the engine's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

LIMITS = {"f": 10, "s": 3, "o": 3}
TIMES = {"t": -1, "b": 2000, "x": 300_000, "k": 600_000, "d": 604_800_000, "u": 0}
DEFAULTS: dict[str, Any] = {**LIMITS, **TIMES, "n": None}

Status = Literal["ready", "due", "running", "failed", "parked"]
Place = tuple[int, int, int]
"""Level, arrival, and a number that the server chose where several arrived at once. Aging: score, 0, 0."""
Span = tuple[int, int]
"""A moment that the server chooses between two bounds."""
AT_ONCE: Span = (0, 0)


@dataclass(slots=True)
class Counts:
    """Attempts, failures, stalls, timeouts; who cancelled it while it ran."""

    a: int = 0
    f: int = 0
    s: int = 0
    o: int = 0
    c: str | None = None

    @property
    def kept(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self.c) or self.a + self.f + self.s + self.o > 0


@dataclass(slots=True)
class Data:
    """What an enqueue carries: the part of a job that only an upsert changes."""

    lane: str
    prio: int
    payload: str | None
    """None where only the server knows."""
    options: dict[str, Any]
    gen: int
    queued: int

    def option(self, name: str) -> Any:
        """An option's value, or its default."""
        return self.options.get(name, DEFAULTS[name])


@dataclass(slots=True)
class Twin:
    """A held twin: its data, when it is due, and how it wants to be merged."""

    data: Data
    at: int
    update_data: int
    update_run_at: int
    resets: int
    letters: str


@dataclass(slots=True)
class Job:
    """A job that is not over."""

    queue: str
    id: str
    data: Data
    status: Status = "ready"
    place: Place = (0, 0, 0)
    at: Span = AT_ONCE
    counts: Counts = field(default_factory=Counts)
    error: bool = False
    reason: str = ""
    """What the error says of a job that failed; '' where the server wrote it."""
    twin: Twin | None = None

    @property
    def key(self) -> str:
        """Its name in a shard."""
        return f"{self.queue}/{self.id}"

    @property
    def path(self) -> str:
        """Its lane."""
        return path_of(self.queue, self.data.lane)

    def option(self, name: str) -> Any:
        """An option's value, or its default."""
        return self.data.option(name)


@dataclass(slots=True)
class Run:
    """A claimed job."""

    key: str
    claim: str
    session: str
    path: str
    started: int
    place: Place
    attempt: int
    deadline: int
    kind: Literal["l", "t", ""]
    group: bool
    units: int


@dataclass(slots=True)
class Session:
    """A worker process as the shard knows it."""

    lease: int
    deadline: int
    tasks: tuple[str, ...]
    dead: bool = False
    forgiven: bool = False
    """It was late, and perhaps by no fault of its own; it has not beaten since."""


@dataclass(slots=True)
class Lane:
    """Settings and rules of a queue, group or lane; its last starts when it has a rate."""

    cap: int | None = None
    rate: tuple[int, int] | None = None
    prio: int | None = None
    weight: float = 1
    aging: int | None = None
    birth: int = 0
    keep: bool = False
    failure_options: dict[str, Any] | None = None
    """Options of failure jobs, when a failure handler is registered (queues)."""
    not_before: int = 0
    rules: dict[str, int] = field(default_factory=dict[str, int])
    """"pa" or "bl" -> until, 0 for ever."""
    starts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def stopped(self, now: int) -> bool:
        """Paused, blocked, or before its time."""
        return self.not_before > now or any(until == 0 or until > now for until in self.rules.values())

    def tokens(self, now: int) -> float:
        """Starts left in the window that ends now."""
        if self.rate is None:
            return float("inf")
        n, window = self.rate
        return n - sum(1 for at, _ in self.starts if at > now - window)


def path_of(queue: str, lane: str) -> str:
    """The path of a lane."""
    return f"{queue}/{lane}" if lane else queue


def chain(path: str) -> list[str]:
    """Every level of a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def merged_time(old: int, new: int, how: int) -> int:
    """The time that results from update_run_at: 0 no, 1 yes, 2 if later, 3 if earlier."""
    return {0: old, 1: new, 2: max(old, new), 3: min(old, new)}[how]
