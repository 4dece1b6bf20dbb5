"""Results: stored with the end of the attempt, waited for without polling, each generation its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvloop

from headrace import Headrace, Job, JobCancelled, JobFailed, JobNotFound, ResultTimeout, clock
from tests.queues.places import Hands, Place
from tests.tools.processes import eventually


def test_a_result_is_there_when_the_claim_has_ended(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1)
    (claim,) = q.lease(30)
    assert claim.complete({"sum": [1, 2]})
    assert job.status() == "done"
    assert job.result(timeout=0) == {"sum": [1, 2]}
    assert q.job(job.id).result(timeout=0) == {"sum": [1, 2]}
    assert q.lease(30) == []


def test_no_result_is_none_and_bytes_stay_bytes(app: Headrace) -> None:
    q = app.queue("q")
    for value in (None, b"\x00\xff", b"", 0, ""):
        job = q.enqueue(1)
        q.lease(30)[0].complete(value)
        assert job.result(timeout=1) == value


def test_waiting_ends_with_the_job_and_does_not_poll(app: Headrace, place: Place, namespace: str, hands: Hands) -> None:
    q = app.queue("q")
    jobs = [q.enqueue(n) for n in range(3)]
    claims = {claim.id: claim for claim in q.lease(30, n=3)}
    with place.open(namespace) as other, ThreadPoolExecutor(3) as pool:
        before = hands.calls()
        futures = [pool.submit(other.queue("q").job(job.id).result, 10) for job in jobs]
        watched = [hands("ZCARD", "watch", shard=shard) for shard in range(place.shards)]
        eventually(
            lambda: sum(hands("ZCARD", "watch", shard=shard) for shard in range(place.shards)) == 3, f"waits: {watched}"
        )
        still = hands.calls()
        assert still - before == 3
        threading.Event().wait(0.3)
        assert hands.calls() == still
        started = clock.monotonic()
        claims[jobs[0].id].complete("done")
        claims[jobs[1].id].fail("bad")
        jobs[2].cancel(running=True)
        claims[jobs[2].id].release()
        assert futures[0].result(5) == "done"
        with pytest.raises(JobFailed):
            futures[1].result(5)
        with pytest.raises(JobCancelled):
            futures[2].result(5)
        assert clock.monotonic() - started < 2


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_many_tasks_wait_on_one_loop(app: Headrace, place: Place, namespace: str, loop: str) -> None:
    async def run() -> list[int]:
        async with place.open(namespace) as other:
            q = other.queue("q")
            jobs = await q.aenqueue_many(range(40))
            waiting = [asyncio.create_task(job.aresult(timeout=20)) for job in jobs]
            done = 0
            while done < 40:
                claims = await q.alease(30, n=7)
                done += sum(await q.acomplete_many(claims, [claim.data * 2 for claim in claims]))
            return await asyncio.gather(*waiting)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        assert runner.run(run()) == [2 * n for n in range(40)]


def test_a_result_that_is_waited_for_is_kept_long_enough(app: Headrace, place: Place, namespace: str) -> None:
    job = app.queue("q").enqueue(1, keep_result=0)
    with place.open(namespace) as other, ThreadPoolExecutor(1) as pool, place.open(namespace) as worker:
        future = pool.submit(other.queue("q").job(job.id).result, 10)
        hands = place.hands(namespace)
        eventually(lambda: any(hands("ZCARD", "watch", shard=i) for i in range(place.shards)), "it waits")
        hands.close()
        (claim,) = worker.queue("q").lease(30)
        claim.complete("just in time")
        assert future.result(5) == "just in time"


def test_what_the_errors_say(app: Headrace) -> None:
    q = app.queue("q")
    waits = q.enqueue(1, id="waits")
    with pytest.raises(ResultTimeout, match=r"^job q/waits is still ready after 0\.05 s; it goes on$"):
        waits.result(timeout=0.05)
    with pytest.raises(TimeoutError):
        waits.result(timeout=0)
    assert waits.cancel(why="no longer wanted")
    with pytest.raises(JobCancelled, match=r"^job q/waits was cancelled: no longer wanted$") as cancelled:
        waits.result(timeout=1)
    assert (cancelled.value.queue, cancelled.value.id) == ("q", "waits")
    fails = q.enqueue(1, id="fails")
    q.lease(30)[0].fail(ValueError("no such user"))
    with pytest.raises(JobFailed, match=r"^job q/fails failed: ValueError: no such user$") as failed:
        fails.result(timeout=1)
    assert failed.value.error == fails.info().error
    with pytest.raises(JobNotFound, match=r"^nothing is known of job q/never: it never was, or it ended and its"):
        q.job("never").result(timeout=1)
    with pytest.raises(JobNotFound, match="nothing is known of job q/never"):
        q.job("never").info()
    assert q.job("never").status() is None


def test_each_generation_has_its_own_result(app: Headrace) -> None:
    q = app.queue("q")
    jobs: list[Job] = []
    for n in range(3):
        jobs.append(q.enqueue(n, id="x"))
        assert q.lease(30)[0].complete(f"result {n}")
    assert [job.result(timeout=1) for job in jobs] == ["result 0", "result 1", "result 2"]
    assert q.job("x").result(timeout=1) == "result 2"
    q.enqueue(3, id="x")
    assert q.job("x").status() == "ready"
    assert jobs[2].status() == "done"
    assert jobs[2].result(timeout=1) == "result 2"
