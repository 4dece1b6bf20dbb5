"""Lost replies: the same number gets the same answer and changes nothing twice; a lower one is refused (E13)."""

from __future__ import annotations

import pytest

from tests.model.state import State
from tests.tools.shard import Ask, Finish, Refused, Shard, Want, attempt


def test_an_enqueue_repeated_enqueues_once(shard: Shard) -> None:
    asks = [Ask("1"), Ask("2", delay=500)]
    first = shard.enqueue("q", asks)
    number = shard.numbers["producer"]
    shard.take(1)
    assert shard.enqueue("q", asks, number=number) == first
    assert shard.counts("q") == [(1, 0, 0, 1, 0, 0)]


def test_a_claim_repeated_gives_the_same_jobs(shard: Shard) -> None:
    shard.enqueue("q", [Ask(str(i), payload=f"data {i}") for i in range(5)])
    want = Want(3)
    first = shard.claim(want).jobs
    again = shard.claim(want, number=shard.numbers["hand"]).jobs
    assert again == first
    assert shard.end(first[1], channel="other") == "C"
    again = shard.claim(want, number=shard.numbers["hand"]).jobs
    assert again == [first[0], first[2]]
    assert shard.counts("q")[0][:4] == (0, 2, 0, 2)


def test_a_finish_repeated_is_no_failure(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1"), Ask("2"), Ask("3")])
    one, two = shard.take(2)
    items = [Finish(one.key, one.claim), Finish(two.key, two.claim, "r", "-1 0 error"), Finish("q/9", "x")]
    first = shard.finish(items)
    assert first == ("CR-", None)
    before = State(shard)
    assert shard.finish(items, number=shard.numbers["hand"]) == first
    assert State(shard).hashes == before.hashes


def test_a_finish_that_claims_repeated_gives_both_again(shard: Shard) -> None:
    shard.enqueue("q", [Ask(str(i)) for i in range(4)])
    (job,) = shard.take(1)
    items = [Finish(job.key, job.claim)]
    letters, got = shard.finish(items, Want(2))
    again, same = shard.finish(items, Want(2), number=shard.numbers["hand"])
    assert got is not None
    assert same is not None
    assert (again, same.jobs) == (letters, got.jobs)
    assert len(same.jobs) == 2


def test_a_lower_number_is_refused(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")])
    shard.enqueue("q", [Ask("2")])
    refused = attempt(lambda: shard.enqueue("q", [Ask("3")], number=1))
    assert isinstance(refused, Refused)
    assert refused.code == "STALE"
    assert shard.counts("q")[0][1] == 2


def test_channels_do_not_know_each_other(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")], channel="a", number=7)
    shard.enqueue("q", [Ask("2")], channel="b", number=7)
    assert shard.counts("q")[0][1] == 2


def test_answers_are_kept_for_ten_minutes(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")], channel="a", number=5)
    shard.advance(599_999)
    assert shard.enqueue("q", [Ask("1")], channel="a", number=5)[0] == "a"
    shard.advance(2 * 600_000)
    shard.take(0 + 1)
    assert "a:a" not in State(shard).hash("meta")


@pytest.mark.parametrize("name", ["cancel", "replay", "rule", "close"])
def test_other_changes_repeated_happen_once(shard: Shard, name: str) -> None:
    shard.open("s")
    shard.enqueue("q", [Ask("1"), Ask("2", options={"f": 0})])
    (job, bad) = shard.claim(Want(2, lease=0), "s").jobs
    assert shard.end(bad, "f", channel="s") == "F"
    calls = {
        "cancel": lambda: shard.cancel("q", ["1"], running=True),
        "replay": lambda: shard.replay("q"),
        "rule": lambda: shard.rule("path", "q", "pa", on=True),
        "close": lambda: shard.close("s"),
    }
    first = calls[name]()
    function, number, arguments, reply, _ = next(
        last
        for channel, last in shard.last.items()
        if channel == {"cancel": "producer", "close": "s"}.get(name, "admin")
    )
    before = State(shard)
    channel = {"cancel": "producer", "close": "s"}.get(name, "admin")
    assert shard.call(function, channel, number, *arguments) == reply
    assert State(shard).hashes == before.hashes
    assert first is not None
    assert job.id == "1"


def test_an_empty_claim_repeated_says_when_something_is_due(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", delay=100)])
    want = Want(1, wait=5_000, waiter="w")
    assert shard.claim(want).due == 100
    assert shard.claim(want, number=shard.numbers["hand"]).due == 100


def test_a_claim_repeated_after_its_job_went_to_another_does_not_give_it_twice(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1"), Ask("2")])
    mine = shard.claim(Want(2, lease=1_000), "a")
    assert mine.ids == ["1", "2"]
    shard.end(mine.jobs[1], channel="other")
    shard.advance(2_000)
    assert shard.claim(Want(1), "b").ids == ["1"]
    assert shard.claim(Want(2, lease=1_000), "a", number=shard.numbers["a"]).ids == []
