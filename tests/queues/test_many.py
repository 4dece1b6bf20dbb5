"""Many jobs at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import CONTENT, Headrace, InvalidInput, JobExists, OptionError, PayloadError
from tests.queues.places import Hands, Place


def test_order_is_kept_within_a_shard(app: Headrace) -> None:
    q = app.queue("q")
    jobs = q.enqueue_many(range(1000), route="r")
    assert [job.outcome for job in jobs] == ["added"] * 1000
    claims = q.lease(30, n=1000)
    assert [claim.data for claim in claims] == list(range(1000))
    assert [claim.id for claim in claims] == [job.id for job in jobs]
    assert q.complete_many(claims, list(range(1000))) == [True] * 1000
    assert q.complete_many(claims) == [False] * 1000
    assert [jobs[i].result(timeout=5) for i in (0, 255, 256, 999)] == [0, 255, 256, 999]


def test_few_calls(app: Headrace, hands: Hands) -> None:
    before = hands.calls()
    app.queue("q").enqueue_many(range(1024), route="r")
    assert hands.calls() - before == 4


def test_calls_stay_below_a_mebibyte(app: Headrace, hands: Hands) -> None:
    before = hands.calls()
    app.queue("q").enqueue_many([b"x" * 300_000] * 7, route="r")
    assert hands.calls() - before == 3
    assert len(app.queue("q").lease(30, n=10)) == 7


def test_ids_and_duplicates_of_ids(app: Headrace) -> None:
    q = app.queue("q")
    jobs = q.enqueue_many([1, 2, 3, 4], ids=["a", "b", "a", "a"])
    assert [(job.id, job.outcome) for job in jobs] == [
        ("a", "added"), ("b", "added"), ("a", "updated"), ("a", "updated"),
    ]  # fmt: skip
    assert {claim.id: claim.data for claim in q.lease(30, n=5)} == {"a": 4, "b": 2}


def test_ids_by_content(app: Headrace) -> None:
    q = app.queue("q")
    jobs = q.enqueue_many(["a", "b", "a"], id=CONTENT)
    assert jobs[0].id == jobs[2].id != jobs[1].id
    assert q.counts().ready == 2


def test_options_hold_for_all(app: Headrace) -> None:
    q = app.queue("q", max_failures=4)
    jobs = q.enqueue_many([1, 2], delay=60, priority=70, lane="l", max_stalls=0)
    assert q.counts().scheduled == 2
    for job in jobs:
        info = job.info()
        assert (info.priority, info.lane) == (70, "l")
        assert (info.options["max_failures"], info.options["max_stalls"]) == (4, 0)


def test_nothing_at_all(app: Headrace) -> None:
    assert app.queue("q").enqueue_many([]) == []
    assert app.queue("q").complete_many([]) == []


def test_outcomes_of_each(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue(0, id="ready")
    q.enqueue(0, id="running", priority=100)
    (claim,) = [claim for claim in q.lease(30, n=2) if claim.id == "running" or not claim.release()]
    assert [job.outcome for job in q.enqueue_many([1, 2, 3], ids=["ready", "running", "new"])] == [
        "updated", "held", "added",
    ]  # fmt: skip
    assert {job.outcome for job in q.enqueue_many([1, 2, 3], ids=["ready", "running", "new"], if_exists="ignore")} == {
        "ignored"
    }
    claim.complete()


def test_one_that_exists_refuses_its_call_whole(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue("old", id="7", route="r")
    with pytest.raises(JobExists, match="q/7"):
        q.enqueue_many(range(10), ids=map(str, range(10)), if_exists="error", route="r")
    assert q.counts().ready == 1


def test_an_error_in_the_middle_of_an_endless_iterable(app: Headrace) -> None:
    def endless() -> Iterator[int]:
        n = 0
        while True:
            if n == 5000:
                raise RuntimeError("the source broke")
            yield n
            n += 1

    q = app.queue("q")
    with pytest.raises(RuntimeError, match="the source broke"):
        q.enqueue_many(endless(), route="r")
    there = q.counts().ready
    assert 4096 <= there <= 5000
    assert [claim.data for claim in q.lease(30, n=5000)] == list(range(there))


def test_running_the_same_ids_again_after_an_error_doubles_nothing(app: Headrace) -> None:
    q = app.queue("q")
    data: list[object] = [*range(3000), object()]
    with pytest.raises(PayloadError):
        q.enqueue_many(data, ids=[str(n) for n in range(3001)])
    data[-1] = 3000
    q.enqueue_many(data, ids=[str(n) for n in range(3001)])
    assert q.counts().ready == 3001


def test_wrong_use(app: Headrace) -> None:
    q = app.queue("q")
    with pytest.raises(OptionError, match="give ids="):
        q.enqueue_many([1], id="x")
    with pytest.raises(InvalidInput, match="more jobs than ids"):
        q.enqueue_many([1, 2], ids=["a"])
    with pytest.raises(InvalidInput, match="1 claims and 2 results"):
        q.complete_many([None], [1, 2])  # pyright: ignore[reportArgumentType]


def test_any_iterable_of_claims_or_ids(place: Place, namespace: str, hands: Hands) -> None:
    with place.open(namespace) as app:
        q = app.queue("q")
        q.enqueue_many(range(6), ids=(str(n) for n in range(6)))
        claims = q.lease(30, n=3)
        assert q.complete_many((claim for claim in claims), (claim.data for claim in claims)) == [True] * 3
        left = q.lease(30, n=3)
        for claim in left:
            claim.fail()
        assert q.drop_failed(claim.id for claim in left[:2]) == 2
        assert q.retry_failed({left[2].id}) == 1


def test_what_came_last_wins_also_where_big_jobs_make_a_call_too_big(app: Headrace) -> None:
    """A call over big jobs is cut; what stood behind it must not go before it."""
    q = app.queue("q")
    names = [f"big-{n}" for n in range(6)]
    q.enqueue_many(["x" * 400_000] * 6, ids=names, route="r")
    assert [job.outcome for job in q.enqueue_many(["old"] * 6, ids=names, route="r")] == ["updated"] * 6
    q.enqueue_many(["x" * 400_000] * 6, ids=names, route="r")
    more = [f"new-{n}" for n in range(300)]
    q.enqueue_many(["old"] * 6 + more + ["last"] * 6, ids=[*names, *more, *names], route="r")
    assert [q.job(name, route="r").info().data for name in names] == ["last"] * 6
    assert [job.id for job in q.jobs("ready")][6:] == more


def test_a_lease_hands_over_what_it_has_while_the_dead_are_walked(app: Headrace, hands: Hands) -> None:
    """Jobs of dead sessions are perhaps to come, and soon; but the lease of what is here runs already."""
    q = app.queue("q")
    q.enqueue("here", id="x", route="r")
    for shard in range(app.shards):
        hands("HSET", "meta", "dying", 1, shard=shard)
        hands("HSET", "dead", "ghost", 1000, shard=shard)  # done with after a thousand laps
    assert [claim.data for claim in q.lease(30, n=50)] == ["here"]
    laps = [int(hands("HGET", "meta", "laps", shard=shard) or 0) for shard in range(app.shards)]
    assert max(laps) < 20
