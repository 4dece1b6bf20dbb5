"""Enqueue, and claim + finish, in batches, beside pipelined SETs; and what a job costs the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from benchmarks.baselines import pipelined_sets
from benchmarks.figures import Figure, ratio, spread
from benchmarks.ground import Ground, fresh
from benchmarks.load import ONE_LANE, QUEUE, Shape, drained, fill, heads
from benchmarks.sizes import PAYLOAD, Sizes

#: seconds that the engine keeps results unless told otherwise
USUAL = 600


@dataclass(slots=True)
class Case:
    """A shape of lanes, its targets, and what was measured: rates a second, server microseconds a job."""

    shape: Shape
    put_target: float | None
    take_target: float | None
    server_target: float | None
    keep_result: float = 0
    sets: list[float] = field(default_factory=list[float])
    puts: list[float] = field(default_factory=list[float])
    takes: list[float] = field(default_factory=list[float])
    put_us: list[float] = field(default_factory=list[float])
    take_us: list[float] = field(default_factory=list[float])

    def figures(self) -> Iterator[Figure]:
        """What came out."""
        name = self.shape.name + ("" if self.keep_result == 0 else ", results kept")
        yield ratio(f"enqueue_many / SET: {name}", self.puts, self.sets, self.put_target, _rate(self.puts))
        yield ratio(f"claim + finish / SET: {name}", self.takes, self.sets, self.take_target, _rate(self.takes))
        us = [put + take for put, take in zip(self.put_us, self.take_us, strict=True)]
        note = f"enqueue {median(self.put_us):.1f} + claim and finish {median(self.take_us):.1f}"
        yield Figure(f"server time a job: {name}", median(us), "us", self.server_target, note=note)


def run(sizes: Sizes) -> Iterator[Figure]:
    """All shapes in turns, each with a baseline of its own beside it."""
    few, n = sizes.lanes, sizes.jobs
    cases = [
        Case(ONE_LANE, 1.0, 0.7, 15),
        Case(Shape(f"{few:,} lanes", few), None, 0.4, 28),
        Case(Shape(f"{few:,} lanes of two levels", few, 2), None, 0.3, None),
        Case(ONE_LANE, None, None, None, keep_result=USUAL),
    ]
    with fresh() as ground:
        for _ in range(sizes.repetitions):
            for case in cases:
                _measure(ground, case, n)
    for case in cases:
        yield from case.figures()
    rates = [rate for case in cases for rate in case.sets]
    yield Figure("pipelined SETs a second (100 a pipeline)", median(rates), note=f"all: {spread(rates)}")


def _measure(ground: Ground, case: Case, n: int) -> None:
    ground.clear()
    case.sets.append(n / ground.cost(partial(pipelined_sets, ground.admin, n)).seconds)
    ground.clear()
    if case.shape.lanes:
        put = ground.cost(partial(fill, ground, heads(case.shape, case.keep_result), n))
    else:
        queue = ground.app.queue(QUEUE, keep_result=case.keep_result)
        put = ground.cost(lambda: queue.enqueue_many([PAYLOAD] * n))
    take = ground.cost(partial(drained, ground, n))
    case.puts.append(n / put.seconds)
    case.takes.append(n / take.seconds)
    case.put_us.append(put.server_us / n)
    case.take_us.append(take.server_us / n)


def _rate(values: list[float]) -> str:
    return f"{median(values):,.0f} a second"
