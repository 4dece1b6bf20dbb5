"""Who is woken: waiters on a queue, as many as there is work, and nobody is lost on the way (E26)."""

from __future__ import annotations

from tests.model.state import State
from tests.tools.shard import Ask, Shard, Want


def wait(shard: Shard, waiter: str, *queues: str, ms: int = 5_000) -> None:
    """A claim that finds nothing and waits."""
    assert shard.claim(Want(1, queues, wait=ms, waiter=waiter), waiter).jobs == []


def woken(shard: Shard) -> set[str]:
    """Waiters with a token; each gets its token once."""
    found = {waiter for waiter in "abcdef" if shard.client.delete(f"{shard.tag}wl:{waiter}")}
    assert not found & set(State(shard).zset("waiters"))
    return found


def test_as_many_are_woken_as_there_is_work(shard: Shard) -> None:
    for waiter in "abcd":
        wait(shard, waiter, "q")
    shard.enqueue("q", [Ask("1"), Ask("2")])
    assert len(woken(shard)) == 2
    shard.enqueue("q", [Ask(str(i)) for i in range(5, 9)])
    assert len(woken(shard)) == 2


def test_only_those_that_serve_the_queue_are_woken(shard: Shard) -> None:
    wait(shard, "a", "p")
    wait(shard, "b", "q", "r")
    wait(shard, "c", "*")
    shard.enqueue("r", [Ask(str(i)) for i in range(9)])
    assert woken(shard) == {"b", "c"}


def test_a_waiter_that_serves_other_queues_now_is_woken_for_those(shard: Shard) -> None:
    """Its old entry, long over, took it off the list of who waits, and the new one found it gone."""
    wait(shard, "a", "p", ms=1_000)
    shard.advance(2_000)
    wait(shard, "a", "q")
    shard.enqueue("p", [Ask("1")])
    assert woken(shard) == set()
    shard.enqueue("q", [Ask("1")])
    assert woken(shard) == {"a"}


def test_what_an_end_makes_room_for_wakes(shard: Shard) -> None:
    shard.lane("q", c=1)
    shard.enqueue("q", [Ask("1"), Ask("2")])
    (job,) = shard.take(1)
    wait(shard, "a", "q")
    shard.end(job)
    assert woken(shard) == {"a"}


def test_a_rule_or_setting_that_opens_a_lane_wakes(shard: Shard) -> None:
    shard.rule("path", "q", "pa", on=True)
    shard.enqueue("q", [Ask("1")])
    wait(shard, "a", "q")
    shard.rule("path", "q", "pa", on=False)
    assert woken(shard) == {"a"}
    shard.lane("q", c=0)
    wait(shard, "a", "q")
    shard.lane("q", c=1)
    assert woken(shard) == {"a"}


def test_something_due_earlier_wakes_one_to_look_at_the_clock(shard: Shard) -> None:
    wait(shard, "a", "q", ms=5_000)
    wait(shard, "b", "q", ms=5_000)
    shard.enqueue("q", [Ask("1", delay=60_000)])
    assert woken(shard) == set()
    shard.enqueue("q", [Ask("2", delay=1_000)])
    assert len(woken(shard)) == 1


def test_waiters_that_never_came_back_leave_nothing(shard: Shard) -> None:
    for waiter in "abcdef":
        for queues in (("*",), ("q",)):
            wait(shard, waiter, *queues)
        shard.advance(70_000)
    state = State(shard)
    assert len(state.zset("waiters")) <= 1
    assert len(state.zset("w:*")) <= 1
    assert len(state.zset("w:q")) <= 1
