"""Dead letters: kept with their last error, looked at, put back, dropped; and the jobs of a failure handler."""

from __future__ import annotations

import pytest

from headrace import FailedJob, Headrace, OptionError, Queue
from tests.queues.places import Clock


def failed(q: Queue, *names: str) -> None:
    for name in names:
        q.enqueue(name, id=name, route="r", max_failures=0)
    for claim in q.lease(30, n=len(names)):
        assert claim.retry(f"{claim.id} went wrong") == "failed"


def ids(q: Queue) -> set[str]:
    return {job.id for job in q.jobs("failed")}


def test_they_are_listed_with_their_last_error(app: Headrace) -> None:
    q = app.queue("q")
    failed(q, "a", "b", "c")
    assert ids(q) == {"a", "b", "c"}
    for job in q.jobs("failed", page=2):
        info = job.info()
        assert info.error is not None
        assert (info.status, info.error.message, info.data) == ("failed", f"{job.id} went wrong", job.id)
        assert info.counts == (1, 1, 0, 0)
    assert q.counts().failed == 3


def test_retry_puts_them_back_with_fresh_counts(app: Headrace) -> None:
    q = app.queue("q")
    failed(q, "a", "b", "c")
    job = q.job("a", route="r")
    assert job.retry() is True
    assert job.retry() is False
    info = job.info()
    assert (info.status, info.counts, info.error) == ("ready", (0, 0, 0, 0), None)
    assert q.retry_failed(["b", "never", "a"]) == 1
    assert ids(q) == {"c"}
    assert q.retry_failed() == 1
    assert q.retry_failed() == 0
    claims = q.lease(30, n=10)
    assert {claim.attempt for claim in claims} == {1}
    assert sorted(claim.id for claim in claims) == ["a", "b", "c"]
    assert all(claim.complete(claim.id) for claim in claims)
    assert job.result(timeout=1) == "a"


def test_drop_deletes_them(app: Headrace) -> None:
    q = app.queue("q")
    failed(q, "a", "b", "c")
    assert q.drop_failed(["a", "never"]) == 1
    assert q.job("a", route="r").status() is None
    assert q.drop_failed() == 2
    assert (ids(q), q.counts().failed) == (set(), 0)


def test_more_than_a_call_takes(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(450))
    for claim in q.lease(30, n=450):
        claim.fail("all of them")
    assert q.counts().failed == 450
    assert q.retry_failed(limit=130) == 130
    assert q.drop_failed(limit=120) == 120
    assert q.retry_failed() == 200
    counts = q.counts()
    assert (counts.ready, counts.failed) == (330, 0)


def test_the_oldest_come_first(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    for name in "abc":
        failed(q, name)
        clock.forward(1)
    assert [job.id for job in q.jobs("failed")] == ["c", "b", "a"], "listed: the newest first"
    assert q.retry_failed(limit=1) == 1
    assert ids(q) == {"b", "c"}


def test_enqueueing_the_id_again_takes_its_place(app: Headrace) -> None:
    q = app.queue("q")
    failed(q, "a")
    for if_exists in ("ignore", "error"):
        assert q.enqueue("new", id="a", route="r", if_exists=if_exists).outcome == "added"
        assert q.counts().failed == 0
        (claim,) = q.lease(30)
        assert (claim.data, claim.attempt) == ("new", 1)
        claim.fail()


def test_failed_jobs_hold_no_lane(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("l", queue="q", cap=1)
    for n in range(3):
        q.enqueue(n, lane="l")
        (claim,) = q.lease(30)
        claim.fail()
    assert q.lane("l").counts().failed == 3
    assert [job.info().lane for job in q.lane("l").jobs("failed")] == ["l"] * 3


def test_the_failure_handler_s_job_is_written_by_the_call_that_fails_it(app: Headrace) -> None:
    q = app.queue("q", failure_options={"max_failures": 2, "timeout": 5, "task": "on_failure"})
    app.failure_jobs("q")
    job = q.enqueue({"to": "a@b.c"}, id="x", route="r", lane="l", priority=70, max_failures=1)
    q.lease(30)[0].retry("first", delay=0)
    assert app.queue("q-fail").counts().ready == 0
    q.lease(30)[0].retry(ValueError("second"), delay=0)
    (claim,) = app.queue("q-fail").lease(30)
    told = claim.data
    assert isinstance(told, FailedJob)
    assert (told.queue, told.id, told.lane, told.priority) == ("q", "x", "l", 70)
    assert (told.attempts, told.failures, told.stalls, told.timeouts) == (2, 2, 0, 0)
    assert told.data == {"to": "a@b.c"}
    assert told.error["type"] == "ValueError"
    assert told.error["message"] == "second"
    assert {name: claim.options[name] for name in ("max_failures", "timeout", "task")} == {
        "max_failures": 2, "timeout": 5.0, "task": "on_failure",
    }  # fmt: skip
    assert claim.id == "x"
    assert job.status() == "failed"
    assert claim.complete()


def test_failure_jobs_of_stalls_and_timeouts_and_of_raw_data(timed: Headrace, clock: Clock) -> None:
    timed.failure_jobs("q")
    q = timed.queue("q", max_stalls=0, max_timeouts=0)
    q.enqueue(b"\x00raw\xff", id="stalls", route="r")
    q.lease(10)
    q.enqueue(None, id="times out", route="r", timeout=1)
    q.lease(1000)
    clock.forward(20)
    assert q.lease(10) == []
    told = {claim.id: claim.data for claim in timed.queue("q-fail").lease(30, n=5)}
    assert told["stalls"].data == b"\x00raw\xff"
    assert told["stalls"].error["type"] == "StallError"
    assert told["times out"].data is None
    assert told["times out"].error["type"] == "TimeoutError"


def test_failure_jobs_can_be_switched_off(app: Headrace) -> None:
    q = app.queue("q")
    app.failure_jobs("q")
    app.failure_jobs("q", False)
    q.enqueue(1)
    q.lease(30)[0].fail()
    assert app.queue("q-fail").counts().ready == 0


def test_a_failure_job_of_the_same_id_replaces_one_that_waits_and_stands_beside_one_that_runs(app: Headrace) -> None:
    q, fails = app.queue("q"), app.queue("q-fail")
    app.failure_jobs("q")

    def fail(data: str) -> None:
        q.enqueue(data, id="x")
        (claim,) = q.lease(30)
        claim.fail(data)

    fail("one")
    fail("two")
    assert fails.counts().ready == 1
    (first,) = fails.lease(30)
    assert first.data.data == "two"
    fail("three")
    (second,) = fails.lease(30)
    assert second.data.data == "three"
    assert first.complete()
    assert second.complete()


def test_failure_options_are_checked(app: Headrace) -> None:
    with pytest.raises(OptionError, match=r"failure_options of queue 'q' has no option 'max_failure': did you mean"):
        app.queue("q", failure_options={"max_failure": 1})  # pyright: ignore[reportArgumentType]
