"""Replies and requests that get lost between a queue and its server: everything happens once."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
import uvloop

from headrace import Headrace
from headrace import clock as time
from tests.queues.awaited import awaited
from tests.queues.places import fresh
from tests.tools.processes import eventually
from tests.tools.proxy import ChaosProxy
from tests.tools.servers import Server


@pytest.fixture
def proxy(valkey: Server) -> Generator[ChaosProxy]:
    """Between the app and its server."""
    with ChaosProxy(valkey) as made:
        yield made


@pytest.fixture(params=["blocking", "asyncio", "uvloop"])
def shaky(request: pytest.FixtureRequest, proxy: ChaosProxy, valkey: Server) -> Generator[Headrace]:
    """An app behind the proxy, by each transport; audited at the end."""
    namespace = fresh()
    with Headrace(proxy.url + "?socket_timeout=1", namespace=namespace) as real:
        if request.param == "blocking":
            yield real
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop if request.param == "uvloop" else None) as loop:
                yield awaited(real, loop)
                loop.run(real.aclose())
    with Headrace(valkey.url, namespace=namespace) as after:
        found = after.audit()
        assert not found, found


def lose(proxy: ChaosProxy, way: str, function: str, n: int = 1) -> Any:
    return proxy.lose_reply(after=function, n=n) if way == "reply" else proxy.lose_request(before=function, n=n)


@pytest.mark.parametrize("way", ["reply", "request"])
def test_an_enqueue_makes_exactly_one_job(shaky: Headrace, proxy: ChaosProxy, way: str) -> None:
    q = shaky.queue("q")
    for id in ("given", None):
        lost = lose(proxy, way, "enqueue")
        job = q.enqueue({"for": id}, id=id)
        assert lost.fired.is_set()
        assert job.outcome == "added"
        assert q.counts().ready == 1
        (claim,) = q.lease(30, n=5)
        assert claim.id == job.id
        assert claim.complete("once")
        assert job.result(timeout=5) == "once"


@pytest.mark.parametrize("way", ["reply", "request"])
def test_many_jobs_are_each_made_once(shaky: Headrace, proxy: ChaosProxy, way: str) -> None:
    q = shaky.queue("q")
    rules = [lose(proxy, way, "enqueue", n) for n in (2, 5, 7)]
    jobs = q.enqueue_many(range(2000))
    assert all(rule.fired.is_set() for rule in rules)
    assert [job.outcome for job in jobs] == ["added"] * 2000
    assert [claim.data for claim in q.lease(30, n=3000)] == list(range(2000))


@pytest.mark.parametrize("way", ["reply", "request"])
def test_a_claim_orphans_nothing(shaky: Headrace, proxy: ChaosProxy, way: str) -> None:
    q = shaky.queue("q")
    q.enqueue_many(range(10))
    lost = lose(proxy, way, "claim")
    claims = q.lease(3600, n=4)
    assert lost.fired.is_set()
    assert [claim.data for claim in claims] == [0, 1, 2, 3]
    assert q.counts().running == 4
    assert q.complete_many(claims) == [True] * 4
    assert [claim.data for claim in q.lease(3600, n=10)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("way", ["reply", "request"])
def test_a_claim_after_waiting_orphans_nothing(shaky: Headrace, proxy: ChaosProxy, way: str) -> None:
    q = shaky.queue("q")
    q.enqueue("due", delay=0.05)
    lost = lose(proxy, way, "claim", 2)
    (claim,) = q.lease(3600, wait=10)
    assert lost.fired.is_set()
    assert claim.complete()
    assert q.counts().running == 0


@pytest.mark.parametrize("way", ["reply", "request"])
def test_complete_is_still_true(shaky: Headrace, proxy: ChaosProxy, way: str) -> None:
    q = shaky.queue("q")
    jobs = q.enqueue_many(range(4))
    claims = q.lease(30, n=4)
    lost = lose(proxy, way, "finish")
    assert claims[0].complete("alone") is True
    assert lost.fired.is_set()
    assert claims[0].complete("again") is False
    lost = lose(proxy, way, "finish")
    assert q.complete_many(claims, ["again", 1, 2, 3]) == [False, True, True, True]
    assert lost.fired.is_set()
    assert [job.result(timeout=5) for job in jobs] == ["alone", 1, 2, 3]


@pytest.mark.parametrize("way", ["reply", "request"])
def test_every_other_end_counts_once(shaky: Headrace, proxy: ChaosProxy, way: str) -> None:
    q = shaky.queue("q")
    job = q.enqueue(1)
    for end in ("retry", "release", "abandon"):
        (claim,) = q.lease(30)
        lost = lose(proxy, way, "finish")
        assert getattr(claim, end)(**({"delay": 0} if end != "abandon" else {})) == "waiting"
        assert lost.fired.is_set()
    assert job.info().counts == (2, 1, 1, 0)
    (claim,) = q.lease(30)
    lost = lose(proxy, way, "finish")
    assert claim.fail("for good") == "failed"
    assert lost.fired.is_set()
    lost = lose(proxy, way, "replay")
    assert q.retry_failed() == 1
    assert lost.fired.is_set()


@pytest.mark.parametrize("way", ["reply", "request"])
def test_what_changes_nothing_twice_is_asked_again(shaky: Headrace, proxy: ChaosProxy, way: str) -> None:
    q = shaky.queue("q")
    job = q.enqueue(1, id="x")
    (claim,) = q.lease(30)
    steps: dict[str, Any] = {
        "extend": lambda: claim.extend(60) is True,
        "report": lambda: claim.report(0.5) is True,
        "look": lambda: job.status() == "running",
        "counts": lambda: q.counts().running == 1,
        "explain": lambda: job.explain().codes == ("running",),
        "rules": lambda: q.pause() is True,
        "lane": lambda: q.set(cap=5) is None,
        "inspect": lambda: [one.id for one in q.jobs("running")] == ["x"],
        "audit": lambda: shaky.audit() == [],
        "cancel": lambda: q.cancel("x", running=True) is True,
    }
    for function, step in steps.items():
        lost = lose(proxy, way, function)
        assert step(), function
        assert lost.fired.is_set(), function


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_who_is_cancelled_in_the_middle_of_a_claim_keeps_nothing(valkey: Server, proxy: ChaosProxy, kind: str) -> None:
    """The reply was on its way: what it brought goes back at once, uncounted, not when its lease runs out."""

    async def run() -> None:
        async with Headrace(proxy.url, namespace=fresh()) as app:
            q = app.queue("q")
            await q.aenqueue_many(range(5))
            proxy.delay(0.2)
            before = proxy.counts.total()
            task = asyncio.create_task(q.alease(3600, n=3))
            await asyncio.to_thread(eventually, lambda: proxy.counts.total() > before, "the claim is on its way")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            proxy.restore()
            assert (await q.acounts()).running == 0
            claims = await q.alease(30, n=5)
            assert [(claim.data, claim.attempt) for claim in claims] == [(n, 1) for n in range(5)]
            assert await app.aaudit() == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if kind == "uvloop" else None) as loop:
        loop.run(run())


def test_who_is_cancelled_while_nobody_answers_leaves_soon(valkey: Server, proxy: ChaosProxy) -> None:
    async def run() -> float:
        async with Headrace(proxy.url + "?socket_timeout=0.3", namespace=fresh()) as app:
            waiting = asyncio.create_task(app.queue("q").alease(30, wait=None))
            await asyncio.to_thread(eventually, lambda: proxy.counts["blpop"] > 0, "it waits")
            proxy.blackhole()
            started = time.monotonic()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return time.monotonic() - started

    try:
        assert asyncio.run(run()) < 4
    finally:
        proxy.restore()


def test_a_result_is_waited_for_through_broken_connections(shaky: Headrace, proxy: ChaosProxy, valkey: Server) -> None:
    q = shaky.queue("q")
    job = q.enqueue(1)
    (claim,) = q.lease(30)
    lost = lose(proxy, "reply", "watch")
    with pytest.raises(TimeoutError):
        job.result(timeout=0.3)
    assert lost.fired.is_set()
    proxy.cut()
    claim.complete("at last")
    assert job.result(timeout=5) == "at last"
