"""Whose turn it is: weights, quantum, strict priority, aging, and what a lane that was empty may claim (E4)."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest

from tests.tools.shard import Ask, Shard, Want


def fill(shard: Shard, queue: str, lane: str, n: int, *, prio: int = 50, start: int = 0) -> None:
    for first in range(start, start + n, 200):
        last = min(first + 200, start + n)
        shard.enqueue(queue, [Ask(f"{lane}-{i}", lane=lane, prio=prio) for i in range(first, last)])


def lanes_of(shard: Shard, n: int, size: int = 1) -> list[str]:
    """The lanes of the next n jobs that are claimed, `size` at a time."""
    taken: list[str] = []
    while len(taken) < n:
        jobs = shard.take(min(size, n - len(taken)))
        assert jobs
        taken += [job.id.rpartition("-")[0] for job in jobs]
    return taken


@pytest.mark.parametrize("size", [1, 3, 16, 100])
@pytest.mark.parametrize("weights", [{"a": 1, "b": 3}, {"a": 1, "b": 2, "c": 5}], ids=["two lanes", "three lanes"])
def test_weights_hold_over_any_thousand_claims(shard: Shard, weights: dict[str, int], size: int) -> None:
    """Every window of a thousand claims, from the first on, and each lane within 5 % of its own share."""
    total = sum(weights.values())
    for lane, weight in weights.items():
        shard.lane(f"q/{lane}", w=weight)
        fill(shard, "q", lane, 3000 * weight // total + 200)
    taken = lanes_of(shard, 3000, size)
    for lane, weight in weights.items():
        fair = 1000 * weight / total
        before = list(accumulate((name == lane for name in taken), initial=0))
        shares = [before[start + 1000] - before[start] for start in range(2001)]
        assert fair * 0.95 <= min(shares) <= max(shares) <= fair * 1.05, f"{lane}: {min(shares)} to {max(shares)}"


@pytest.mark.parametrize(("light", "heavy"), [(7, 11), (50, 100), (0.3, 0.5), (90, 1000), (1, 200)])
@pytest.mark.parametrize("size", [1, 7])
def test_weights_hold_whatever_they_are(shard: Shard, light: float, heavy: float, size: int) -> None:
    """What a job costs is a whole number: rounding must not change a share, also where weights are large."""
    shard.lane("q/light", w=light)
    shard.lane("q/heavy", w=heavy)
    fill(shard, "q", "light", 1200)
    fill(shard, "q", "heavy", 2400)
    lanes_of(shard, 700, size)  # turns of great weights are long: the first ones are not yet a share
    share, fair = Counter(lanes_of(shard, 1600, size))["heavy"], 1600 * heavy / (light + heavy)
    assert abs(share - fair) <= 80


def test_lanes_of_one_weight_take_turns_of_a_quantum(shard: Shard) -> None:
    for lane in "abc":
        fill(shard, "q", lane, 12)
    taken = lanes_of(shard, 36, 36)
    assert [lane * 4 for lane in "abcabcabc"] == ["".join(taken[at : at + 4]) for at in range(0, 36, 4)]


def test_a_quantum_can_be_set(shard: Shard) -> None:
    shard.lane("q/a", q=1)
    shard.lane("q/b", q=2)
    fill(shard, "q", "a", 6)
    fill(shard, "q", "b", 6)
    taken = "".join(lanes_of(shard, 12, 12))
    assert taken == "abbaabbaabba"  # as many of each, so a's turn of one job comes twice as often


def test_groups_take_turns_like_lanes(shard: Shard) -> None:
    fill(shard, "q", "big/1", 40)
    fill(shard, "q", "big/2", 40)
    fill(shard, "q", "big/3", 40)
    fill(shard, "q", "small/1", 40)
    taken = Counter(lane.partition("/")[0] for lane in lanes_of(shard, 40, 4))
    assert taken == {"big": 20, "small": 20}


def test_jobs_of_a_queue_itself_are_a_lane_among_its_lanes(shard: Shard) -> None:
    fill(shard, "q", "a", 20)
    shard.enqueue("q", [Ask(f"-{i}") for i in range(20)])
    assert Counter(lanes_of(shard, 16, 4)) == {"a": 8, "": 8}


def test_a_lane_that_empties_and_refills_gains_no_turn(shard: Shard) -> None:
    """Whoever refills just in time gets a share like the others, not the turns that it slept through."""
    fill(shard, "q", "steady", 400)
    fill(shard, "q", "other", 400)
    lanes_of(shard, 200)
    fill(shard, "q", "sleeper", 60)
    taken = lanes_of(shard, 120)
    assert abs(taken.count("sleeper") - 40) <= 4
    for round_ in range(30):
        shard.enqueue("q", [Ask(f"sleeper-r{round_}", lane="sleeper")])
        taken = lanes_of(shard, 3)
        assert taken.count("sleeper") <= 3
    fill(shard, "q", "sleeper", 40, start=1000)
    taken = lanes_of(shard, 60)
    assert taken.count("sleeper") <= 24


def test_a_lane_that_refills_does_not_starve(shard: Shard) -> None:
    fill(shard, "q", "steady", 400)
    waits: list[int] = []
    for round_ in range(40):
        shard.enqueue("q", [Ask(f"trickle-{round_}", lane="trickle")])
        wait = 0
        while "trickle" not in lanes_of(shard, 1):
            wait += 1
        waits.append(wait)
    assert max(waits) <= 5


def test_strict_priority_goes_first_across_lanes_and_queues(shard: Shard) -> None:
    fill(shard, "q", "low", 6, prio=10)
    fill(shard, "q", "mid", 3)
    fill(shard, "r", "high", 3, prio=90)
    shard.enqueue("q", [Ask("low-urgent", lane="low", prio=100)])
    taken = lanes_of(shard, 13, 13)
    assert taken == ["low"] + ["high"] * 3 + ["mid"] * 3 + ["low"] * 6


def test_jobs_of_lower_priority_do_not_ride_along_in_a_turn(shard: Shard) -> None:
    shard.enqueue("q", [Ask("a-1", lane="a", prio=60), Ask("a-2", lane="a", prio=40), Ask("b-1", lane="b", prio=50)])
    assert [job.id for job in shard.take(3)] == ["a-1", "b-1", "a-2"]


def test_a_lane_of_its_own_priority_stands_there_whatever_its_jobs_are(shard: Shard) -> None:
    shard.lane("q/vip", p=90)
    fill(shard, "q", "vip", 3, prio=1)
    fill(shard, "q", "mid", 3, prio=60)
    fill(shard, "r", "other", 3, prio=80)
    assert lanes_of(shard, 9, 9) == ["vip"] * 3 + ["other"] * 3 + ["mid"] * 3


def test_strict_priority_starves_and_aging_does_not(shard: Shard) -> None:
    for queue, aging in (("strict", None), ("fair", 1000)):
        if aging:
            shard.lane(queue, ag=aging)
        shard.enqueue(queue, [Ask("old", prio=50)])
        first: list[str] = []
        for i in range(40):
            shard.advance(1000)
            shard.enqueue(queue, [Ask(f"new-{i}", prio=80)])
            (job,) = shard.take(1, queue)
            first.append(job.id)
            assert shard.end(job) == "C"
        assert ("old" in first) == (aging is not None)


def test_aging_raises_by_one_level_in_its_time(shard: Shard) -> None:
    shard.lane("q", ag=2000)
    shard.enqueue("q", [Ask("waits", prio=50)])
    shard.advance(59_000)
    shard.enqueue("q", [Ask("fresh-80", prio=80), Ask("fresh-79", prio=79)])
    assert [job.id for job in shard.take(3)] == ["fresh-80", "waits", "fresh-79"]


def test_aging_holds_across_lanes(shard: Shard) -> None:
    shard.lane("q", ag=1000)
    fill(shard, "q", "old", 5)
    shard.advance(20_000)
    fill(shard, "q", "new", 5, prio=60)
    fill(shard, "q", "vip", 5, prio=75)
    assert lanes_of(shard, 15, 15) == ["vip"] * 5 + ["old"] * 5 + ["new"] * 5


def test_a_claim_of_several_queues_is_fair_to_each(shard: Shard) -> None:
    for queue in ("p", "q", "r"):
        fill(shard, queue, queue, 40)
    taken = Counter(job.queue for _ in range(10) for job in shard.claim(Want(6, ("p", "q"))).jobs)
    assert taken["r"] == 0
    assert abs(taken["p"] - taken["q"]) <= 8
