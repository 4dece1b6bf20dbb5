"""What the request queue of document 004 (tokens, counters, pub/sub) gets wrong and the engine here must not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from headrace import Headrace
from tests.queues.places import Clock, Place, fresh
from tests.tools.processes import eventually
from tests.tools.proxy import ChaosProxy
from tests.tools.servers import Server


def test_no_token_dies_with_its_worker(timed: Headrace, clock: Clock) -> None:
    """004 pops a token from a list for the time of a piece: with the worker the token is gone, and the limit lower."""
    q = timed.queue("q", max_stalls=None)
    timed.lane("request", queue="q", cap=2)
    q.enqueue_many(range(6), lane="request", max_stalls=None)
    for _ in range(4):
        assert len(q.lease(10, n=6)) == 2
        clock.forward(10)
    assert len(q.lease(10, n=6)) == 2
    assert q.lane("request").counts().running == 2


def test_a_piece_that_is_done_twice_counts_once(app: Headrace) -> None:
    """004 decrements its counter for every "job done": two for one piece end the request with a piece still to do."""
    q = app.queue("q")
    lane = app.lane("request", queue="q", cap=3)
    q.enqueue_many(range(3), lane="request", ids=None)
    claims = q.lease(30, n=3)
    assert [claims[0].complete() for _ in range(4)] == [True, False, False, False]
    assert q.complete_many([claims[0], claims[0], claims[1]]) == [False, False, True]
    counts = lane.counts()
    assert (counts.running, counts.ready) == (1, 0)
    assert claims[2].complete() is True
    assert lane.counts().running == 0


def test_an_empty_read_drops_no_token(app: Headrace) -> None:
    """004's worker takes a token, reads an empty stream, and forgets to give the token back."""
    q = app.queue("q")
    app.lane("request", queue="q", cap=1)
    for _ in range(5):
        assert q.lease(30, n=3) == []
    q.enqueue(1, lane="request")
    (claim,) = q.lease(30, n=3)
    q.enqueue(2, lane="request")
    for _ in range(5):
        assert q.lease(30, n=3) == []
    claim.complete()
    assert len(q.lease(30)) == 1


def test_no_crash_between_two_steps_strands_a_request(valkey: Server) -> None:
    """004 writes a request with one script and makes it visible with another: a crash in between strands it."""
    namespace = fresh()
    with ChaosProxy(valkey) as proxy, Headrace(proxy.url + "?socket_timeout=1", namespace=namespace) as app:
        q = app.queue("q")
        proxy.lose_request(before="enqueue", n=1)
        proxy.lose_reply(after="enqueue", n=2)
        jobs = q.enqueue_many(range(700), lane="request")
        assert len(q.lease(30, n=1000)) == len(jobs) == 700
        assert app.audit() == []


def test_no_end_is_missed_by_who_waits_for_it(valkey: Server) -> None:
    """004 tells the end on pub/sub, once: who is not connected in that moment waits for ever."""
    namespace = fresh()
    with (
        ChaosProxy(valkey) as proxy,
        Headrace(proxy.url + "?socket_timeout=1", namespace=namespace) as waiter,
        Headrace(valkey.url, namespace=namespace) as worker,
        ThreadPoolExecutor(1) as pool,
    ):
        job = waiter.queue("q").enqueue(1)
        (claim,) = worker.queue("q").lease(30)
        future = pool.submit(job.result, 20)
        hands = Place("valkey", valkey.url, 1, [valkey]).hands(namespace)
        eventually(lambda: hands("ZCARD", "watch") == 1, "it waits")
        proxy.blackhole()
        proxy.cut()
        claim.complete("told while nobody could hear it")
        proxy.restore()
        assert future.result(15) == "told while nobody could hear it"
        hands.clean()
        hands.close()


def test_a_low_priority_gets_its_turn_where_aging_is_asked_for(timed: Headrace, clock: Clock) -> None:
    """004 serves the list of the highest priority while there is anything in it: the rest starves."""
    q = timed.queue("q")
    q.set(aging=2)
    q.enqueue("low", lane="low", priority=40, route="r")
    served: list[str] = []
    while "low" not in served and len(served) < 100:
        q.enqueue("high", lane="high", priority=50, route="r")
        served += [claim.data for claim in q.lease(1000)]
        clock.forward(1)
    assert 18 <= len(served) <= 24


def test_priorities_are_strict_where_it_is_not(app: Headrace) -> None:
    """The other side of it: without aging nothing of a lower priority goes before a higher one."""
    q = app.queue("q")
    q.enqueue_many(["low"] * 20, lane="low", priority=40, route="r")
    q.enqueue_many(["high"] * 20, lane="high", priority=50, route="r")
    assert [claim.data for claim in q.lease(30, n=40)] == ["high"] * 20 + ["low"] * 20
