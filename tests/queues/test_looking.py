"""Counts, pages of jobs by status, names of lanes and queues."""

from __future__ import annotations

import pytest

from headrace import Counts, Headrace, OptionError
from headrace.protocol.looking import Listed
from tests.queues.places import Hands


def test_counts_of_queues_and_lanes_in_every_status(app: Headrace) -> None:
    q = app.queue("q")
    for n in range(3):
        q.enqueue(n, lane="g/a", route="r")
    q.enqueue(0, lane="g/b", route="r", delay=60)
    q.enqueue(0, lane="c", route="r", id="runs", priority=90)
    q.enqueue(0, route="r", priority=80)
    (runs, fails) = q.lease(30, n=2)
    q.enqueue(0, lane="c", route="r", id="runs")
    fails.fail()
    assert q.counts() == Counts(scheduled=1, ready=3, held=1, running=1, failed=1, parked=0)
    assert q.counts().waiting == 5
    assert q.lane("g", route="r").counts() == Counts(1, 3, 0, 0, 0, 0)
    assert q.lane("g/a", route="r").counts() == Counts(0, 3, 0, 0, 0, 0)
    assert q.lane("g/b", route="r").counts() == Counts(1, 0, 0, 0, 0, 0)
    assert q.lane("c", route="r").counts() == Counts(0, 0, 1, 1, 0, 0)
    assert q.lane("never", route="r").counts() == Counts(0, 0, 0, 0, 0, 0)
    assert app.counts() == {"q": q.counts()}
    runs.complete()
    assert q.lane("c", route="r").counts() == Counts(0, 1, 0, 0, 0, 0)


def test_counts_cost_one_call_a_shard(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    q.enqueue_many(range(300))
    before = hands.calls()
    assert q.counts().ready == 300
    assert hands.calls() - before == app.shards


def test_pages_of_jobs_by_status(app: Headrace) -> None:
    q = app.queue("q")
    ready = {job.id for job in q.enqueue_many(range(150), lane="a", route="r")}
    scheduled = {job.id for job in q.enqueue_many(range(30), lane="b", delay=60)}
    q.enqueue_many(range(40), lane="c", priority=90, route="r")
    claims = q.lease(30, n=40)
    failed = {claim.id for claim in claims[:10] if claim.fail()}
    running = {claim.id for claim in claims[10:]}
    held = {job.id for job in q.enqueue_many(range(5), ids=list(running)[:5], route="r")}
    standing: dict[Listed, set[str]] = {
        "ready": ready, "scheduled": scheduled, "failed": failed, "running": running, "held": held,
    }  # fmt: skip
    for status, ids in standing.items():
        for page in (7, 1000):
            found = [job.id for job in q.jobs(status, page=page)]
            assert set(found) == ids, status
            assert len(found) == len(ids), (status, "none twice while nothing changes")
    assert {job.id for job in q.lane("a", route="r").jobs()} == ready
    assert {job.id for job in q.lane("b").jobs("scheduled")} == scheduled
    assert {job.id for job in q.lane("c", route="r").jobs("running")} == running
    assert [job.id for job in q.lane("b").jobs("ready")] == []


def test_ready_jobs_of_a_lane_come_in_order(app: Headrace) -> None:
    q = app.queue("q")
    for n, priority in enumerate((10, 90, 50, 90)):
        q.enqueue(n, priority=priority, route="r")
    assert [job.info().data for job in q.jobs()] == [1, 3, 2, 0]


def test_a_handle_of_a_page_is_the_job_s(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue("data", id="x")
    (job,) = list(q.jobs())
    assert (job.id, job.queue, job.outcome, job.info().data) == ("x", "q", "", "data")
    assert job.cancel()


def test_names_of_lanes_and_queues(app: Headrace) -> None:
    q = app.queue("q")
    assert (app.queue_names(), q.lanes(), app.counts()) == ([], [], {})
    q.enqueue(1, lane="b/y")
    q.enqueue(1, lane="b/x")
    q.enqueue(1, lane="a")
    app.queue("p").enqueue(1)
    assert app.queue_names() == ["p", "q"]
    assert q.lanes() == ["a", "b"]
    assert q.lane("b").lanes() == ["x", "y"]
    assert set(app.counts()) == {"p", "q"}


def test_a_status_that_is_none(app: Headrace) -> None:
    with pytest.raises(OptionError, match="status='done': expected one of ready, scheduled, held, running, failed"):
        list(app.queue("q").jobs("done"))  # pyright: ignore[reportArgumentType]
