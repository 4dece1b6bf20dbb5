"""What the flow engine of document 000 gets wrong and the engine here must not."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace import ClaimLost, Headrace
from headrace import clock as time
from tests.queues.places import Clock, Hands, Place


def test_a_completion_after_the_lock_was_lost_writes_nothing(timed: Headrace, clock: Clock) -> None:
    """000 keeps a lock key with a time to live; a worker whose lock ran out writes its state all the same."""
    q = timed.queue("q")
    job = q.enqueue("data")
    (slow,) = q.lease(60)
    clock.forward(60)
    (fast,) = q.lease(60)
    assert slow.complete("too late") is False
    for write in ("report", "retry", "fail", "release"):
        with pytest.raises(ClaimLost):
            getattr(slow, write)()
    assert job.status() == "running"
    assert fast.complete("in time") is True
    assert job.result(timeout=1) == "in time"


def test_nothing_of_a_waiting_job_expires(app: Headrace, hands: Hands) -> None:
    """000 stores state under keys with a time to live, which runs out while the job still waits in its list."""
    q = app.queue("q")
    q.enqueue(1, id="ready")
    q.enqueue(1, id="scheduled", delay=3600)
    q.enqueue(1, id="fails", keep_failed=1, priority=90)
    (claim,) = q.lease(30)
    claim.retry("once", delay=60)
    q.enqueue(1, id="runs", priority=90)
    q.lease(30)
    q.enqueue(2, id="runs")
    for shard in range(app.shards):
        for name in list(hands.names()):
            short = name.removeprefix(hands.key("", shard))
            if not short.startswith("{") and short[:2] in ("j:", "z:", "h:", "t:", "n:"):
                assert hands("TTL", short, shard=shard) in (-1, -2), name


def test_what_a_worker_does_after_its_deadline_is_refused(timed: Headrace, clock: Clock) -> None:
    """000 lets a handler run on after its timeout; here its claim is gone by then, and the server says so."""
    q = timed.queue("q", max_timeouts=0)
    job = q.enqueue(1, timeout=30)
    (claim,) = q.lease(3600)
    clock.forward(36)
    q.lease(1)
    assert job.status() == "failed"
    with pytest.raises(ClaimLost):
        claim.report(0.9, "still busy")
    assert claim.complete() is False


def test_two_monitors_at_once_put_a_job_back_once(app: Headrace, place: Place, namespace: str) -> None:
    """000's monitor reads the list, looks at the lock, and moves the job: two of them move it twice."""
    q = app.queue("q")
    ids = [job.id for job in q.enqueue_many(range(60))]
    assert len(q.lease(0.2, n=60)) == 60
    seen: list[str] = []
    start = threading.Barrier(6)

    def monitor() -> None:
        start.wait()
        until = time.monotonic() + 1
        while len(seen) < 60 and time.monotonic() < until:
            seen.extend(claim.id for claim in other.queue("q").lease(30, n=7, wait=0.05))

    with place.open(namespace) as other, ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(monitor) for _ in range(6)]:
            future.result()
    assert Counter(seen) == Counter(ids)
    stalled = Counter(event.id for event in app.history(10_000) if event.kind == "stalled")
    assert stalled == Counter(ids)


def test_no_job_waits_for_a_pause_between_jobs(app: Headrace, place: Place, namespace: str) -> None:
    """000 sleeps 100 ms between any two jobs."""
    q = app.queue("q")
    q.enqueue_many(range(100))
    started = time.monotonic()
    done = 0
    with place.open(namespace) as other:
        while claims := other.queue("q").lease(30):
            done += claims[0].complete()
    assert done == 100
    assert time.monotonic() - started < 5


def test_no_call_gets_slower_with_the_number_of_jobs(app: Headrace, hands: Hands) -> None:
    """000 finds and removes jobs by walking its lists (LRANGE, LREM): each call costs as much as there are jobs."""

    def cost() -> float:
        """Server time of a round of calls, in microseconds: the least of some rounds."""
        rounds: list[float] = []
        for n in range(8):
            before = spent(hands)
            q.enqueue(n, id="one", priority=90, route="r")
            (claim,) = q.lease(30)
            q.enqueue(n, id="two", priority=10, route="r")
            q.cancel("two", route="r")
            q.job("one", route="r").status()
            q.job("one", route="r").explain()
            claim.retry(delay=0)
            (claim,) = q.lease(30)
            q.counts()
            claim.complete()
            rounds.append(spent(hands) - before)
        return min(rounds)

    q = app.queue("q")
    q.enqueue_many(range(100), route="r")
    few = cost()
    q.enqueue_many(range(30_000), route="r")
    many = cost()
    assert many < 3 * few + 200, (few, many)


def spent(hands: Hands) -> float:
    """Microseconds that the servers spent in functions."""
    stats = [client.info("commandstats") for client in hands.clients]
    return sum(node.get("cmdstat_fcall", {}).get("usec", 0) for node in stats)
