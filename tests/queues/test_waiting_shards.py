"""Waiting on several shards at once: who got something on one of them is no waiter of the others any more."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from headrace import Claim, Headrace, UpgradeNeeded, clock
from headrace.protocol.routing import Ring
from tests.queues.places import Hands, Place, fresh
from tests.tools.processes import eventually
from tests.tools.servers import Server

ROUTES = {Ring("", 2).of_route(str(n)): str(n) for n in range(100)}
"""A route into each of two shards."""


@pytest.fixture
def two(valkey: Server) -> Place:
    """One server, two shards."""
    return Place("valkey", valkey.url, 2, [valkey])


@pytest.fixture
def hands(two: Place) -> Generator[Hands]:
    """Plain commands on the keys of the test."""
    made = two.hands(fresh())
    yield made
    made.clean()
    made.close()


@pytest.fixture
def app(two: Place, hands: Hands) -> Generator[Headrace]:
    """An app on the two shards; audited at the end."""
    with two.open(hands.namespace) as made:
        yield made
        assert made.audit() == []


@pytest.fixture(params=[0, 1])
def first(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The shard that every lease asks first."""
    monkeypatch.setattr("headrace.queues.leasing.random.randrange", lambda n: request.param)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return request.param


def waiting(hands: Hands) -> list[int]:
    """How many each shard would wake."""
    now = clock.wall() * 1000
    return [hands("ZCOUNT", "waiters", now, "+inf", shard=shard) for shard in range(2)]


def test_who_is_served_at_the_first_look_waits_nowhere(app: Headrace, hands: Hands, first: int) -> None:
    q = app.queue("q")
    q.enqueue("x", route=ROUTES[1 - first])
    assert len(q.lease(30, wait=5)) == 1
    assert waiting(hands) == [0, 0]
    q.enqueue("y", route=ROUTES[1 - first])
    assert len(asyncio.run(q.alease(30, wait=5))) == 1
    assert waiting(hands) == [0, 0]


def test_who_is_served_after_a_wait_waits_nowhere(app: Headrace, hands: Hands, two: Place, first: int) -> None:
    with two.open(hands.namespace) as other, ThreadPoolExecutor(1) as pool:
        for shard in (0, 1):
            waiter: Future[list[Claim]] = pool.submit(other.queue("q").lease, 30, 1, 60)
            eventually(lambda: waiting(hands) == [1, 1], "it waits in both")
            app.queue("q").enqueue("x", route=ROUTES[shard])
            assert len(waiter.result(10)) == 1
            assert waiting(hands) == [0, 0]


def test_who_fails_at_one_shard_does_not_wait_at_the_other(app: Headrace, hands: Hands, first: int) -> None:
    hands("HSET", "meta", "format", 99, shard=1 - first)
    with pytest.raises(UpgradeNeeded):
        app.queue("q").lease(30, wait=5)
    assert waiting(hands) == [0, 0]
    hands("HSET", "meta", "format", hands("HGET", "meta", "format", shard=first), shard=1 - first)


def test_who_finds_nothing_in_time_waits_nowhere(app: Headrace, hands: Hands, first: int) -> None:
    assert app.queue("q").lease(30, wait=0.05) == []
    assert waiting(hands) == [0, 0]
