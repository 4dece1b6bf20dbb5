"""One of several shards lost its data, or holds a stranger's key: what the others did is neither lost nor doubled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator

import pytest

from headrace import Headrace
from tests.queues.awaited import awaited
from tests.queues.places import Hands, Place, fresh
from tests.tools.servers import Server


@pytest.fixture
def hands(valkey: Server) -> Generator[Hands]:
    """Plain commands on the keys of the test."""
    made = Place("valkey", valkey.url, 3, [valkey]).hands(fresh())
    yield made
    made.clean()
    made.close()


@pytest.fixture(params=["blocking", "asyncio"])
def app(request: pytest.FixtureRequest, hands: Hands) -> Generator[Headrace]:
    """An app on three shards, by each transport; audited at the end."""
    with hands.place.open(hands.namespace) as real:
        if request.param == "blocking":
            yield real
        else:
            with asyncio.Runner() as loop:
                yield awaited(real, loop)
        assert real.audit() == []


def lose(hands: Hands, shard: int) -> None:
    """A shard is gone, the others are not."""
    for name in [name for name in hands.names() if name.startswith(hands.key("", shard))]:
        for client in hands.clients:
            client.delete(name)


def test_many_jobs_are_each_added_once(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    q.enqueue_many(range(30))
    before = app.epochs
    kept = 30 - hands("HLEN", "j:q", shard=1)
    lose(hands, 1)
    jobs = q.enqueue_many(range(5000))
    assert [job.outcome for job in jobs] == ["added"] * 5000
    assert q.counts().ready == kept + 5000
    assert [old == new for old, new in zip(before, app.epochs, strict=True)] == [True, False, True]


def test_the_loss_is_told_once(app: Headrace, hands: Hands, caplog: pytest.LogCaptureFixture) -> None:
    lose(hands, 0)
    lose(hands, 2)
    caplog.clear()
    app.queue("q").enqueue_many(range(5000))
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "holds no data" in line
    assert "starting with an empty shard (what Redis held is gone)" in line
    assert app.queue("q").counts().ready == 5000


def test_many_completions_say_which_were_done(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    q.enqueue_many(range(90))
    claims = sorted(q.lease(30, n=90), key=lambda claim: claim.shard)
    assert {claim.shard for claim in claims} == {0, 1, 2}
    lose(hands, 1)
    assert q.complete_many(claims) == [claim.shard != 1 for claim in claims]


def test_a_lease_keeps_what_it_got(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    jobs = q.enqueue_many(range(90))
    lose(hands, 1)
    claims = q.lease(30, n=90)
    assert {claim.id for claim in claims} == {job.id for job in jobs if job.status() is not None}
    assert {claim.attempt for claim in claims} == {1}
    assert {claim.shard for claim in claims} == {0, 2}


@pytest.mark.parametrize("key", ["z:q", "c:", "meta"])
def test_a_stranger_s_key_in_one_shard_doubles_nothing(app: Headrace, hands: Hands, key: str) -> None:
    q = app.queue("q")
    q.enqueue_many(range(30))
    if key == "meta":
        hands("DEL", key, shard=1)
    hands("SET", key, "somebody else was here", shard=1)
    jobs = q.enqueue_many(range(5000))
    assert [job.outcome for job in jobs] == ["added"] * 5000
    app.audit(repair=True)
    claims = q.lease(30, n=6000)
    assert len({claim.id for claim in claims}) == len(claims) == 5030


def test_one_is_lost_and_another_holds_a_stranger_s_key(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    q.enqueue_many(range(30))
    lose(hands, 0)
    hands("SET", "z:q", "somebody else was here", shard=1)
    assert [job.outcome for job in q.enqueue_many(range(5000))] == ["added"] * 5000
    app.audit(repair=True)
    assert 5000 <= len({claim.id for claim in q.lease(30, n=6000)}) < 5030
