"""The longest call at the largest sizes, by the server's slow log: no call may hold up the others over 5 ms.

The slow log counts wall time, so on a busy machine a call that lost its core in the middle stands there too. So each
case is repeated, the same calls in the same order: what a call takes is the least of its repetitions, and the figure
is the longest of these. The note has the longest of each repetition as it was, and, where the kernel tells, how long
the server had to wait for a core meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure, spread
from benchmarks.ground import Ground, fresh
from benchmarks.load import ONE_LANE, QUEUE, Hands, Shape, fill, heads
from benchmarks.sizes import PAYLOAD, Sizes
from headrace import clock
from headrace.protocol import codec

LIMIT_MS = 5.0
_MIB = (1 << 20) - 16


def run(sizes: Sizes) -> Iterator[Figure]:
    """Each case on an empty server."""
    many = Shape("", sizes.lanes, 2)
    cases: dict[str, Callable[[Ground], object]] = {
        "256 jobs a call, one lane": lambda ground: fill(ground, heads(ONE_LANE), 256 * 20),
        "256 jobs a call, each in a new lane of two levels": lambda ground: fill(ground, heads(many), sizes.lanes),
        f"100 claims a call over {sizes.lanes:,} lanes of two levels": lambda ground: _claims(ground, many, sizes),
        "100 claims a call, finished with results kept": _results,
        "enqueuing 1 MiB a job": _big,
        "claiming jobs of 1 MiB, finishing with results of 1 MiB": _big_results,
        f"reaping {sizes.dead:,} jobs of a dead session": lambda ground: _reap(ground, sizes),
        f"promoting {sizes.due:,} jobs that fall due at once": lambda ground: _promote(ground, sizes),
    }
    with fresh() as ground:
        for name, work in cases.items():
            runs: list[list[float]] = []
            waited = ground.waited_ms()
            for _ in range(sizes.repetitions):
                ground.clear()
                ground.watch_slow()
                work(ground)
                runs.append(ground.calls_ms() or [0.2])  # none was longer than what is logged
            held_up = f"waited {ground.waited_ms() - waited:.0f} ms for a core"
            note = f"as it was: {spread([max(run) for run in runs])}; {held_up}"
            yield Figure(f"longest call: {name}", longest(runs), "ms", LIMIT_MS, note=note)


def longest(runs: list[list[float]]) -> float:
    """The longest call, each taken at its best; where the runs differ in length, the best run's longest."""
    if len({len(run) for run in runs}) == 1:
        return max(min(same) for same in zip(*runs, strict=True))
    return min(max(run) for run in runs)


def _claims(ground: Ground, many: Shape, sizes: Sizes) -> None:
    fill(ground, heads(many), 2 * sizes.lanes)
    ground.watch_slow()
    Hands(ground).drain()


def _results(ground: Ground) -> None:
    ground.app.queue(QUEUE, keep_result=600).enqueue_many([PAYLOAD] * 5000)
    hands = Hands(ground)
    while hands.turn(codec.encode(PAYLOAD)):
        pass


def _big(ground: Ground) -> None:
    ground.app.queue(QUEUE, keep_result=600).enqueue_many([b"x" * _MIB] * 20)


def _big_results(ground: Ground) -> None:
    _big(ground)
    ground.watch_slow()
    hands = Hands(ground)
    while hands.turn(codec.encode(b"y" * _MIB)):
        pass


def _reap(ground: Ground, sizes: Sizes) -> None:
    ground.app.queue(QUEUE, keep_result=0).enqueue_many([PAYLOAD] * sizes.dead)
    dead, alive = Hands(ground, lease_ms=800), Hands(ground)
    while dead.turn(finish=False):
        dead.beat()
    ends = clock.monotonic() + 0.9
    ground.watch_slow()
    queue = ground.app.queue(QUEUE)
    while queue.counts().running and clock.monotonic() < ends + 60:
        alive.beat()
        if clock.monotonic() < ends:
            time.sleep(0.05)


def _promote(ground: Ground, sizes: Sizes) -> None:
    queue = ground.app.queue(QUEUE, keep_result=0)
    due = clock.wall() + sizes.due / 20_000 + 0.3
    queue.enqueue_many([PAYLOAD] * sizes.due, run_at=due)
    time.sleep(max(0.0, due - clock.wall() + 0.01))
    ground.watch_slow()
    done = Hands(ground).drain()
    if done != sizes.due:
        raise AssertionError(f"{done} of {sizes.due} jobs came when they were due")
