"""Pause and block on queues, lanes and tasks: who, why, until when; a block wins."""

from __future__ import annotations

import pytest

from headrace import Headrace
from headrace.queues.lane import Ruled
from tests.queues.places import Clock


def on(app: Headrace, what: str) -> Ruled:
    q = app.queue("q")
    return {"queue": q, "lane": q.lane("g/a", route="r"), "group": q.lane("g", route="r"), "task": app.task_rules("t")}[
        what
    ]


@pytest.mark.parametrize("what", ["queue", "lane", "group", "task"])
def test_nothing_starts_until_it_is_taken_back(app: Headrace, what: str) -> None:
    q, rule = app.queue("q"), on(app, what)
    q.enqueue("under", lane="g/a", route="r", task="t")
    app.queue("other").enqueue("beside", task="u")
    assert rule.resume() is False
    assert rule.pause("the mail server is down", who="ada") is True
    assert q.lease(30) == []
    assert q.counts().ready == 1
    assert len(app.queue("other").lease(30)) == 1
    assert rule.unblock() is False
    assert rule.resume() is True
    assert [claim.data for claim in q.lease(30)] == ["under"]


@pytest.mark.parametrize("what", ["queue", "lane", "group", "task"])
def test_a_block_outlasts_any_resume(app: Headrace, what: str) -> None:
    q, rule = app.queue("q"), on(app, what)
    q.enqueue("under", lane="g/a", route="r", task="t")
    rule.block("incident 12", who="operator")
    rule.pause()
    assert q.lease(30) == []
    assert rule.resume() is True
    assert q.lease(30) == []
    rule.pause()
    assert rule.unblock() is True
    assert q.lease(30) == []
    assert rule.resume() is True
    assert len(q.lease(30)) == 1


@pytest.mark.parametrize("what", ["queue", "lane", "group", "task"])
def test_a_rule_ends_by_itself(timed: Headrace, clock: Clock, what: str) -> None:
    q, rule = timed.queue("q"), on(timed, what)
    q.enqueue("under", lane="g/a", route="r", task="t")
    rule.pause(until=clock.now + 10)
    rule.block(until=clock.now + 20)
    for _ in range(20):
        assert q.lease(1000) == []
        clock.forward(1)
    assert [claim.data for claim in q.lease(1000)] == ["under"]


def test_running_jobs_go_on_and_can_finish(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1)
    (claim,) = q.lease(30)
    q.block("everything stops")
    assert claim.report(0.5)
    claim.extend(60)
    assert claim.complete("finished")
    assert job.result(timeout=1) == "finished"


def test_jobs_of_a_stopped_task_do_not_hold_up_those_behind_them(app: Headrace) -> None:
    q = app.queue("q")
    app.task_rules("t").pause()
    q.enqueue_many(range(30), task="t", route="r", priority=90)
    q.enqueue("free", route="r")
    assert [claim.data for claim in q.lease(30, n=1)] == ["free"]
    assert q.counts().ready == q.counts().parked == 30
    assert app.task_rules("t").resume()
    assert len(q.lease(30, n=50)) == 30


@pytest.mark.parametrize("n", [1, 5])
def test_however_many_jobs_of_a_stopped_task_hide_none(app: Headrace, n: int) -> None:
    """A claim puts aside only so many of them in one call: that it found nothing else yet is not its last word."""
    q = app.queue("q")
    q.enqueue_many(range(1450), task="t", route="r")
    q.enqueue_many(["known", "too"], route="r")
    app.task_rules("t").pause()
    assert [claim.data for claim in q.lease(30, n=n)] == ["known", "too"][:n]
    assert q.counts().parked == 1450


def test_resuming_a_task_frees_all_however_many(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(2500), task="t", route="r")
    app.task_rules("t").pause()
    assert q.lease(30, n=3000) == []
    app.task_rules("t").resume()
    assert len(q.lease(30, n=3000)) == 2500


def test_a_task_keeps_its_order_through_a_pause(app: Headrace) -> None:
    q = app.queue("q")
    for n, priority in enumerate((50, 50, 90, 10)):
        q.enqueue(n, task="t", route="r", priority=priority)
    app.task_rules("t").pause()
    assert q.lease(30, n=10) == []
    app.task_rules("t").resume()
    assert [claim.data for claim in q.lease(30, n=10)] == [2, 0, 1, 3]


def test_attempts_are_not_counted_for_jobs_that_were_turned_away(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("l", queue="q", rate="1/h", cap=1)
    q.enqueue(1, task="t", lane="l")
    app.task_rules("t").pause()
    assert q.lease(30) == []
    app.task_rules("t").resume()
    (claim,) = q.lease(30)
    assert (claim.attempt, claim.failures) == (1, 0)


def test_pause_and_resume_storms_double_nothing(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(50), task="t")
    for _ in range(20):
        app.task_rules("t").pause()
        assert q.lease(30, n=7) == []
        q.pause()
        app.task_rules("t").resume()
        q.resume()
    claims = q.lease(30, n=100)
    assert sorted(claim.data for claim in claims) == list(range(50))


def test_a_cancelled_or_updated_job_that_is_parked(app: Headrace) -> None:
    q = app.queue("q")
    jobs = [q.enqueue(n, id=str(n), task="t") for n in range(3)]
    app.task_rules("t").pause()
    assert q.lease(30, n=3) == []
    assert jobs[0].cancel()
    assert q.enqueue("new", id="1", task="t").outcome == "updated"
    assert q.counts().ready == 2
    app.task_rules("t").resume()
    assert {claim.id: claim.data for claim in q.lease(30, n=5)} == {"1": "new", "2": 2}
