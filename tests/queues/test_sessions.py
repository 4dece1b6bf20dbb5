"""Sessions as workers will use them: one heartbeat for all claims, dead for good, jobs parked without a handler.

The rooms above will wrap these calls; until then they are driven through the app's engine.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ClaimLost, Headrace
from headrace.protocol import claiming, sessions
from headrace.protocol.claiming import Claimed, End, Want
from headrace.protocol.sessions import Profile
from headrace.protocol.steps import Channel, Steps
from tests.queues.awaited import plain
from tests.queues.places import Clock


class Session:
    """One worker process on one shard, as far as the server can tell."""

    def __init__(
        self, app: Headrace, name: str, lease: float = 10, tasks: tuple[str, ...] = (), shard: int = 0
    ) -> None:
        self.app: Headrace = plain(app)
        self.channel, self.shard = Channel(name), shard
        self.run(sessions.open_session(self.channel, shard, Profile(round(lease * 1000), ["q"], tasks)))

    def run(self, steps: Steps[Any]) -> Any:
        """Run an operation of the protocol once."""
        return self.app.engine.site.run(steps)

    def claim(self, n: int = 10) -> list[Claimed]:
        """Claim under the session's lease."""
        return self.run(claiming.claim(Want(n, ["q"]), self.shard, self.channel)).jobs

    def beat(self) -> list[str] | None:
        """One heartbeat."""
        return self.run(sessions.heartbeat(self.channel.id, self.shard))

    def finish(self, claimed: Claimed, op: str = "c", body: bytes = b"") -> str:
        """End one claim."""
        return self.run(claiming.finish([End(claimed.key, claimed.claim, op, body)], self.shard, self.channel))


@pytest.fixture
def route(timed: Headrace) -> str:
    """A route that leads to the first shard."""
    ring = plain(timed).engine.ring
    return next(name for name in map(str, range(1000)) if ring.of_route(name) == 0)


def test_one_heartbeat_keeps_all_claims(timed: Headrace, clock: Clock, route: str) -> None:
    q = timed.queue("q")
    q.enqueue_many(range(20), route=route)
    worker = Session(timed, "w")
    assert len(worker.claim(20)) == 20
    for _ in range(5):
        clock.forward(4)
        assert worker.beat() == []
    assert q.counts().running == 20
    clock.forward(4)
    Session(timed, "other").beat()
    clock.forward(4)
    other = Session(timed, "third")
    clock.forward(2)
    other.beat()
    assert q.counts().running == 0
    assert {claim.stalls for claim in q.lease(30, n=20)} == {1}


def test_a_dead_session_is_never_revived(timed: Headrace, clock: Clock, route: str) -> None:
    q = timed.queue("q")
    q.enqueue("data", id="x", route=route)
    worker = Session(timed, "w")
    (claimed,) = worker.claim()
    for _ in range(3):
        clock.forward(4)
        q.lease(30)
    assert worker.beat() is None
    assert worker.beat() is None
    assert worker.finish(claimed) == claiming.LOST
    with pytest.raises(ClaimLost, match="session w is not alive"):
        worker.claim()


def test_after_a_silence_of_the_server_sessions_get_one_full_lease(timed: Headrace, clock: Clock, route: str) -> None:
    q = timed.queue("q")
    q.enqueue("data", id="x", route=route)
    worker = Session(timed, "w")
    (claimed,) = worker.claim()
    clock.forward(60)
    assert q.lease(30) == [], "nobody called for a minute: that was the server, not the worker"
    assert worker.beat() == []
    assert worker.finish(claimed) == claiming.COMPLETED


def test_a_heartbeat_tells_what_was_cancelled(timed: Headrace, route: str) -> None:
    q = timed.queue("q")
    for id in "abc":
        q.enqueue(1, id=id, route=route)
    worker = Session(timed, "w")
    claims = worker.claim()
    assert worker.beat() == []
    assert q.cancel("b", running=True, why="stop", route=route)
    assert worker.beat() == ["q/b"]
    assert worker.finish(claims[1], "l", claiming.time_body(delay_ms=0)) == claiming.CANCELLED
    assert worker.beat() == []


def test_closing_hands_everything_back_uncounted(timed: Headrace, route: str) -> None:
    q = timed.queue("q")
    q.enqueue_many(range(250), route=route)
    worker = Session(timed, "w")
    for _ in range(3):
        worker.claim(100)
    assert q.counts().running == 250
    assert worker.run(sessions.close_session(worker.channel, 0)) == 250
    claims = q.lease(30, n=250)
    assert [claim.data for claim in claims] == list(range(250))
    assert {(claim.attempt, claim.stalls) for claim in claims} == {(1, 0)}


def test_a_job_without_a_handler_waits_with_its_task(timed: Headrace, route: str) -> None:
    q = timed.queue("q")
    job = q.enqueue("unknown", id="x", task="resize", route=route)
    worker = Session(timed, "w", tasks=("other",))
    (claimed,) = worker.claim()
    assert worker.finish(claimed, "p") == claiming.PARKED
    assert worker.claim() == []
    assert (q.counts().ready, q.counts().parked) == (1, 1)
    assert job.status() == "ready"
    (why,) = (reason for reason in job.explain().reasons if reason.code == "no_handler")
    assert why.details["task"] == "resize"
    assert str(why) == "no session of queue 'q' has a handler for task 'resize'; it waits until one opens"
    knows = Session(timed, "knows", tasks=("resize",))
    (claimed,) = knows.claim()
    assert q.counts().parked == 0
    assert knows.finish(claimed) == claiming.COMPLETED
    assert job.result(timeout=1) is None
    assert job.status() == "done"


def test_a_session_that_listens_is_seen_by_explain(timed: Headrace, route: str) -> None:
    job = timed.queue("q").enqueue(1, route=route)
    assert "nobody_listens" in job.explain().codes
    Session(timed, "w")
    assert "nobody_listens" not in job.explain().codes
