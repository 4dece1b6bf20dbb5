"""Processes killed with SIGKILL in the middle of an enqueue, a lease, a complete: nothing lost, nothing doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace import Headrace
from tests.queues.places import fresh
from tests.tools.crash import Child
from tests.tools.servers import Server


@pytest.fixture
def app(valkey: Server) -> Generator[Headrace]:
    """What the survivors see; audited at the end."""
    namespace = fresh()
    with Headrace(valkey.url, namespace=namespace) as made:
        yield made
        found = made.audit()
        assert not found, found


def run(app: Headrace, code: str, crash_at: str | None = None) -> Child:
    """A process with `q` and `app` of its own."""
    opening = (
        f"from headrace import Headrace\n"
        f"app = Headrace({app.url!r}, namespace={app.engine.site.namespace!r})\n"
        f"q = app.queue('q')\n"
    )
    return Child(opening + code, crash_at=crash_at)


ONE_BY_ONE = "for n in range(10): q.enqueue(n, id=str(n), if_exists='ignore'); tell(n)"
MANY = "q.enqueue_many(range(5000), ids=map(str, range(5000)), if_exists='ignore')"


@pytest.mark.parametrize(("at", "there"), [("enqueue-send:6", 5), ("enqueue-replied:6", 6)])
def test_enqueueing_one_by_one(app: Headrace, at: str, there: int) -> None:
    with run(app, ONE_BY_ONE, at) as child:
        assert child.crashed()
    assert app.queue("q").counts().ready == there
    with run(app, ONE_BY_ONE) as child:
        assert child.ends() == 0
    assert [claim.data for claim in app.queue("q").lease(30, n=50)] == list(range(10))


@pytest.mark.parametrize(
    ("at", "there"),
    [("enqueue-send:3", 0), ("enqueue-send:12", 2048), ("enqueue-replied:3", 2048), ("enqueue-replied:20", 5000)],
)
def test_enqueueing_many(app: Headrace, at: str, there: int) -> None:
    with run(app, MANY, at) as child:
        assert child.crashed()
    assert app.queue("q").counts().ready == there, "calls leave 2048 jobs at a time"
    assert app.audit() == []
    with run(app, MANY) as child:
        assert child.ends() == 0
    assert sorted(claim.data for claim in app.queue("q").lease(30, n=10_000)) == list(range(5000))


@pytest.mark.parametrize(("at", "stalls"), [("claim-send", 0), ("claim-replied", 1)])
def test_leasing(app: Headrace, at: str, stalls: int) -> None:
    q = app.queue("q")
    q.enqueue_many(range(5))
    with run(app, "q.lease(0.3, n=5)", at) as child:
        assert child.crashed()
    claims = q.lease(30, n=5, wait=5)
    assert [claim.data for claim in claims] == list(range(5))
    assert {(claim.attempt, claim.stalls) for claim in claims} == {(1 + stalls, stalls)}


FINISH = "claim, = q.lease(0.3); tell('claimed'); claim.complete('result')"


def test_killed_before_the_end_arrives(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue("data")
    with run(app, FINISH, "finish-send") as child:
        assert child.says() == "claimed"
        assert child.crashed()
    (claim,) = q.lease(30, wait=5)
    assert (claim.data, claim.attempt, claim.stalls) == ("data", 2, 1)
    assert claim.complete("by the next")
    assert job.result(timeout=1) == "by the next"


def test_killed_after_the_end_arrived(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue("data")
    with run(app, FINISH, "finish-replied") as child:
        assert child.crashed()
    assert job.result(timeout=1) == "result"
    assert q.lease(30, wait=0.4) == []
    assert [event.kind for event in app.history()] == ["done"]


CONSUME = """
for claim in q.leases(0.4, n=10):
    tell(claim.id)
    wait()
    claim.complete(claim.id)
"""


def test_workers_killed_at_any_moment(app: Headrace) -> None:
    """Each job is committed exactly once, however often its workers die."""
    q = app.queue("q", max_stalls=None)
    jobs = q.enqueue_many(range(200), max_stalls=None)

    def worker(lives: int) -> None:
        for life in range(lives):
            with run(app, CONSUME) as child:
                for _ in range(7 + 5 * life):
                    child.says()
                    child.go()
                child.kill()  # wherever it is now: completing, claiming, telling, or waiting

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(worker, 3) for _ in range(2)]:
            future.result()
    while claims := q.lease(30, n=100, wait=0.5):
        assert all(q.complete_many(claims, [claim.id for claim in claims]))
    assert [job.result(timeout=5) for job in jobs] == [job.id for job in jobs]
    ends = Counter(event.id for event in app.history(10_000) if event.kind == "done")
    assert ends == Counter({job.id: 1 for job in jobs})
