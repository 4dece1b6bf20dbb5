"""Cancelling: what waits ends now, what runs is told."""

from __future__ import annotations

import pytest

from headrace import Headrace, JobCancelled
from tests.queues.places import Clock


@pytest.mark.parametrize("status", ["ready", "scheduled"])
def test_a_waiting_job_is_gone_at_once(app: Headrace, status: str) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x", delay=60 if status == "scheduled" else 0)
    assert job.status() == status
    assert job.cancel(why="changed our mind") is True
    assert job.status() == "cancelled"
    assert q.counts().waiting == 0
    assert job.cancel() is False
    assert q.cancel("x") is False
    with pytest.raises(JobCancelled, match="changed our mind"):
        job.result(timeout=1)


def test_a_job_that_was_retried_forgets_its_counts(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    q.lease(30)[0].retry("no", delay=0)
    assert job.cancel()
    assert q.enqueue(1, id="x").info().counts == (0, 0, 0, 0)


def test_a_running_job_is_only_told_when_asked_for(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    (claim,) = q.lease(30)
    assert job.cancel() is False
    assert claim.report(0.1) is True
    assert job.cancel(running=True, why="stop") is True
    assert job.status() == "running"
    assert job.info().cancelled_by == "stop"
    assert claim.report(0.2) is False


@pytest.mark.parametrize("end", ["retry", "fail", "release", "abandon"])
def test_a_marked_job_ends_as_cancelled_whatever_its_worker_says(app: Headrace, end: str) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    (claim,) = q.lease(30)
    job.cancel(running=True, why="stop")
    assert getattr(claim, end)() == "cancelled"
    assert job.status() == "cancelled"
    with pytest.raises(JobCancelled, match="stop"):
        job.result(timeout=1)
    assert q.counts().failed == q.counts().waiting == 0


def test_who_completes_before_the_mark_arrives_has_won(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    (claim,) = q.lease(30)
    job.cancel(running=True)
    assert claim.complete("was done already") is True
    assert job.result(timeout=1) == "was done already"


def test_a_marked_job_whose_worker_dies_ends_as_cancelled(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    job = q.enqueue(1, id="x")
    q.lease(10)
    job.cancel(running=True, why="stop")
    clock.forward(10)
    assert q.lease(10) == []
    assert job.status() == "cancelled"


def test_ended_and_unknown_jobs(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="done")
    q.lease(30)[0].complete("kept")
    assert job.cancel(running=True) is False
    assert job.result(timeout=1) == "kept"
    q.enqueue(1, id="failed")
    q.lease(30)[0].fail()
    assert q.cancel("failed", running=True) is False
    assert q.job("failed").status() == "failed"
    assert q.cancel("never", running=True) is False


def test_a_job_with_a_route(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue(1, id="x", lane="l", route="tenant")
    assert q.cancel("x", route="tenant") is True
    assert q.counts().ready == 0
