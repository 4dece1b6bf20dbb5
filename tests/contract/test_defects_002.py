"""What the queue of document 002 (retries, stalls, singletons) gets wrong and the engine here must not."""

from __future__ import annotations

import pytest

from headrace import ClaimLost, Headrace
from headrace import clock as time
from tests.queues.places import Clock
from tests.tools.servers import Server


def test_no_queue_is_dropped_when_there_is_no_room(app: Headrace) -> None:
    """002 takes a queue out of its rotation when its workers have no capacity left, and never puts it back."""
    q = app.queue("q")
    q.set(cap=2)
    q.enqueue_many(range(10), route="r")
    seen: list[int] = []
    for _ in range(8):
        claims = q.lease(30, n=5)
        assert q.lease(30, n=5) == [], "no room: asking again must not hurt"
        seen += [claim.data for claim in claims]
        for claim in claims:
            claim.complete()
    assert seen == list(range(10))


def test_priorities_run_the_way_they_are_numbered(app: Headrace) -> None:
    """002 takes the lowest score first and calls the greatest the most important."""
    q = app.queue("q")
    for priority in (0, 100, 50, 99, 1):
        q.enqueue(priority, priority=priority, route="r")
    assert [claim.data for claim in q.lease(30, n=5)] == [100, 99, 50, 1, 0]


def test_a_swept_client_can_finish_nothing(timed: Headrace, clock: Clock) -> None:
    """002's success removes `{id}` whoever calls: a worker that was taken for dead ends the job under the next one."""
    q = timed.queue("q")
    job = q.enqueue("data", id="x")
    (swept,) = q.lease(10)
    clock.forward(10)
    (now,) = q.lease(10)
    assert swept.complete("zombie") is False
    with pytest.raises(ClaimLost):
        swept.retry("zombie")
    with pytest.raises(ClaimLost):
        swept.extend(10)
    assert q.counts().running == 1
    assert now.complete("alive") is True
    assert job.result(timeout=1) == "alive"


@pytest.mark.parametrize("skew", [-86_400, 86_400])
def test_no_client_s_clock_decides_anything(app: Headrace, monkeypatch: pytest.MonkeyPatch, skew: float) -> None:
    """002 computes deadlines and retry times from the clock of the client that calls."""
    wall = time.wall
    monkeypatch.setattr(time, "wall", lambda: wall() + skew)
    q = app.queue("q", min_backoff=0.05, max_backoff=0.05)
    later = q.enqueue("later", delay=60)
    q.enqueue("soon", delay=0.05)
    (claim,) = q.lease(0.2, wait=5)
    assert claim.data == "soon"
    assert claim.retry("backoff") == "waiting"
    (claim,) = q.lease(0.2, wait=5)
    assert (claim.data, claim.attempt) == ("soon", 2)
    assert q.lease(0.2) == [], "the lease holds"
    (claim,) = q.lease(30, wait=5)
    assert claim.stalls == 1
    claim.complete()
    assert later.status() == "scheduled"
    assert abs((later.info().queued_at or 0) - wall()) < 5


def test_a_twin_that_comes_during_a_retry_is_merged_by_its_flags(timed: Headrace, clock: Clock) -> None:
    """002's doRetry lays the blocked job's fields over the old one whatever its flags say, and loses its time."""
    q = timed.queue("q")
    first = q.enqueue({"v": 1}, id="x", max_failures=7)
    (claim,) = q.lease(30)
    q.enqueue({"v": 2}, id="x", update_data=False, max_failures=3, update_max_failures=False, delay=100)
    claim.retry("again", delay=5)
    info = first.info()
    assert (info.data, info.options["max_failures"], info.at) == ({"v": 1}, 7, clock.now + 100)
    assert info.counts.failures == 1
    q.enqueue({"v": 3}, id="x", run_at=clock.now + 3, update_run_at="if_later")
    info = first.info()
    assert (info.data, info.at, info.counts.failures) == ({"v": 3}, clock.now + 100, 0)
    clock.forward(100)
    (claim,) = q.lease(30)
    assert claim.data == {"v": 3}
    assert q.lease(30) == []


def test_the_timeout_that_is_documented_is_enforced(timed: Headrace, clock: Clock) -> None:
    """002 documents a timeout for jobs that nothing in it ever looks at."""
    q = timed.queue("q", timeout=20, max_timeouts=0)
    job = q.enqueue(1)
    (claim,) = q.lease(3600)
    clock.forward(26)
    assert q.lease(10) == []
    assert job.status() == "failed"
    assert claim.complete() is False


@pytest.mark.parametrize("end", ["lease", "enqueue", "finish"])
def test_a_server_that_is_killed_loses_and_doubles_nothing(end: str) -> None:
    """002 loses a job when Redis fails between its scripts, and runs it twice when only the reply was lost."""
    with Server(persistence="always") as server, Headrace(server.url) as app:
        q = app.queue("q")
        q.enqueue_many(range(20), ids=map(str, range(20)))
        claims = q.lease(60, n=5)
        server.kill()
        server.start()
        if end == "enqueue":
            assert q.enqueue("more", id="more").outcome == "added"
        if end == "lease":
            assert len(q.lease(60, n=3)) == 3
        assert q.complete_many(claims, [1] * 5) == [True] * 5
        done = {claim.id for claim in claims}
        rest = q.lease(60, n=50)
        assert not done & {claim.id for claim in rest}
        assert all(q.complete_many(rest))
        assert len(rest) == {"lease": 12, "enqueue": 16, "finish": 15}[end]
        assert app.audit() == []


def test_a_failure_handler_is_called_in_the_same_step(timed: Headrace, clock: Clock) -> None:
    """002 looks whether a handler is registered by the presence of jobs, and calls it in a step of its own."""
    timed.failure_jobs("q")
    q = timed.queue("q", max_stalls=0)
    q.enqueue("data", id="x")
    q.lease(10)
    clock.forward(10)
    fails = timed.queue("q-fail")
    assert (q.counts().failed, fails.counts().ready) == (0, 0)
    assert q.lease(10) == []
    assert (q.counts().failed, fails.counts().ready) == (1, 1), "both in the call that found the claim dead"
    assert [claim.data.data for claim in fails.lease(10)] == ["data"]
