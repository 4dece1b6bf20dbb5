"""The deep clean: whatever a stranger's hand broke is found, said in words, mended, and found no more."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace import Claim, Headrace
from tests.queues.places import Hands, Place, fresh
from tests.tools.servers import Server

Break = Callable[[Hands], Any]


def lane_of(hands: Hands, name: str, **fields: int) -> None:
    """Change counters of a node."""
    for field, by in fields.items():
        hands("HINCRBY", f"n:{name}", field, by)


def both(*breaks: Break) -> Break:
    return lambda hands: [one(hands) for one in breaks]


# What is done to it, what the audit says, and which jobs are gone with what was removed.
BROKEN: dict[str, tuple[Break, str, set[str]]] = {
    "a ready job in no line": (lambda h: h("ZREM", "z:q/g/a", "a1"), "q/a1 stood in no place", set()),
    "a line that is gone": (lambda h: h("DEL", "z:q/g/a"), "q/a[012] stood in no place", set()),
    "a schedule that is gone": (lambda h: h("DEL", "due"), "q/later stood in no place", set()),
    "a run that is gone": (lambda h: h("DEL", "run"), "q/runs stood in no place", set()),
    "dead letters in no list": (lambda h: h("DEL", "f:q"), "q/fails stood in no place", set()),
    "parked jobs in no list": (lambda h: h("DEL", "p:q/t"), "q/parked stood in no place", set()),
    "a job in two lines": (lambda h: h("ZADD", "due", 1, "q/a1"), "q/a1 was scheduled and ready at once", set()),
    "a run that also waits": (lambda h: h("ZADD", "z:q", 1, "runs"), "q/runs was running and ready at once", set()),
    "a dead letter that waits": (lambda h: h("ZADD", "z:q", 1, "fails"), "q/fails was failed and ready at once", set()),
    "an entry without a job": (
        lambda h: h("ZADD", "z:q/g/a", 1, "ghost"), "q/g/a had an entry without a job: ghost", set(),
    ),
    "an entry in a wrong lane": (lambda h: h("ZADD", "z:q", 1, "a1"), "q had an entry without a job: a1", set()),
    "a schedule without a job": (
        lambda h: h("ZADD", "due", 1, "q/ghost"), "q/ghost was scheduled without a record", set(),
    ),
    "a dead letter without a job": (lambda h: h("ZADD", "f:q", 1, "ghost"), "q/ghost was a dead letter", set()),
    "a parked entry without a job": (lambda h: h("ZADD", "p:q/t", 1, "ghost"), "q/ghost was parked without", set()),
    "a record that is gone": (lambda h: h("HDEL", "j:q", "a1"), "q/g/a had an entry without a job: a1", {"a1"}),
    "a record that cannot be read": (
        lambda h: h("HSET", "j:q", "a1", "?"), "q/a1 has a record that cannot be read", {"a1"},
    ),
    "a run that cannot be read": (lambda h: h("HSET", "run", "q/runs", "?"), "q/runs has a run that cannot", set()),
    "a twin that cannot be read": (lambda h: h("HSET", "h:q", "runs", "?"), "q/runs has a twin that cannot be", set()),
    "a run without a record": (lambda h: h("HDEL", "j:q", "runs"), "q/runs was running without a record", {"runs"}),
    "a run without a deadline": (lambda h: h("ZREM", "dl", "q/runs"), "q/runs had no deadline", set()),
    "a deadline without a run": (
        lambda h: h("ZADD", "dl", 10**14, "q/ghost"), "q/ghost had a deadline and nothing to end", set(),
    ),
    "a deadline of no session": (
        lambda h: h("ZADD", "dl", 10**14, "ghost"), "ghost had a deadline and nothing to end", set(),
    ),
    "a twin behind no run": (
        both(lambda h: h("HDEL", "run", "q/runs"), lambda h: h("ZREM", "dl", "q/runs")),
        "q/runs was held behind a run that is gone", set(),
    ),
    "counters that are too high": (
        lambda h: lane_of(h, "q", r=3, d=2, h=1, f=5, p=1), r"q counted .*there are", set(),
    ),
    "counters of a lane": (lambda h: lane_of(h, "q/g", r=-2), r"q/g counted .*there are", set()),
    "units that leaked": (lambda h: lane_of(h, "q", x=4), "q counted .*there are", set()),
    "an index that is gone": (lambda h: h("DEL", "i:q"), "q/g was missing in its index", set()),
    "a root that is gone": (lambda h: h("DEL", "i:"), "q was missing in its index", set()),
    "a lane in an index for nothing": (
        lambda h: h("ZADD", "i:q", 5, "empty"), "q/empty stood in its index with nothing to start", set(),
    ),
    "a lane that does not exist": (lambda h: h("ZADD", "i:q", 5, "ghost"), "q had an entry of a lane .*: ghost", set()),
    "a number of children that is wrong": (lambda h: lane_of(h, "q", k=7), "q counted 9 children, there are 2", set()),
    "a child that its parent forgot": (lambda h: h("SREM", "c:q/g", "a"), "q/g/a was unknown to its parent", set()),
    "an empty lane that its parent forgot": (
        lambda h: h("SREM", "c:q", "empty"), "q/empty was unknown to its parent", set(),
    ),
    "a queue that was forgotten": (lambda h: h("SREM", "c:", "q"), "q was unknown to its parent", set()),
    "all children forgotten": (
        lambda h: [h("DEL", name) for name in ("c:", "c:q", "c:q/g")], "q/g/a was unknown to its parent", set(),
    ),
    "a foreign type": (
        both(lambda h: h("DEL", "z:q/g/a"), lambda h: h("LPUSH", "z:q/g/a", "?")), "z:q/g/a held a list", set(),
    ),
    "everything but the records": (
        lambda h: [h("DEL", name) for name in list(h.names()) if name not in ("meta", "j:q")],
        "q was unknown to its parent", set(),
    ),
}  # fmt: skip
JOBS = {"a0", "a1", "a2", "later", "runs", "fails", "parked"}


@pytest.fixture
def alone(valkey: Server) -> Generator[tuple[Headrace, Hands, Claim]]:
    """An app on one shard with a job in every status."""
    namespace = fresh()
    hands = Place("valkey", valkey.url, 1, [valkey]).hands(namespace)
    with Headrace(valkey.url, namespace=namespace) as app:
        q = app.queue("q")
        app.lane("empty", queue="q", cap=5)
        q.enqueue(1, id="fails")
        q.lease(30)[0].fail()
        app.task_rules("t").pause()
        q.enqueue(1, id="parked", task="t")
        assert q.lease(30) == []
        q.enqueue("one", id="runs")
        (claim,) = q.lease(30)
        q.enqueue("two", id="runs")
        q.enqueue(1, id="later", delay=3600)
        q.enqueue_many(range(3), ids=["a0", "a1", "a2"], lane="g/a")
        yield app, hands, claim
    hands.clean()
    hands.close()


def finish_all(app: Headrace) -> set[str]:
    """Everything that is there, done; answers the ids."""
    q = app.queue("q")
    q.retry_failed()
    app.task_rules("t").resume()
    for job in list(q.jobs("scheduled")):
        q.enqueue(1, id=job.id, update_data=False)
    done: set[str] = set()
    for job in list(q.jobs("running")):
        q.enqueue(None, id=job.id)
    while claims := q.lease(30, n=50):
        done |= {claim.id for claim in claims}
        assert all(q.complete_many(claims))
    return done


@pytest.mark.parametrize("what", BROKEN)
def test_it_is_found_mended_and_found_no_more(alone: tuple[Headrace, Hands, Claim], what: str) -> None:
    app, hands, claim = alone
    break_it, says, gone = BROKEN[what]
    assert app.audit() == []
    break_it(hands)
    before = hands.names()
    found = app.audit()
    assert any(re.search(says, text) for text in found), found
    assert hands.names() == before, "looking changes nothing"
    mended = app.audit(repair=True)
    assert any(re.search(says, text) for text in mended), mended
    again = app.audit(repair=True)
    assert again == [], "one pass is enough"
    assert app.audit() == []
    claim.complete()
    done = finish_all(app)
    assert done | {"runs"} >= JOBS - gone
    assert app.audit() == []
    counts = app.queue("q").counts()
    assert (counts.waiting, counts.running, counts.failed) == (0, 0, 0)


def test_a_clean_queue_is_left_alone(alone: tuple[Headrace, Hands, Claim]) -> None:
    app, _, claim = alone
    before = [app.queue("q").job(id).info() for id in sorted(JOBS)]
    for _ in range(3):
        assert app.audit(repair=True) == []
    assert [app.queue("q").job(id).info() for id in sorted(JOBS)] == before
    assert claim.complete() is True


def test_it_goes_through_every_shard_and_every_page(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    q.enqueue_many(range(3000))
    for shard in range(app.shards):
        hands("DEL", "z:q", shard=shard)
        hands("HSET", "n:q", "d", 77, shard=shard)
    assert q.lease(30) == []
    found = app.audit(repair=True)
    assert sum("stood in no place" in text for text in found) == 3000
    assert q.counts().ready == 3000
    assert len(q.lease(30, n=5000)) == 3000


def test_a_queue_that_never_rests_is_not_taken_for_broken(app: Headrace, place: Place, namespace: str) -> None:
    """Jobs that end while others start leave the counters as they were: that must not look like rest."""
    app.queue("q").enqueue_many(range(300), route="r")
    over = threading.Event()

    def work() -> None:
        with place.open(namespace) as worker:
            while claims := worker.queue("q").lease(30, n=1):
                assert claims[0].complete()
        over.set()

    found: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(work) for _ in range(2)]
        while not over.is_set():
            found += app.audit(repair=True)
        for future in futures:
            future.result()
    assert found == []


def test_queues_go_on_while_they_are_audited(app: Headrace, place: Place, namespace: str) -> None:
    """Beside producers and consumers that do not wait for it: nothing is taken for broken, and nothing gets lost."""
    app.lane("l", queue="q", cap=20)
    made: list[str] = []
    done: list[str] = []
    producing = threading.Event()

    def produce() -> None:
        with place.open(namespace) as own:
            q = own.queue("q")
            for n in range(40):
                jobs = q.enqueue_many(range(10), lane="l" if n % 2 else "", delay=0.05 if n % 4 == 0 else 0)
                made.extend(job.id for job in [*jobs, q.enqueue(n, priority=n)])

    def consume() -> None:
        with place.open(namespace) as own:
            q = own.queue("q")
            while (claims := q.lease(30, n=7, wait=0.2)) or not producing.is_set() or q.counts().waiting:
                again = [claim for claim in claims[:2] if claim.failures == 0]
                for claim in again:
                    assert claim.retry("once more", delay=0.05) == "waiting"
                back, rest = claims[6:], [claim for claim in claims[:6] if claim not in again]
                for claim in back:  # of a full batch, one unrun
                    assert claim.release() == "waiting"
                assert all(q.complete_many(rest))
                done.extend(claim.id for claim in rest)

    found: list[str] = []
    audits = 0
    with ThreadPoolExecutor(4) as pool:
        producers = [pool.submit(produce) for _ in range(2)]
        consumers = [pool.submit(consume) for _ in range(2)]
        while not all(future.done() for future in [*producers, *consumers]):
            found += app.audit(repair=audits % 2 == 0)
            audits += 1
            if all(future.done() for future in producers):
                producing.set()
        for future in [*producers, *consumers]:
            future.result()
    assert found == []
    assert audits > 5
    assert len(done) == len(set(done)), "no job is done twice"
    assert set(done) == set(made), "and none is lost"
    assert len(made) == 2 * 40 * 11
    assert app.audit() == []


def test_a_cap_opens_again_when_a_lost_run_is_mended(alone: tuple[Headrace, Hands, Claim]) -> None:
    app, hands, _ = alone
    q = app.queue("capped")
    app.lane("x", queue="capped", cap=1)
    q.enqueue_many(range(2), lane="x")
    (claim,) = q.lease(1000)
    hands("HDEL", "run", claim.key)
    hands("ZREM", "dl", claim.key)
    assert app.audit(repair=True)
    assert len(q.lease(30)) == 1
    assert app.audit() == []


def test_a_twin_behind_a_lost_run_goes_to_its_own_lane(alone: tuple[Headrace, Hands, Claim]) -> None:
    app, hands, _ = alone
    q = app.queue("twins")
    q.enqueue("1", id="j", lane="x")
    (claim,) = q.lease(1000)
    q.enqueue("2", id="j", lane="y", priority=80)
    hands("HDEL", "run", claim.key)
    hands("ZREM", "dl", claim.key)
    assert app.audit(repair=True)
    assert app.audit() == []
    assert [(c.id, c.data, c.lane, c.priority) for c in q.lease(30, 5)] == [("j", "2", "y", 80)]


def test_a_record_whose_options_cannot_be_read(alone: tuple[Headrace, Hands, Claim]) -> None:
    app, hands, _ = alone
    header = b"\1" + b"\x32" + b"\0" * 12 + b"\0"
    hands("HSET", "j:q", "broken", header + b"\x00\x04" + b"\xda\xff\xff\x00" + b"\1\xc0")
    assert any("q/broken has a record that cannot be read" in text for text in app.audit())
    assert app.audit(repair=True)
    assert app.audit() == []
