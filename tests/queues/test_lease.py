"""Leases: how many, how long, and to whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import cast

import pytest

from headrace import Claim, ClaimLost, Headrace
from tests.queues.places import Clock, Place


def test_up_to_n_and_never_the_same_job_twice(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(250))
    sizes = [len(q.lease(30)), len(q.lease(30, n=7)), len(q.lease(30, n=10_000)), len(q.lease(30, n=5))]
    assert sizes == [1, 7, 242, 0]
    assert q.counts().running == 250


def test_a_claim_tells_what_it_is(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue({"a": 1}, id="x", lane="g/l", route="r", priority=60)
    (claim,) = q.lease(30)
    assert (claim.queue, claim.id, claim.key, claim.lane) == ("q", "x", "q/x", "g/l")
    assert (claim.data, claim.priority, claim.attempt) == ({"a": 1}, 60, 1)
    info = job.info()
    assert info.status == "running"
    assert claim.queued_at == info.queued_at
    assert 29 < claim.remaining <= 30
    assert len(claim.claim_id) >= 16


def test_claim_ids_differ(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(100))
    ids = [claim.claim_id for claim in q.lease(30, n=100)]
    assert len(set(ids)) == 100
    assert len({id[:16] for id in ids}) <= app.shards, "the random part is drawn once a call"


def test_only_from_the_queue_that_is_asked(app: Headrace) -> None:
    app.queue("other").enqueue(1)
    assert app.queue("q").lease(30) == []
    assert len(app.queue("other").lease(30)) == 1


def test_a_lease_that_runs_out_counts_a_stall_and_the_job_goes_to_the_next(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    job = q.enqueue("data", id="x")
    (first,) = q.lease(10)
    clock.forward(9.999)
    assert q.lease(10) == []
    clock.forward(0.001)
    (second,) = q.lease(10)
    assert (second.attempt, second.failures, second.stalls, second.timeouts) == (2, 0, 1, 0)
    info = job.info()
    assert info.error is not None
    assert info.error.type == "StallError"
    assert first.complete("late") is False
    assert second.complete("right") is True
    assert job.result(timeout=5) == "right"


def test_extend_moves_the_deadline(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    q.enqueue(1, id="x")
    (claim,) = q.lease(10)
    for _ in range(5):
        clock.forward(8)
        claim.extend(10)
    clock.forward(9.999)
    assert q.lease(10) == []
    assert claim.complete() is True


def test_extend_can_shorten(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    q.enqueue(1, id="x")
    (claim,) = q.lease(100)
    claim.extend(1)
    assert claim.remaining <= 1
    clock.forward(1)
    assert len(q.lease(10)) == 1
    with pytest.raises(ClaimLost):
        claim.extend(10)


def test_a_timeout_ends_the_attempt_even_when_the_lease_is_longer(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q", timeout=10, max_timeouts=1, min_backoff=1)
    job = q.enqueue(1, id="x")
    for _ in range(2):
        (claim,) = q.lease(1000)
        clock.forward(14.9)
        assert q.lease(10) == []
        assert job.status() == "running"
        clock.forward(0.1)
        assert q.lease(10) == []
        assert claim.complete() is False
        clock.forward(5)
    info = job.info()
    assert (info.status, info.counts) == ("failed", (2, 0, 0, 2))
    assert info.error is not None
    assert info.error.type == "TimeoutError"


def test_stalls_have_a_budget_of_their_own(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q", max_stalls=2)
    job = q.enqueue(1, id="x")
    for _ in range(3):
        assert len(q.lease(10)) == 1
        clock.forward(10)
    assert q.lease(10) == []
    info = job.info()
    assert (info.status, info.counts) == ("failed", (3, 0, 3, 0))


def test_many_threads_share_the_jobs(app: Headrace, place: Place, namespace: str) -> None:
    app.queue("q").enqueue_many(range(600))
    ready = threading.Barrier(8)

    def work() -> list[int]:
        done: list[int] = []
        ready.wait()
        while claims := other.queue("q").lease(30, n=9):
            assert all(other.queue("q").complete_many(claims))
            done += [claim.data for claim in claims]
        return done

    with place.open(namespace) as other, ThreadPoolExecutor(8) as pool:
        shares = [future.result() for future in [pool.submit(work) for _ in range(8)]]
    assert sorted(n for share in shares for n in share) == list(range(600))
    assert app.queue("q").counts().running == 0


def test_what_leases_fetched_and_did_not_hand_out_goes_back(place: Place, namespace: str, app: Headrace) -> None:
    app.queue("q").enqueue_many(range(30), ids=map(str, range(30)), route="r")
    with place.open(namespace) as other:
        q = other.queue("q")
        for claim in q.leases(3600, n=10):
            assert claim.complete()
            if claim.data == 2:
                break
        assert q.counts().running == 0
        with pytest.raises(ZeroDivisionError):
            _divides(q.leases(3600, n=10))
        assert q.counts().running == 1
        assert [(claim.data, claim.attempt) for claim in q.lease(30, n=50)] == [(n, 1) for n in range(4, 30)]


def _divides(claims: Iterator[Claim]) -> None:
    for claim in claims:
        assert claim.data == 3
        raise ZeroDivisionError


def test_what_aleases_fetched_and_did_not_hand_out_goes_back(place: Place, namespace: str, app: Headrace) -> None:
    app.queue("q").enqueue_many(range(30), ids=map(str, range(30)), route="r")

    async def consume() -> None:
        async with place.open(namespace) as other:
            q = other.queue("q")
            async for claim in q.aleases(3600, n=10):
                assert await claim.acomplete()
                break
            async with asyncio.timeout(10):
                while (await q.acounts()).running:
                    pass
            async with aclosing(cast("AsyncGenerator[Claim]", q.aleases(3600, n=10))) as claims:
                assert (await anext(claims)).data == 1
            assert (await q.acounts()).running == 1

    asyncio.run(consume())
    claims = app.queue("q").lease(30, n=50)
    assert [(claim.data, claim.attempt) for claim in claims] == [(n, 1) for n in range(2, 30)]


def test_leases_that_are_left_after_their_app_was_closed(app: Headrace, place: Place, namespace: str) -> None:
    app.queue("q").enqueue_many(range(3), route="r")
    with place.open(namespace) as other:
        claims = other.queue("q").leases(30, n=3)
        next(claims)
    cast("Generator[Claim]", claims).close()
    assert app.queue("q").counts().running == 3
