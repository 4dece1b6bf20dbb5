"""The held twin (an id enqueued again while it runs): one at most, merged by its flags, released in its time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace import Claim, Headrace, JobCancelled, Queue, ResultTimeout
from tests.queues.places import Clock


def running(q: Queue, **options: Any) -> Claim:
    """A job that runs, under the id that its twin will have."""
    q.enqueue("old", id="x", **options)
    (claim,) = q.lease(30)
    return claim


def test_a_twin_waits_until_the_running_one_is_done_and_is_a_job_of_its_own(app: Headrace) -> None:
    q = app.queue("q")
    first = q.enqueue("old", id="x")
    (claim,) = q.lease(30)
    twin = q.enqueue("new", id="x", priority=90, max_failures=1)
    assert twin.outcome == "held"
    assert (first.status(), twin.status(), q.job("x").status()) == ("running", "held", "running")
    assert first.info().twin_held
    assert twin.info().data == "new"
    counts = q.counts()
    assert (counts.ready, counts.held, counts.running) == (0, 1, 1)
    assert q.lease(30) == []
    assert claim.complete("old's")
    assert (first.status(), twin.status()) == ("done", "ready")
    (second,) = q.lease(30)
    assert (second.data, second.attempt, second.priority) == ("new", 1, 90)
    assert second.options["max_failures"] == 1
    with pytest.raises(ResultTimeout):
        twin.result(timeout=0)
    assert second.complete("new's")
    assert (first.result(timeout=1), twin.result(timeout=1)) == ("old's", "new's")


def test_never_two_at_a_time_for_one_id(app: Headrace) -> None:
    q = app.queue("q")
    seen: list[Any] = []
    q.enqueue(0, id="x")
    for n in range(1, 6):
        (claim,) = q.lease(30, n=10)
        seen.append(claim.data)
        q.enqueue(n, id="x")
        assert q.lease(30, n=10) == []
        assert claim.complete()
    assert seen == [0, 1, 2, 3, 4]


def test_a_later_twin_merges_into_the_one_that_is_held(app: Headrace) -> None:
    q = app.queue("q")
    claim = running(q)
    twins = [
        q.enqueue("one", id="x", priority=60, max_stalls=7),
        q.enqueue("two", id="x", max_failures=2),
        q.enqueue("three", id="x", update_data=False, priority=80),
    ]
    assert [twin.outcome for twin in twins] == ["held"] * 3
    assert twins[0] == twins[1] == twins[2]
    assert q.counts().held == 1
    claim.complete()
    (second,) = q.lease(30)
    assert (second.data, second.priority) == ("two", 80)
    assert (second.options["max_failures"], second.options["max_stalls"]) == (2, 7)
    assert second.complete("once")
    assert [twin.result(timeout=1) for twin in twins] == ["once"] * 3


@pytest.mark.parametrize(("flag", "at"), [(True, 5), ("if_earlier", 5), ("if_later", 10), (False, 10)])
def test_times_of_merged_twins(timed: Headrace, clock: Clock, flag: Any, at: int) -> None:
    q = timed.queue("q")
    claim = running(q)
    q.enqueue("one", id="x", delay=10)
    q.enqueue("two", id="x", delay=5, update_run_at=flag)
    claim.complete()
    assert q.job("x").info().at == clock.now + at


def test_a_twin_s_time_holds_after_its_release(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    claim = running(q)
    q.enqueue("new", id="x", delay=10)
    claim.complete()
    assert q.job("x").status() == "scheduled"
    clock.forward(9.9)
    assert q.lease(30) == []
    clock.forward(0.1)
    assert [claim.data for claim in q.lease(30)] == ["new"]


ENDS = ["retry", "release", "abandon", "lease"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("update", [True, False])
@pytest.mark.parametrize("reset", [None, True, False])
def test_a_run_that_does_not_end_the_job_takes_the_twin_s_place(
    timed: Headrace, clock: Clock, end: str, update: bool, reset: bool | None
) -> None:
    """Its data replaces the old by its flags; counts stay unless they are to be reset; both handles mean one job."""
    q = timed.queue("q")
    first = q.enqueue("old", id="x", max_stalls=9)
    q.lease(10)[0].retry("before", delay=0)
    (claim,) = q.lease(10)
    flags: dict[str, Any] = {"update_data": update} | ({} if reset is None else {"reset_counts": reset})
    twin = q.enqueue("new", id="x", max_failures=3, **flags)
    if end == "lease":
        clock.forward(10)
    else:
        getattr(claim, end)()
    clock.forward(1000)
    (again,) = q.lease(10)
    assert again.data == ("new" if update else "old")
    counted = {"retry": (2, 2, 0), "release": (1, 1, 0), "abandon": (2, 1, 1), "lease": (2, 1, 1)}[end]
    resets = update if reset is None else reset
    bad = (0, 0) if resets else counted[1:]
    assert (again.failures, again.stalls) == bad
    assert again.attempt == counted[0] + 1
    assert (again.options["max_failures"], again.options["max_stalls"]) == (3, 9)
    assert q.counts().held == 0
    assert again.complete("the only result")
    assert (first.result(timeout=1), twin.result(timeout=1)) == ("the only result", "the only result")


def test_a_failed_run_makes_room_for_its_twin(app: Headrace) -> None:
    q = app.queue("q")
    first = q.enqueue("old", id="x")
    (claim,) = q.lease(30)
    twin = q.enqueue("new", id="x")
    assert claim.fail("bad") == "failed"
    assert (first.status(), twin.status()) == ("failed", "ready")
    assert q.counts().failed == 0
    (second,) = q.lease(30)
    assert (second.data, second.attempt, second.failures) == ("new", 1, 0)


def test_cancel_removes_the_twin_and_with_running_marks_the_run(app: Headrace) -> None:
    q = app.queue("q")
    first = q.enqueue("old", id="x")
    (claim,) = q.lease(30)
    twin = q.enqueue("new", id="x")
    assert q.cancel("x", why="not again") is True
    assert (first.status(), twin.status(), q.counts().held) == ("running", "cancelled", 0)
    assert claim.report(0.5) is True
    with pytest.raises(JobCancelled, match="not again"):
        twin.result(timeout=1)
    assert q.cancel("x") is False
    twin = q.enqueue("newer", id="x")
    assert q.cancel("x", running=True) is True
    assert twin.status() == "cancelled"
    assert claim.report(0.6) is False
    assert claim.release() == "cancelled"
    assert first.status() == "cancelled"


def test_a_cancelled_run_makes_room_for_a_twin_that_came_later(app: Headrace) -> None:
    q = app.queue("q")
    claim = running(q)
    q.cancel("x", running=True)
    twin = q.enqueue("new", id="x")
    assert claim.retry("too late") == "cancelled"
    assert twin.status() == "ready"
    assert [claim.data for claim in q.lease(30)] == ["new"]


def test_a_twin_in_another_lane(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue("old", id="x", lane="a", route="r")
    (claim,) = q.lease(30)
    q.enqueue("new", id="x", lane="b", route="r")
    assert q.lane("b", route="r").counts().held == 1
    q.enqueue("newer", id="x", lane="c", route="r")
    assert [q.lane(lane, route="r").counts().held for lane in "bc"] == [0, 1]
    claim.complete()
    assert q.lane("c", route="r").counts().ready == 1
    (claim,) = q.lease(30)
    q.enqueue("stays", id="x", route="r")
    claim.retry("again", delay=0)
    assert q.lane("c", route="r").counts().ready == 1, "the lane was not given: it stays"


def test_many_twins_at_once_are_one(app: Headrace) -> None:
    q = app.queue("q")
    claim = running(q)
    outcomes = [job.outcome for job in q.enqueue_many(range(300), ids=["x"] * 300)]
    assert set(outcomes) == {"held"}
    assert q.counts().held == 1
    claim.complete()
    assert [claim.data for claim in q.lease(30, n=5)] == [299]


def test_twins_of_many_threads(app: Headrace, place: Any, namespace: str) -> None:
    claim = running(app.queue("q"))
    with place.open(namespace) as other, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(other.queue("q").enqueue, n, id="x") for n in range(40)]
        twins = [future.result() for future in futures]
        assert {twin.outcome for twin in twins} == {"held"}
        claim.complete("first")
        (second,) = other.queue("q").lease(30)
        second.complete("second")
        assert {twin.result(timeout=5) for twin in twins} == {"second"}
