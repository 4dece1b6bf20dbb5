"""What a server can do to us: lose its data or its functions, run full, hold keys of strangers, be newer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext, suppress
from typing import Any, cast

import pytest

from headrace import ClaimLost, Headrace, NoShard, QueueFull, ServerUnfit, UpgradeNeeded
from tests.queues.places import Hands, Place, fresh
from tests.tools.servers import Server


@pytest.fixture
def mine() -> Generator[tuple[Headrace, Server]]:
    """A server for this test alone."""
    with Server() as server, Headrace(server.url) as app:
        yield app, server


def admin(server: Server, *words: object) -> Any:
    with server.admin() as client:
        return cast(Any, client).execute_command(*words)


def test_a_server_that_lost_everything_starts_anew(mine: tuple[Headrace, Server]) -> None:
    app, server = mine
    q = app.queue("q")
    q.enqueue("old", id="x")
    (claim,) = q.lease(30)
    waits = q.enqueue("gone")
    epochs = app.epochs
    admin(server, "FLUSHALL")
    job = q.enqueue("new", id="x")
    assert app.epochs != epochs
    assert (job.outcome, job.info().data) == ("added", "new")
    assert waits.status() is None
    (second,) = q.lease(30)
    assert claim.complete("of the old world") is False
    assert second.complete("of the new") is True
    assert job.result(timeout=1) == "of the new"
    assert app.audit() == []


def test_two_processes_agree_on_the_new_shard(mine: tuple[Headrace, Server]) -> None:
    app, server = mine
    with Headrace(server.url) as other:
        admin(server, "FLUSHALL")
        app.queue("q").enqueue(1)
        other.queue("q").enqueue(2)
        assert {claim.data for claim in app.queue("q").lease(30, n=5)} == {1, 2}


def test_a_handle_of_before_the_loss_is_not_taken_for_a_job_of_after_it(mine: tuple[Headrace, Server]) -> None:
    app, server = mine
    q = app.queue("q")
    old = q.enqueue("old", id="x")
    admin(server, "FLUSHALL")
    new = q.enqueue("new", id="x")
    q.lease(30)[0].complete("new's")
    assert new.result(timeout=1) == "new's"
    assert old.status() is None


def test_functions_that_were_removed_are_loaded_again(mine: tuple[Headrace, Server]) -> None:
    app, server = mine
    q = app.queue("q")
    for step in (lambda: q.enqueue(1), lambda: q.lease(30), q.counts, lambda: q.enqueue_many(range(600))):
        admin(server, "FUNCTION", "FLUSH")
        step()
    assert q.counts().ready == 600
    assert q.counts().running == 1


def test_a_full_server_takes_no_jobs_and_lets_others_finish(mine: tuple[Headrace, Server]) -> None:
    app, server = mine
    q = app.queue("q")
    jobs = q.enqueue_many([b"x" * 1000] * 10)
    claims = q.lease(30, n=6)
    failed = q.enqueue(1, max_failures=0, priority=99)
    q.lease(30)[0].fail()
    admin(server, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(
        QueueFull, match=r"out of memory .*takes no new jobs until jobs finish.*finishing jobs still works"
    ):
        q.enqueue("one too many")
    with pytest.raises(QueueFull):
        q.enqueue_many(range(10))
    assert q.counts().ready == 4
    assert claims[0].complete("result") is True
    claims[1].extend(60)
    assert claims[2].retry("again", delay=0) == "waiting"
    assert claims[3].fail("bad") == "failed"
    assert claims[4].release() == "waiting"
    assert claims[5].abandon() == "waiting"
    assert jobs[0].result(timeout=1) == "result"
    assert len(q.lease(30, n=1)) == 1
    assert q.job(jobs[9].id).cancel()
    assert q.drop_failed([failed.id]) == 1, "what makes room must be possible"
    q.pause("full")
    q.resume()
    with Headrace(server.url) as worker:
        assert all(claim.complete() for claim in worker.queue("q").lease(30, n=20, wait=0.1))
    assert app.audit(repair=True) == []
    admin(server, "CONFIG", "SET", "maxmemory", "0")
    assert q.enqueue("now").outcome == "added"


def test_a_result_is_waited_for_on_a_full_server(mine: tuple[Headrace, Server]) -> None:
    app, server = mine
    job = app.queue("q").enqueue(1)
    admin(server, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(TimeoutError):
        job.result(timeout=0.1)


def test_a_server_that_evicts_is_refused() -> None:
    with Server(config={"maxmemory-policy": "allkeys-lru"}) as server:
        with pytest.raises(ServerUnfit, match=r"may evict keys \(maxmemory-policy allkeys-lru\).*noeviction"):
            Headrace(server.url)
        admin(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        Headrace(server.url).close()


def test_data_of_a_newer_version(app: Headrace, place: Place, namespace: str, hands: Hands, dirty: None) -> None:
    q = app.queue("q")
    job = q.enqueue(1)
    for shard in range(app.shards):
        hands("HSET", "meta", "format", 99, shard=shard)
    for step in (lambda: q.enqueue(1), lambda: q.lease(30), job.status, app.audit, q.counts):
        with pytest.raises(UpgradeNeeded, match=r"data has format 99, this version reads up to \d"):
            step()
    with pytest.raises(UpgradeNeeded):
        place.open(namespace)


def test_a_shard_that_cannot_be_made_anew_says_so(
    app: Headrace, hands: Hands, monkeypatch: pytest.MonkeyPatch, dirty: None
) -> None:
    """Losing a shard again and again is not repeated for ever."""
    q = app.queue("q")
    monkeypatch.setattr("headrace.queues.engine.boot", lambda shards: (_ for _ in ()))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    for shard in range(app.shards):
        hands("DEL", "meta", shard=shard)
    with pytest.raises(NoShard, match="holds no data: it was never initialised, or the server lost it"):
        q.enqueue(1)


KEYS = sorted(
    [
        "run",
        "due",
        "dead",
        "leases",
        "grace",
        "timers",
        "dl",
        "chores",
        "waiters",
        "watch",
        "hist",
        "parked",
        "rules",
        "marks",
        "pr",
        "c:",
        "i:",
    ]
    + [f"{kind}:q" for kind in ("n", "z", "i", "c", "j", "t", "e", "h", "f", "p", "w")]
    + [f"{kind}:q/l" for kind in ("n", "z", "i", "c", "g")]
)


@pytest.mark.parametrize("key", KEYS)
def test_a_stranger_s_key_in_the_way_is_moved_and_the_queue_goes_on(valkey: Server, key: str) -> None:
    """No job is lost whose record is there, whatever other key was overwritten."""
    namespace = fresh()
    place = Place("valkey", valkey.url, 1, [valkey])
    hands = place.hands(namespace)
    with Headrace(place.url, namespace=namespace) as app:
        q = app.queue("q")
        app.lane("l", queue="q", cap=50, rate="1000/s")
        app.failure_jobs("q")
        q.enqueue_many(range(5), ids=map(str, range(5)), lane="l")
        q.enqueue(5, id="5")
        q.enqueue(6, id="6", delay=0.02)
        q.enqueue(7, id="7", task="t")
        q.enqueue(8, id="8", priority=90)
        (fails,) = q.lease(30)
        fails.fail("bad")
        q.enqueue(9, id="9", priority=90)
        (runs,) = q.lease(30)
        hands("SET", key, "somebody else was here")
        steps: list[Any] = [
            lambda: q.enqueue("twin", id="9"),
            lambda: q.enqueue("x", id="10", lane="l"),
            q.counts,
            lambda: runs.retry("again", delay=0),
            lambda: q.enqueue("y", id="11", delay=0.02),
            lambda: q.job("0").explain(),
            lambda: app.task_rules("t").pause(),
            lambda: app.task_rules("t").resume(),
            app.history,
            lambda: q.job("5").status(),
            lambda: app.queue("q").drop_failed(["none"]),
            lambda: app.audit(repair=True),
        ]
        for step in steps:
            # With the index of runs or the records gone, the claim is; any other key costs no call its answer.
            with suppress(ClaimLost) if key in ("run", "j:q") else nullcontext():
                step()
        done: set[str] = set()
        while claims := q.lease(30, n=100, wait=0.05):
            done |= {claim.id for claim in claims}
            assert all(q.complete_many(claims))
        lost = {str(n) for n in range(9)} if key == "j:q" else {"8"}  # the one that failed; or all records
        assert done >= {str(n) for n in range(12)} - lost
        app.audit(repair=True)
        assert app.audit() == []
        assert app.queue_names() == ["q", "q-fail"]
        assert q.lanes() == ["l"]
        assert hands.names().get(key) != "string"
        foreign = [name for name in hands.names() if "foreign:" in name]
        assert len(foreign) == 1, "what the stranger wrote is kept"
    hands.clean()
    hands.close()


@pytest.mark.parametrize("kind", ["list", "zset", "hash", "set", "stream"])
def test_a_foreign_meta_is_moved_too(place: Place, kind: str) -> None:
    namespace = fresh()
    hands = place.hands(namespace)
    with Headrace(place.url, namespace=namespace) as app:
        app.queue("q").enqueue(1, id="x")
        hands("DEL", "meta")
        words: dict[str, tuple[Any, ...]] = {
            "list": ("LPUSH", "v"), "zset": ("ZADD", 1, "v"), "hash": ("HSET", "f", "v"), "set": ("SADD", "v"),
            "stream": ("XADD", "*", "f", "v"),
        }  # fmt: skip
        command, *args = words[kind]
        hands(command, "meta", *args)
        assert app.queue("q").enqueue(2, id="y").outcome == "added"
        app.audit(repair=True)
        assert {claim.id for claim in app.queue("q").lease(30, n=5)} == {"x", "y"}
    hands.clean()
    hands.close()
