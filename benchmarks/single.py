"""Enqueue one by one, beside a bare function call through redis-py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count, pairwise

from benchmarks.baselines import bare_call, load_bare
from benchmarks.figures import Figure, percentile, ratio
from benchmarks.ground import Ground, fresh, one_core
from benchmarks.load import QUEUE
from benchmarks.sizes import PAYLOAD, Sizes
from headrace import clock


def run(sizes: Sizes) -> Iterator[Figure]:
    """Rounds of both take turns; each round's rate is compared with that of its neighbour."""
    for pinned in (False, True) if hasattr(os, "sched_setaffinity") else (False,):
        with fresh() as ground, one_core(ground.server) if pinned else nullcontext():
            yield from _side_by_side(ground, sizes, ", both on one core" if pinned else "")


def _side_by_side(ground: Ground, sizes: Sizes, where: str) -> Iterator[Figure]:
    load_bare(ground.admin)
    numbers = count()
    enqueue = ground.app.queue(QUEUE, keep_result=0).enqueue
    raw: list[float] = []
    ours: list[float] = []
    enqueue(PAYLOAD)
    for _ in range(sizes.rounds):
        raw += _times(lambda: bare_call(ground.admin, next(numbers)), sizes.calls)
        ours += _times(lambda: enqueue(PAYLOAD), sizes.calls)
    cuts = range(0, len(raw), sizes.calls)
    rates = [[sizes.calls / sum(some[i : i + sizes.calls]) for i in cuts] for some in (ours, raw)]
    yield ratio(f"enqueue one by one / bare FCALL{where}", rates[0], rates[1], 0.9)
    for name, times in (("enqueue", ours), ("bare FCALL", raw)):
        note = f"p99 {percentile(times, 0.99) * 1e6:.0f} us, {1 / (sum(times) / len(times)):,.0f} a second"
        yield Figure(f"{name} p50{where}", percentile(times, 0.5) * 1e6, "us", note=note)


def _times(call: Callable[[], object], n: int) -> list[float]:
    marks = [clock.monotonic()]
    for _ in range(n):
        call()
        marks.append(clock.monotonic())
    return [after - before for before, after in pairwise(marks)]
