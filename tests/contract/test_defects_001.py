"""What the lease-based work queue of document 001 gets wrong and the engine here must not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from headrace import Claim, Headrace
from headrace.protocol.claiming import Claimed
from tests.queues.awaited import plain
from tests.queues.places import Clock, Hands, Place
from tests.tools.crash import Child


def test_a_clean_never_puts_a_running_job_back(app: Headrace, place: Place, namespace: str) -> None:
    """001 pops an item and sets its lease key afterwards: a clean in between takes it for abandoned."""
    q = app.queue("q")
    q.enqueue_many(range(400))
    over = threading.Event()

    def clean() -> list[str]:
        found: list[str] = []
        with place.open(namespace) as cleaner:
            while not over.is_set():
                found += cleaner.audit(repair=True)
        return found

    def work() -> list[int]:
        seen: list[int] = []
        with place.open(namespace) as worker:
            while claims := worker.queue("q").lease(30, n=3):
                seen += [claim.data for claim in claims]
                assert all(worker.queue("q").complete_many(claims))
        return seen

    with ThreadPoolExecutor(4) as pool:
        cleaner = pool.submit(clean)
        workers = [pool.submit(work) for _ in range(3)]
        seen = [n for worker in workers for n in worker.result()]
        over.set()
        assert cleaner.result() == []
    assert sorted(seen) == list(range(400))


def test_a_crash_while_adding_strands_no_item(app: Headrace, place: Place, namespace: str) -> None:
    """001 sets the data key and then pushes the id: a crash in between leaves an item that no worker will get."""
    code = (
        f"from headrace import Headrace\nHeadrace({place.url!r}, namespace={namespace!r}).queue('q').enqueue(1, id='x')"
    )
    for at in ("enqueue-send", "enqueue-replied"):
        with Child(code, crash_at=at) as child:
            assert child.crashed()
        assert app.audit() == []
        there = app.queue("q").job("x").status()
        assert there == (None if at == "enqueue-send" else "ready")
        assert len(app.queue("q").lease(30, n=5)) == (0 if there is None else 1)


def test_poison_is_set_aside(timed: Headrace, clock: Clock) -> None:
    """001 gives an item that kills its worker to the next worker, for ever."""
    q = timed.queue("q", max_stalls=3)
    poison = q.enqueue("kills its worker", id="poison", priority=90)
    victims = 0
    while q.lease(10):
        victims += 1
        clock.forward(10)
        assert victims < 10
    assert victims == 4
    info = poison.info()
    assert (info.status, info.counts.stalls) == ("failed", 4)
    assert [job.id for job in q.jobs("failed")] == ["poison"]


def test_only_who_holds_the_claim_can_complete(app: Headrace) -> None:
    """001 completes whatever id it is given, whoever asks: the lease is never looked at."""
    q = app.queue("q")
    job = q.enqueue("data", id="x")
    (claim,) = q.lease(30)

    def forged(claim_id: bytes) -> Claim:
        real: Claim = plain(claim)
        own: Claimed = real._claimed  # pyright: ignore[reportPrivateUsage]
        other = Claimed(own.key, claim_id, own.counts, own.record, own.shard)
        return Claim(real.engine, other, real.deadline)

    real_id = claim.claim_id.encode()
    for guess in (b"", b"x" * 27, real_id[:-1] + b"?", real_id[::-1], real_id[:16]):
        assert forged(guess).complete("stolen") is False
    assert job.status() == "running"
    assert claim.complete("mine") is True


def test_complete_first_and_work_afterwards_is_at_most_once(app: Headrace) -> None:
    """What 001 promises for those who need it: the first `complete` of all holders is the one that may work."""
    q = app.queue("q")
    q.enqueue("charge the card", id="x")
    (claim,) = q.lease(30)
    assert [claim.complete() for _ in range(5)] == [True, False, False, False, False]


def test_the_deep_clean_never_asks_for_all_keys(app: Headrace, hands: Hands) -> None:
    """001's deep clean runs KEYS over everything, which stops the server for as long as that takes."""
    q = app.queue("q")
    q.enqueue_many(range(2000))
    q.lease(30, n=50)

    def asked() -> dict[str, int]:
        found: dict[str, int] = {}
        for client in hands.clients:
            stats: dict[str, dict[str, Any]] = client.info("commandstats")
            for name in ("keys", "flushall", "randomkey"):
                found[name] = found.get(name, 0) + stats.get(f"cmdstat_{name}", {}).get("calls", 0)
        return found

    before = asked()
    assert app.audit(repair=True) == []
    assert asked() == before


def test_the_length_counts_no_item_twice(app: Headrace) -> None:
    """001's length is wrong for ever after an item was added twice by `add_unique_item`."""
    q = app.queue("q")
    for _ in range(3):
        q.enqueue("same", id="x")
    q.enqueue_many(["same"] * 5, ids=["x"] * 5)
    counts = q.counts()
    assert counts == replace(counts, ready=1)
    q.lease(30)
    q.enqueue("same", id="x")
    counts = q.counts()
    assert (counts.ready, counts.running, counts.held) == (0, 1, 1)
