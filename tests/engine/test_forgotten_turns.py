"""A level's turn is kept only until another level of the same index empties: what a lane then owes stays bounded."""

from __future__ import annotations

import pytest

from tests.tools.shard import Ask, Shard

LANES: list[tuple[dict[str, float], int]] = [({}, 4), ({"w": 0.1}, 10), ({"q": 20}, 20)]


def fill(shard: Shard, lane: str, n: int, prio: int = 50) -> None:
    for first in range(0, n, 200):
        ids = range(first, min(first + 200, n))
        shard.enqueue("q", [Ask(f"{lane}-{i}", lane=lane, prio=prio) for i in ids])


def drain(shard: Shard) -> list[str]:
    taken: list[str] = []
    while jobs := shard.take(100):
        taken += [job.id.rpartition("-")[0] for job in jobs]
        for job in jobs:
            assert shard.end(job) == "C"
    return taken


@pytest.mark.parametrize(("settings", "one_turn"), LANES)
def test_a_lane_that_comes_back_waits_one_turn_at_most(shard: Shard, settings: dict[str, float], one_turn: int) -> None:
    shard.lane("q/old", **settings)
    for lane in ("old", "other"):
        fill(shard, lane, 400)
    drain(shard)
    for lane in ("urgent", "pressing"):
        fill(shard, lane, 8, prio=70)
    drain(shard)  # the index has emptied at another level: the turn of the first one is not known any more
    fill(shard, "new", 600)
    fill(shard, "old", 5)
    taken = drain(shard)
    assert taken.index("old") <= one_turn + 4, "it owes no more than the turn it took last"
