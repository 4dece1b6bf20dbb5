"""Closing an app ends its waits at once, and it claims nothing any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
import redis
import uvloop

from headrace import Headrace, ServerUnavailable, clock
from tests.queues.places import Hands, Place, fresh
from tests.tools.processes import eventually, new_directory
from tests.tools.proxy import ChaosProxy
from tests.tools.servers import Server

CLOSED = r"this connection to .* has been closed: open a new one"
LOOPS = [None, uvloop.new_event_loop]


@pytest.fixture
def other(place: Place, namespace: str, hands: Hands) -> Generator[Headrace]:
    """The app that is closed."""
    with place.open(namespace) as made:
        yield made


@pytest.fixture
def pool() -> Generator[ThreadPoolExecutor]:
    """Threads to wait in."""
    with ThreadPoolExecutor(4) as made:
        yield made


def waiting(hands: Hands) -> bool:
    now = clock.wall() * 1000
    return all(hands("ZCOUNT", "waiters", now, "+inf", shard=shard) for shard in range(hands.place.shards))


def nobody_waits(hands: Hands) -> None:
    """It takes a moment until who left has said so; far less than a wait would last."""
    shards = range(hands.place.shards)
    before = clock.wall() * 1000
    eventually(
        lambda: not any(hands("ZCOUNT", "waiters", before, "+inf", shard=shard) for shard in shards), "it left", 3
    )


def test_a_lease_that_waits(app: Headrace, other: Headrace, hands: Hands, pool: ThreadPoolExecutor) -> None:
    waiter = pool.submit(other.queue("q").lease, 30, 1, 60)
    eventually(lambda: waiting(hands), "it waits")
    other.close()
    with pytest.raises(ServerUnavailable, match=CLOSED):
        waiter.result(5)
    nobody_waits(hands)
    app.queue("q").enqueue("x")
    (claim,) = app.queue("q").lease(30)
    assert claim.attempt == 1
    with pytest.raises(ServerUnavailable, match=CLOSED):
        other.queue("q").lease(30)


def test_a_result_that_is_waited_for(app: Headrace, other: Headrace, hands: Hands, pool: ThreadPoolExecutor) -> None:
    job = app.queue("q").enqueue("x", id="x")
    waiter = pool.submit(other.queue("q").job("x").result, 60)
    watched = range(hands.place.shards)
    eventually(lambda: any(hands("EXISTS", "watch", shard=shard) for shard in watched), "it waits")
    other.close()
    with pytest.raises(ServerUnavailable, match=CLOSED):
        waiter.result(5)
    assert job.status() == "ready"


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("how", ["aclose", "close", "close in a thread"])
def test_awaited_waits(
    app: Headrace, other: Headrace, hands: Hands, how: str, loop_factory: Callable[[], Any] | None
) -> None:
    app.queue("q").enqueue("later", id="x", delay=3600)

    async def run() -> None:
        waiters: list[Coroutine[Any, Any, object]] = [
            other.queue("q").alease(30, wait=None),
            other.queue("q").job("x").aresult(),
            anext(cast(Any, other.queue("q").aleases(30))),
        ]
        tasks = [asyncio.create_task(waiter) for waiter in waiters]
        watched = range(hands.place.shards)
        await asyncio.to_thread(
            eventually,
            lambda: waiting(hands) and any(hands("EXISTS", "watch", shard=shard) for shard in watched),
            "they wait",
        )
        if how == "aclose":
            await other.aclose()
            assert all(task.done() for task in tasks)
        elif how == "close":
            other.close()
        else:
            await asyncio.to_thread(other.close)
        for task in tasks:
            with pytest.raises(ServerUnavailable, match=CLOSED):
                await asyncio.wait_for(task, 5)

    with asyncio.Runner(loop_factory=loop_factory) as loop:
        loop.run(run())
    nobody_waits(hands)


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_claim_that_comes_in_while_closing_goes_back(valkey: Server, kind: str, pool: ThreadPoolExecutor) -> None:
    namespace = fresh()
    with Headrace(valkey.url, namespace=namespace) as app, ChaosProxy(valkey) as proxy:
        q = app.queue("q")
        q.enqueue_many(range(3))
        other = Headrace(proxy.url, namespace=namespace)
        q.enqueue("before")
        claimed = [claim.data for claim in other.queue("q").lease(30)]
        proxy.delay(0.3)
        before = proxy.counts.total()

        def on_its_way() -> bool:
            return proxy.counts.total() > before

        if kind == "blocking":
            leasing = pool.submit(other.queue("q").lease, 3600, 3)
            eventually(on_its_way, "the claim is on its way")
            other.close()
            with pytest.raises(ServerUnavailable, match=CLOSED):
                leasing.result(10)
        else:

            async def run() -> None:
                task = asyncio.create_task(other.queue("q").alease(3600, 3))
                await asyncio.to_thread(eventually, on_its_way, "the claim is on its way")
                await other.aclose()
                with pytest.raises(ServerUnavailable, match=CLOSED):
                    await asyncio.wait_for(task, 10)

            asyncio.run(run())
        assert q.counts().running == len(claimed)
        assert {claim.attempt for claim in q.lease(30, n=5)} == {1}


def test_a_waiter_of_an_embedded_server(caplog: pytest.LogCaptureFixture, pool: ThreadPoolExecutor) -> None:
    """Its server may stop with it: nobody tries to start it again, and no line is logged."""
    folder: Path = new_directory("closing") / "data"
    app = Headrace(folder=folder)
    waiter: Future[Any] = pool.submit(app.queue("q").lease, 30, 1, 60)
    with cast(Any, redis.Redis).from_url(app.url) as client:
        eventually(lambda: client.info("clients")["blocked_clients"] == 1, "it waits", 15)
    caplog.clear()
    app.close()
    with pytest.raises(ServerUnavailable, match=CLOSED):
        waiter.result(5)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
