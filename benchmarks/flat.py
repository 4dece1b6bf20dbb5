"""Whether cost grows with what waits: server time a job over numbers of waiting jobs, and of lanes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.figures import Figure
from benchmarks.ground import Ground, fresh
from benchmarks.load import ONE_LANE, Hands, Shape, fill, heads
from benchmarks.sizes import Sizes

#: A tree of a thousand times as many jobs or lanes is some levels deeper, and misses the cache more often.
GROWTH = 1.5
#: From about here on each job of a batch stands in a lane of its own.
MANY = 1000


def run(sizes: Sizes) -> Iterator[Figure]:
    """Two tables, and how much their last line costs more than their cheapest."""
    with fresh() as ground:
        lines = {n: _with_waiting(ground, n, sizes) for n in sizes.waiting}
    yield from _table("waiting jobs", lines)
    yield Figure(f"{max(lines):,} waiting jobs / {min(lines):,}", _growth(list(lines.values())), "x", GROWTH)
    lines = {n: _with_lanes(n, sizes) for n in sizes.lane_counts}
    yield from _table("lanes", lines)
    many = max(n for n in lines if n <= MANY)
    costs = [cost for n, cost in lines.items() if n >= many]
    note = "with fewer lanes, jobs of one batch share the work of their lane"
    yield Figure(f"{max(lines):,} lanes / {many:,}", _growth(costs), "x", GROWTH, note=note)


def _with_waiting(ground: Ground, n: int, sizes: Sizes) -> tuple[float, float]:
    """Add some jobs to n that wait, and take as many away."""
    probe = min(sizes.probe, n)
    waiting = ground.app.queue("emails").counts().ready
    fill(ground, heads(ONE_LANE), n - waiting)
    return _probe(ground, ONE_LANE, probe)


def _with_lanes(n: int, sizes: Sizes) -> tuple[float, float]:
    """Each lane has a few jobs, so that a turn is a whole one wherever the probe comes by."""
    shape = Shape("", n)
    with fresh() as ground:
        fill(ground, heads(shape), max(4 * n, sizes.probe))
        return _probe(ground, shape, sizes.probe)


def _probe(ground: Ground, shape: Shape, n: int) -> tuple[float, float]:
    """Server time a job of enqueue, and of claim and finish: the least of three times."""
    puts: list[float] = []
    takes: list[float] = []
    hands = Hands(ground)
    for _ in range(3):
        puts.append(ground.cost(partial(fill, ground, heads(shape), n)).server_us / n)
        takes.append(ground.cost(lambda: [*hands.turns(n), hands.let_go()]).server_us / n)
    return min(puts), min(takes)


def _table(what: str, lines: dict[int, tuple[float, float]]) -> Iterator[Figure]:
    for n, (put, take) in lines.items():
        note = f"enqueue {put:.1f} + claim and finish {take:.1f}"
        yield Figure(f"server time a job, {n:,} {what}", put + take, "us", note=note)


def _growth(costs: list[tuple[float, float]]) -> float:
    totals = [sum(cost) for cost in costs]
    return totals[-1] / min(totals)
