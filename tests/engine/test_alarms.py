"""The next moment at which time makes work is always in the hands of somebody who waits; tokens are passed on (E26)."""

from __future__ import annotations

import pytest

from tests.engine.test_wake_lists import wait, woken
from tests.tools.shard import START, Ask, Refused, Shard, Want, attempt


def test_a_pause_that_gets_an_end_sets_an_alarm(shard: Shard) -> None:
    shard.rule("path", "q", "pa", on=True)
    shard.enqueue("q", [Ask("1")])
    wait(shard, "a", "q")
    shard.rule("path", "q", "pa", on=True, until=START + 500)
    assert woken(shard) == {"a"}
    assert shard.claim(Want(1, ("q",), wait=5_000, waiter="a"), "a").due == 500


def test_a_task_s_pause_that_gets_an_end_sets_an_alarm(shard: Shard) -> None:
    shard.rule("task", "T", "pa", on=True)
    shard.enqueue("q", [Ask("1", options={"n": "T"})])
    wait(shard, "a", "q")
    shard.rule("task", "T", "pa", on=True, until=START + 500)
    assert woken(shard) == {"a"}


def test_a_shorter_lease_sets_an_alarm(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")])
    (job,) = shard.take(1, lease=60_000)
    wait(shard, "a", "q")
    shard.call("extend", job.key, job.claim, 500)
    assert woken(shard) == {"a"}


def test_who_has_waited_long_enough_hands_the_alarm_on(shard: Shard) -> None:
    """It was awake before the moment, so nobody else was woken for it; then it went away."""
    wait(shard, "a", "q", ms=1_000)
    wait(shard, "b", "q", ms=5_000)
    shard.enqueue("q", [Ask("1", delay=2_000)])
    assert woken(shard) == set()
    shard.advance(1_000)
    assert shard.claim(Want(1, ("q",), wait=0, waiter="a"), "a").jobs == []
    assert woken(shard) == {"b"}


def test_who_leaves_hands_the_alarm_on(shard: Shard) -> None:
    """It was served on another shard."""
    wait(shard, "a", "q", ms=1_000)
    wait(shard, "b", "q", ms=5_000)
    shard.enqueue("q", [Ask("1", delay=2_000)])
    assert woken(shard) == set()
    wait(shard, "c", "p", ms=5_000)
    shard.call("leave", "a", "q")
    assert woken(shard) == set(), "c is awake by then"
    shard.call("leave", "c", "p")
    assert woken(shard) == {"b"}


@pytest.mark.parametrize(("first", "last"), [(("p", "q"), "p"), (("*",), "*")])
def test_a_token_for_one_queue_that_was_spent_on_another(shard: Shard, first: tuple[str, ...], last: str) -> None:
    """a is woken for p, b for q; a takes the job of q, which is urgent: c must be woken for p."""
    wait(shard, "a", *first, ms=3_000)
    wait(shard, "b", "q", ms=2_000)
    wait(shard, "c", last)
    shard.enqueue("p", [Ask("1")])
    assert woken(shard) == {"a"}
    shard.enqueue("q", [Ask("2", prio=90)])
    assert woken(shard) == {"b"}
    assert shard.claim(Want(1, first, wait=5_000, waiter="a"), "a").ids == ["2"]
    assert woken(shard) == {"c"}


def test_a_token_for_a_later_queue_of_who_leaves(shard: Shard) -> None:
    wait(shard, "a", "p", "q", ms=2_000)
    wait(shard, "b", "p")
    wait(shard, "c", "q")
    shard.enqueue("q", [Ask("1")])
    assert woken(shard) == {"a"}
    shard.enqueue("p", [Ask("2", prio=90)])
    assert woken(shard) == {"b"}
    shard.call("leave", "a", "p", "q")
    assert woken(shard) == {"c"}


def test_a_token_of_a_dead_session_is_passed_on(shard: Shard) -> None:
    shard.open("a", lease=10_000)
    shard.claim(Want(1, ("q",), lease=0, wait=3_000, waiter="a"), "a")
    shard.close("a")
    wait(shard, "b", "p")
    wait(shard, "c", "q")
    shard.enqueue("q", [Ask("1")])
    assert woken(shard) == {"a"}
    got = attempt(lambda: shard.claim(Want(1, ("q",), lease=0, wait=5_000, waiter="a"), "a"))
    assert isinstance(got, Refused)
    assert woken(shard) == {"c"}


def test_a_lease_that_ends_while_sessions_have_grace_is_in_time(shard: Shard) -> None:
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask("1")])
    shard.advance(20_000)
    shard.take(1, lease=1_000)
    assert shard.claim(Want(1, ("q",), wait=5_000, waiter="a"), "a").due == 1_000
