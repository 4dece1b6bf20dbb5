"""How much is measured: all of it, a quick look, or just enough to know that the harness works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAYLOAD: Final = b"x" * 100


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of jobs, lanes, trials and seconds of a run."""

    repetitions: int = 3
    #: calls a round, and rounds, of what is measured one by one
    calls: int = 400
    rounds: int = 21
    #: jobs and lanes of what is measured in batches
    jobs: int = 100_000
    lanes: int = 10_000
    memory: tuple[int, ...] = (100_000, 1_000_000)
    #: numbers of waiting jobs, and of lanes, over which cost is to be flat
    waiting: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    lane_counts: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000)
    #: jobs behind each line of those tables
    probe: int = 10_000
    #: lanes at their cap or with their rate spent
    blocked: int = 100_000
    #: jobs due at once, and of a session that died
    due: int = 100_000
    dead: int = 10_000
    wakes: int = 400
    trials: int = 50
    idle_seconds: float = 15.0


FULL: Final = Sizes()
QUICK: Final = Sizes(
    rounds=7, jobs=30_000, memory=(50_000,), waiting=(1_000, 10_000, 100_000), lane_counts=(1, 1_000, 10_000),
    probe=3_000, blocked=5_000, due=10_000, dead=1_000, wakes=60, trials=6, idle_seconds=4.0,
)  # fmt: skip
TINY: Final = Sizes(
    repetitions=1, calls=20, rounds=3, jobs=600, lanes=100, memory=(2_000,), waiting=(100, 1_000),
    lane_counts=(1, 5, 20), probe=300, blocked=50, due=300, dead=150, wakes=5, trials=1, idle_seconds=0.3,
)  # fmt: skip
