"""An id that is enqueued again while it waits: each flag, with its default and without."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Headrace, Job, Queue
from tests.queues.places import Clock

OLD: dict[str, Any] = {
    "max_failures": 1, "max_stalls": 1, "max_timeouts": 1, "timeout": 1.0, "min_backoff": 1.0, "max_backoff": 100.0,
    "keep_result": 100.0, "keep_failed": 100.0, "unique_for": 1.0,
}  # fmt: skip
NEW: dict[str, Any] = {
    "max_failures": 2, "max_stalls": 2, "max_timeouts": None, "timeout": None, "min_backoff": 2.0, "max_backoff": 200.0,
    "keep_result": 200.0, "keep_failed": None, "unique_for": 2.0,
}  # fmt: skip


def test_data_is_updated_unless_told_not_to(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue("one", id="x")
    assert q.enqueue("two", id="x").outcome == "updated"
    assert q.job("x").info().data == "two"
    assert q.enqueue("three", id="x", update_data=False).outcome == "updated"
    assert q.job("x").info().data == "two"
    assert q.counts().ready == 1


def test_an_update_answers_a_handle_of_the_same_job(app: Headrace) -> None:
    q = app.queue("q")
    first, again = q.enqueue("one", id="x"), q.enqueue("two", id="x")
    assert first == again
    (claim,) = q.lease(30)
    assert claim.complete(claim.data)
    assert first.result(timeout=5) == again.result(timeout=5) == "two"


@pytest.mark.parametrize("name", OLD)
def test_an_option_is_taken_over_when_given_and_not_told_otherwise(app: Headrace, name: str) -> None:
    q = app.queue("q")

    def after(**flags: Any) -> Any:
        job = q.enqueue(1, id=f"x{flags}", **OLD)
        q.enqueue(2, id=job.id, **flags)
        options = job.info().options
        assert {**options, name: None} == {**OLD, name: None}, "no other option may change"
        assert job.cancel()
        return options[name]

    assert after() == OLD[name]
    assert after(**{name: NEW[name]}) == NEW[name]
    assert after(**{name: NEW[name], f"update_{name}": False}) == OLD[name]
    given = q.enqueue(1).info().options[name]
    assert after(**{f"update_{name}": True}) == given, "the usual value is taken over when asked for"


def test_priority_and_lane_are_taken_over_when_given(app: Headrace) -> None:
    q = app.queue("q")

    def where(job: Job) -> tuple[int, str]:
        info = job.info()
        return info.priority, info.lane

    job = q.enqueue(1, id="x", priority=10, lane="a", route="r")
    q.enqueue(2, id="x", route="r")
    assert where(job) == (10, "a")
    q.enqueue(2, id="x", priority=90, update_priority=False, lane="b", update_lane=False, route="r")
    assert where(job) == (10, "a")
    q.enqueue(2, id="x", priority=90, lane="b/c", route="r")
    assert where(job) == (90, "b/c")
    assert [app.queue("q").lane(lane, route="r").counts().ready for lane in ("a", "b", "b/c")] == [0, 1, 1]
    q.enqueue(2, id="x", update_priority=True, update_lane=True, route="r")
    assert where(job) == (50, "")


def test_a_new_priority_moves_the_job_in_line(app: Headrace) -> None:
    q = app.queue("q")
    for id in "abc":
        q.enqueue(id, id=id, route="r")
    q.enqueue("c", id="c", priority=60, route="r")
    q.enqueue("a", id="a", priority=40, route="r")
    assert [claim.id for claim in q.lease(30, n=3)] == ["c", "b", "a"]


def test_an_update_keeps_the_place_in_line(app: Headrace) -> None:
    q = app.queue("q")
    for id in "abc":
        q.enqueue(id, id=id, route="r")
    q.enqueue("new", id="a", route="r")
    assert [(claim.id, claim.data) for claim in q.lease(30, n=3)] == [("a", "new"), ("b", "b"), ("c", "c")]


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        (None, {5: 5, 15: 15, None: 0}),
        (True, {5: 5, 15: 15, None: 0}),
        (False, {5: 10, 15: 10, None: 10}),
        ("if_later", {5: 10, 15: 15, None: 10}),
        ("if_earlier", {5: 5, 15: 10, None: 0}),
    ],
)
def test_run_at(timed: Headrace, clock: Clock, flag: Any, expected: dict[int | None, int]) -> None:
    q = timed.queue("q")
    flags: dict[str, Any] = {} if flag is None else {"update_run_at": flag}
    for given, at in expected.items():
        job = q.enqueue(1, id="x", delay=10)
        when: dict[str, Any] = {} if given is None else {"run_at": clock.now + given}
        q.enqueue(2, id="x", **(flags | when))
        assert job.status() == ("scheduled" if at else "ready")
        if at:
            assert job.info().at == clock.now + at
        counts = q.counts()
        assert (counts.scheduled, counts.ready) == (bool(at), not at)
        assert job.cancel()


def test_a_ready_job_can_be_put_off(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    job = q.enqueue(1, id="x")
    q.enqueue(1, id="x", delay=10, update_run_at="if_earlier")
    assert job.status() == "ready"
    q.enqueue(1, id="x", delay=10, update_run_at="if_later")
    assert job.status() == "scheduled"
    assert q.lease(30) == []
    clock.forward(10)
    assert [claim.id for claim in q.lease(30)] == ["x"]


def failed_once(q: Queue) -> None:
    q.enqueue("old", id="x")
    (claim,) = q.lease(30)
    claim.retry("first", delay=0)


def test_counts_are_reset_with_new_data(app: Headrace) -> None:
    q = app.queue("q")
    failed_once(q)
    assert q.job("x").info().counts == (1, 1, 0, 0)
    q.enqueue("old", id="x", update_data=False)
    assert q.job("x").info().counts == (1, 1, 0, 0)
    q.enqueue("new", id="x", reset_counts=False)
    assert q.job("x").info().counts == (1, 1, 0, 0)
    info = q.job("x").info()
    assert info.error is not None
    assert info.error.message == "first"
    q.enqueue("new", id="x")
    info = q.job("x").info()
    assert (info.counts, info.error) == ((0, 0, 0, 0), None)


def test_counts_are_reset_alone_when_asked_for(app: Headrace) -> None:
    q = app.queue("q")
    failed_once(q)
    q.enqueue("new", id="x", update_data=False, reset_counts=True)
    info = q.job("x").info()
    assert (info.data, info.counts) == ("old", (0, 0, 0, 0))


def test_a_finished_id_is_free_again(app: Headrace) -> None:
    q = app.queue("q")
    for end in ("complete", "fail", "cancel"):
        first = q.enqueue(end, id="x", max_failures=0)
        if end == "cancel":
            first.cancel()
        else:
            getattr(q.lease(30)[0], end)()
        again = q.enqueue("again", id="x")
        assert again.outcome == "added"
        info = again.info()
        assert (info.status, info.data, info.counts, info.error) == ("ready", "again", (0, 0, 0, 0), None)
        assert q.counts().failed == 0
        assert again.cancel()
