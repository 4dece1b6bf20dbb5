"""Aging in the corners: levels of queues and groups, places that are kept, changing it, an old queue (E4)."""

from __future__ import annotations

import pytest

from tests.model.invariants import problems
from tests.model.state import State, node_settings
from tests.tools.shard import Ask, Refused, Shard, Want, attempt

DAY = 86_400_000


def test_an_aging_queue_stands_among_queues_at_its_first_jobs_priority(shard: Shard) -> None:
    """The level within the queue may stay while the priority of who goes first changes."""
    shard.lane("q", ag=1_000)
    shard.enqueue("q", [Ask("old", lane="x", prio=50), Ask("older", lane="x", prio=50)])
    shard.advance(40_000)
    shard.enqueue("q", [Ask("new", lane="x", prio=90), Ask("new2", lane="x", prio=90)])
    shard.enqueue("r", [Ask("other", prio=60)])
    for _ in range(5):
        assert not problems(State(shard))
        shard.claim(Want(1, ("q",)))
    assert not problems(State(shard))


def test_the_priority_of_a_lane_counts_within_an_aging_queue(shard: Shard) -> None:
    shard.lane("q", ag=1_000)
    shard.lane("q/vip", p=90)
    shard.enqueue("q", [Ask("low", lane="other", prio=80), Ask("vip", lane="vip", prio=10)])
    assert [job.id for job in shard.take(2)] == ["vip", "low"]
    shard.enqueue("q", [Ask("waits", lane="other", prio=80)])
    shard.advance(11_000)
    shard.enqueue("q", [Ask("vip2", lane="vip", prio=10)])
    assert [job.id for job in shard.take(2)] == ["waits", "vip2"]


@pytest.mark.parametrize("status", ["ready", "running", "parked", "below"])
@pytest.mark.parametrize("aging", [(None, 1_000), (1_000, -1), (1_000, 2_000)])
def test_aging_changes_only_while_nothing_has_a_place_in_line(
    shard: Shard, status: str, aging: tuple[int | None, int]
) -> None:
    """What came back to its place stood before or behind everything for ever."""
    before, after = aging
    if before:
        shard.lane("q", ag=before)
    shard.enqueue("q", [Ask("1", lane="x" if status == "below" else "")])
    if status in ("running", "parked"):
        (job,) = shard.take(1)
        if status == "parked":
            shard.end(job, "p")
    refused = attempt(lambda: shard.lane("q", ag=after))
    assert isinstance(refused, Refused)
    assert refused.code == "CONFLICT"
    if before:
        shard.lane("q", ag=before)
    shard.cancel("q", ["1"])
    for job in shard.take(1):
        shard.end(job)
    if status != "running":
        shard.lane("q", ag=after)


def test_a_queue_that_was_idle_for_a_day_counts_from_now(shard: Shard) -> None:
    shard.lane("q", ag=1_000)
    shard.advance(3 * DAY)
    shard.enqueue("q", [Ask("1")])
    assert node_settings(State(shard), "q")["bt"] == shard.now
    shard.advance(3 * DAY)
    shard.enqueue("q", [Ask("2")])
    assert node_settings(State(shard), "q")["bt"] == shard.now - 3 * DAY
    assert [job.id for job in shard.take(2)] == ["1", "2"]


@pytest.mark.parametrize("status", ["running", "parked"])
def test_places_are_kept_over_days(shard: Shard, status: str) -> None:
    """A job that came back after a day stood a day behind the others."""
    shard.lane("q", ag=1_000)
    shard.enqueue("q", [Ask("first", options={"n": "task"})])
    (job,) = shard.take(1, lease=10 * DAY)
    if status == "parked":
        shard.end(job, "p")
    shard.advance(3 * DAY)
    shard.enqueue("q", [Ask("second")])
    if status == "parked":
        shard.open("s", tasks=["task"])
    else:
        shard.end(job, "l")
    assert [again.id for again in shard.take(2)] == ["first", "second"]


def test_turns_under_aging_do_not_pile_up(shard: Shard) -> None:
    """Levels rise with time without end: what is kept of their turns must not."""
    shard.lane("q", ag=1_000)
    for i in range(100):
        shard.advance(1_500)
        shard.enqueue("q", [Ask(f"{i}-{lane}", lane=lane) for lane in "ab"])
        for job in shard.take(2):
            shard.end(job)
    assert len(State(shard).hash("n:q")) < 12


def test_single_jobs_of_an_aging_queue_age_like_others(shard: Shard) -> None:
    """One job with a generated id behind others takes a short way, where no queue of the shard ages."""
    shard.lane("aged", ag=1000)
    for name in "ab":
        shard.enqueue("aged", [Ask(name)], origin="g")
    shard.advance(60_000)
    shard.enqueue("aged", [Ask("urgent", prio=100)], origin="g")
    assert [job.id for job in shard.take(9)] == ["a", "b", "urgent"]
