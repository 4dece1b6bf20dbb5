"""Waiting for work blocks on the server: no polling, woken at once, and nobody is forgotten."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import uvloop

from headrace import Claim, Headrace, clock
from headrace.protocol.routing import Ring
from tests.queues.places import Hands, Place
from tests.tools.processes import eventually

SOON = 1.0
"""Far below the 5 s after which a waiter looks by itself, far above what a busy machine takes."""


@pytest.fixture
def crowd(place: Place, namespace: str, app: Headrace) -> Generator[Crowd]:
    """Waiters in threads, each with an app of its own."""
    made = Crowd(place, namespace)
    yield made
    made.close()


class Crowd:
    """Waiters, each as if in a process of its own."""

    def __init__(self, place: Place, namespace: str) -> None:
        self.place, self.namespace = place, namespace
        self.hands = place.hands(namespace)
        self._pool = ThreadPoolExecutor(8)
        self._apps: list[Headrace] = []

    def waits(self, wait: float | None = 5, n: int = 1) -> Future[list[Claim]]:
        """One more waiter, which is seen to wait on every shard before this returns."""
        app = self.place.open(self.namespace)
        self._apps.append(app)
        before = self.waiting()
        future = self._pool.submit(app.queue("q").lease, 30, n, wait)

        def waits() -> bool:
            return all(now > then for now, then in zip(self.waiting(), before, strict=True))

        eventually(lambda: future.done() or waits(), "it waits")
        return future

    def waiting(self) -> list[int]:
        """How many are registered in each shard."""
        now = clock.wall() * 1000
        return [self.hands("ZCOUNT", "waiters", now, "+inf", shard=shard) for shard in range(self.place.shards)]

    def close(self) -> None:
        """End it all."""
        self._pool.shutdown()
        self.hands.close()
        for app in self._apps:
            app.close()


def test_nothing_comes_within_the_wait(app: Headrace) -> None:
    started = clock.monotonic()
    assert app.queue("q").lease(30, wait=0.2) == []
    assert 0.2 <= clock.monotonic() - started < 0.2 + SOON


def test_a_waiter_is_woken_by_an_enqueue(app: Headrace, crowd: Crowd) -> None:
    for n in range(10):
        waiter = crowd.waits(None)
        started = clock.monotonic()
        app.queue("q").enqueue(n)
        (claim,) = waiter.result(10)
        assert clock.monotonic() - started < SOON
        assert claim.data == n
        assert claim.complete()


def test_waiting_does_not_poll(app: Headrace, crowd: Crowd, hands: Hands, place: Place) -> None:
    waiter = crowd.waits(1)
    before = hands.calls()
    assert waiter.result(10) == []
    assert hands.calls() - before <= 2 * place.shards, "at the end it looks once more"


def test_all_waiters_are_woken_by_as_many_jobs(app: Headrace, crowd: Crowd) -> None:
    waiters = [crowd.waits() for _ in range(4)]
    started = clock.monotonic()
    app.queue("q").enqueue_many(range(4))
    claims = [claim for waiter in waiters for claim in waiter.result(10)]
    assert clock.monotonic() - started < SOON
    assert sorted(claim.data for claim in claims) == [0, 1, 2, 3]


def test_one_job_after_the_other_wakes_one_waiter_after_the_other(app: Headrace, crowd: Crowd) -> None:
    """Whoever was served is no longer waiting anywhere: a later job must not be announced to him."""
    waiters = [crowd.waits(4 + n / 4) for n in range(4)]
    ring = Ring("", app.shards)
    routes = {ring.of_route(str(n)): str(n) for n in range(100)}
    for n in range(4):
        started = clock.monotonic()
        app.queue("q").enqueue(n, route=routes[n % app.shards])
        eventually(lambda n=n: sum(waiter.done() for waiter in waiters) == n + 1, "the next is served", SOON)
        assert clock.monotonic() - started < SOON


def test_a_finished_job_makes_room_under_a_cap(app: Headrace, crowd: Crowd) -> None:
    app.lane("l", queue="q", cap=1)
    app.queue("q").enqueue_many([1, 2], lane="l")
    (claim,) = app.queue("q").lease(30)
    waiter = crowd.waits()
    claim.complete()
    assert [claim.data for claim in waiter.result(SOON)] == [2]


def test_what_time_alone_makes_ready_wakes_a_lone_waiter(app: Headrace, crowd: Crowd) -> None:
    q = app.queue("q")
    q.enqueue("later", delay=0.3)
    waiter = crowd.waits()
    started = clock.monotonic()
    assert [claim.data for claim in waiter.result(SOON)] == ["later"]
    waiter = crowd.waits()
    q.enqueue("put off", delay=0.3)
    assert [claim.data for claim in waiter.result(SOON)] == ["put off"]
    app.lane("r", queue="q", rate="1/400ms")
    q.enqueue_many(["first", "rate"], lane="r")
    (claim,) = q.lease(30)
    assert claim.data == "first"
    assert [claim.data for claim in crowd.waits().result(SOON)] == ["rate"]
    q.pause(until=clock.wall() + 0.3)
    q.enqueue("paused")
    assert [claim.data for claim in crowd.waits().result(SOON)] == ["paused"]
    app.lane("nb", queue="q", not_before=clock.wall() + 0.3)
    q.enqueue("not before", lane="nb")
    assert [claim.data for claim in crowd.waits().result(SOON)] == ["not before"]
    q.enqueue("expired")
    q.lease(0.3)
    assert [claim.data for claim in crowd.waits().result(SOON)] == ["expired"]
    assert clock.monotonic() - started < 6 * SOON


@pytest.mark.parametrize("way", ["resume", "unblock", "cap", "forget", "release", "retry_failed", "lane"])
def test_what_somebody_makes_ready_wakes_a_waiter(app: Headrace, crowd: Crowd, way: str) -> None:
    q = app.queue("q")
    claim: Claim | None = None
    if way in ("resume", "unblock"):
        q.pause() if way == "resume" else q.block()
        q.enqueue(1)
    elif way in ("cap", "forget"):
        app.lane("l", queue="q", cap=1)
        q.enqueue_many([0, 1], lane="l")
        q.lease(30)
    elif way == "lane":
        app.lane("l", queue="q", not_before=clock.wall() + 3600)
        q.enqueue(1, lane="l")
    else:
        q.enqueue(1)
        (claim,) = q.lease(30)
        if way == "retry_failed":
            claim.fail()
    waiter = crowd.waits()
    {
        "resume": q.resume,
        "unblock": q.unblock,
        "cap": lambda: q.lane("l").set(cap=None),
        "forget": lambda: q.lane("l").forget(),
        "lane": lambda: q.lane("l").set(not_before=None),
        "release": lambda: claim.release() if claim else None,
        "retry_failed": q.retry_failed,
    }[way]()
    assert [claim.data for claim in waiter.result(SOON)] == [1]


def test_who_leaves_early_is_not_missed(app: Headrace, crowd: Crowd, place: Place, namespace: str) -> None:
    """A waiter that is cancelled takes no wake-up with it."""

    async def leave() -> None:
        async with place.open(namespace) as other:
            waiting = asyncio.create_task(other.queue("q").alease(30, wait=None))
            await asyncio.to_thread(eventually, lambda: all(crowd.waiting()), "it waits")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(leave())
    waiter = crowd.waits()
    app.queue("q").enqueue("for the other")
    assert [claim.data for claim in waiter.result(SOON)] == ["for the other"]


def test_many_waiters_on_one_event_loop(app: Headrace, place: Place, namespace: str) -> None:
    async def run() -> list[int]:
        async with place.open(namespace) as other:
            q = other.queue("q")

            async def work() -> int:
                done = 0
                while claims := await q.alease(30, n=3, wait=0.5):
                    done += sum(await q.acomplete_many(claims))
                return done

            workers = [asyncio.create_task(work()) for _ in range(10)]
            for n in range(60):
                await q.aenqueue(n)
            return await asyncio.gather(*workers)

    assert sum(asyncio.run(run())) == 60


def test_leases_go_on_for_ever(app: Headrace, crowd: Crowd, place: Place, namespace: str) -> None:
    app.queue("q").enqueue_many(range(5))
    seen: list[int] = []
    asleep = threading.Event()

    async def consume() -> None:
        async with place.open(namespace) as other:
            async for claim in other.queue("q").aleases(30, n=2):
                seen.append(claim.data)
                await claim.acomplete()
                if len(seen) == 5:
                    asleep.set()
                if len(seen) == 6:
                    return

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, consume())
        assert asleep.wait(10)
        app.queue("q").enqueue(5)
        future.result(10)
    assert sorted(seen) == list(range(6))
    app.queue("q").enqueue_many(range(3))
    with place.open(namespace) as other:
        for claim in other.queue("q").leases(30):
            assert claim.complete()
            seen.append(claim.data)
            if len(seen) == 9:
                break


def test_due_work_wakes_a_lone_waiter_within_50_ms(app: Headrace) -> None:
    """An idle server looks at the clock ten times a second only: by itself it would end a wait up to 100 ms late."""
    late: list[float] = []
    for _ in range(4):
        q = app.queue("q")
        q.enqueue(1, delay=0.05)
        started = clock.monotonic()
        assert len(q.lease(30, wait=5)) == 1
        late.append(clock.monotonic() - started - 0.05)
    assert sorted(late)[1] <= 0.05, late
