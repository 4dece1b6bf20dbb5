"""Caps count the units of live claims at every level, whatever becomes of the claims (E2, E6, E9)."""

from __future__ import annotations

import pytest

from tests.tools.shard import Ask, Claimed, Shard, Want


def lane_of(job: Claimed) -> str:
    return job.record[15 : 15 + job.record[14]].decode()


def test_caps_hold_at_three_levels(shard: Shard) -> None:
    shard.lane("q", c=9)
    shard.lane("q/g", c=5)
    shard.lane("q/g/a", c=2)
    for lane in ("g/a", "g/b", "h"):
        shard.enqueue("q", [Ask(f"{lane}-{i}", lane=lane) for i in range(20)])
    running = shard.take(100)
    by_lane = [lane_of(job) for job in running]
    assert (by_lane.count("g/a"), by_lane.count("g/a") + by_lane.count("g/b"), len(by_lane)) == (2, 5, 9)
    assert shard.take(100) == []
    for _ in range(40):
        done = running.pop(0)
        assert shard.end(done) == "C"
        running += shard.take(100)
        by_lane = [lane_of(job) for job in running]
        assert by_lane.count("g/a") <= 2
        assert by_lane.count("g/a") + by_lane.count("g/b") <= 5
        assert len(running) <= 9
    assert [row[3] for row in shard.counts("q", "q/g")] == [len(running), sum(lane_of(job) != "h" for job in running)]


@pytest.mark.parametrize("op", ["c", "r", "f", "l", "p", "a"])
def test_any_end_of_a_claim_frees_its_unit(shard: Shard, op: str) -> None:
    shard.lane("q/a", c=1)
    shard.enqueue("q", [Ask("1", lane="a"), Ask("2", lane="a")])
    (job,) = shard.take(2)
    assert shard.take(2) == []
    shard.end(job, op)
    assert len(shard.take(2)) == 1


def test_a_crash_leaks_no_unit(shard: Shard) -> None:
    shard.lane("q", c=2)
    shard.enqueue("q", [Ask(str(i), options={"s": -1}) for i in range(5)])
    for _ in range(20):
        assert len(shard.take(5, lease=5_000)) == 2
        assert shard.take(5) == []
        shard.advance(5_000)
    shard.open("s1")
    assert len(shard.claim(Want(5, lease=0), "s1").jobs) == 2
    shard.advance(9_000)
    shard.heartbeat("s1")
    shard.advance(5_000)
    assert shard.take(1) == []
    shard.advance(5_000)
    assert shard.claim(Want(1)).jobs
    assert shard.counts("q")[0][3] == 1


def test_a_cap_of_none_at_all_stays_shut_when_claims_end_by_their_lease(shard: Shard) -> None:
    """The unit of a claim that is reaped was once taken off twice within the call, which opened the lane."""
    shard.enqueue("q", [Ask("1")])
    assert shard.take(1, lease=1_000)
    shard.lane("q", c=0)
    shard.advance(3_000)
    assert shard.take(1) == []
    assert shard.counts("q")[0][3] == 0


def test_a_lower_cap_takes_nothing_away_and_lets_nothing_in(shard: Shard) -> None:
    shard.enqueue("q", [Ask(str(i)) for i in range(6)])
    jobs = shard.take(3)
    shard.lane("q", c=2)
    assert shard.end(jobs[0]) == "C"
    assert shard.take(5) == []
    assert shard.end(jobs[1]) == "C"
    assert len(shard.take(5)) == 1


def test_a_slice_is_one_claim_of_several_members_and_one_unit(shard: Shard) -> None:
    shard.lane("q/r", c=2)
    shard.enqueue("q", [Ask(str(i), lane="r") for i in range(20)])
    first = shard.claim(Want(1, members=4)).jobs
    second = shard.claim(Want(1, members=4)).jobs
    assert (len(first), len({job.claim for job in first})) == (4, 1)
    assert [job.id for job in (*first, *second)] == [str(i) for i in range(8)]
    assert shard.claim(Want(1, members=4)).jobs == []
    for job in first[:3]:
        assert shard.end(job) == "C"
        assert shard.claim(Want(1, members=4)).jobs == [], "the unit is free with the last member only"
    assert shard.end(first[3], "r") == "R"
    assert len(shard.claim(Want(1, members=4)).jobs) == 4


def test_the_members_of_a_slice_that_crashes_free_its_unit_together(shard: Shard) -> None:
    shard.lane("q/r", c=1)
    shard.enqueue("q", [Ask(str(i), lane="r") for i in range(3)])
    jobs = shard.claim(Want(1, members=3, lease=5_000)).jobs
    assert shard.end(jobs[1]) == "C"
    shard.advance(5_000)
    again = shard.claim(Want(1, members=3)).jobs
    assert [job.id for job in again] == ["0", "2"]
    assert shard.claim(Want(1)).jobs == []


def test_a_claim_of_several_units_uses_them(shard: Shard) -> None:
    shard.lane("q", c=5)
    shard.enqueue("q", [Ask(str(i)) for i in range(9)])
    first = shard.claim(Want(1, units=2)).jobs
    assert len(first) == 1
    assert len(shard.claim(Want(1, members=2, units=2)).jobs) == 2
    assert shard.claim(Want(1, units=2)).jobs == []
    assert len(shard.take(9)) == 1
    assert shard.end(first[0]) == "C"
    assert len(shard.take(9)) == 2


def test_a_claim_wider_than_the_cap_runs_alone(shard: Shard) -> None:
    """It takes all units that there are: otherwise it could never run, and everything behind it neither."""
    shard.lane("q/narrow", c=1)
    shard.enqueue("q", [Ask(str(i), lane="narrow") for i in range(2)])
    (job,) = shard.claim(Want(1, units=2)).jobs
    assert shard.claim(Want(1, units=2)).jobs == []
    assert shard.end(job) == "C"
    assert len(shard.claim(Want(1, units=2)).jobs) == 1


def test_jobs_are_counted_as_jobs_whatever_their_units(shard: Shard) -> None:
    shard.lane("q", c=4)
    shard.enqueue("q", [Ask(f"j{i}") for i in range(8)])
    (first, *others) = shard.claim(Want(1, members=4)).jobs
    assert shard.counts("q") == [(0, 4, 0, 4, 0, 0)]
    (wide,) = shard.claim(Want(1, units=3)).jobs
    assert shard.counts("q") == [(0, 3, 0, 5, 0, 0)]
    assert not shard.take(1), "four units are taken"
    shard.end(first)
    assert shard.counts("q") == [(0, 3, 0, 4, 0, 0)]
    for job in (*others, wide):
        shard.end(job, "l")
    assert shard.counts("q") == [(0, 7, 0, 0, 0, 0)]
    assert len(shard.take(8)) == 4
