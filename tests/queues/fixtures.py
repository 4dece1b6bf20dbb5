"""Fixtures of the tests of queues: an app in a namespace of its own, on every kind of place."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest
import uvloop

from headrace import Headrace
from tests.queues.awaited import awaited
from tests.queues.places import Clock, Hands, Place, fresh
from tests.tools.cluster import Cluster
from tests.tools.servers import Server, flavours

__all__ = ["app", "clock", "dirty", "hands", "namespace", "place", "timed"]

PLACES = [*flavours(), "cluster"]


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Valkey alone, the machine's Redis where it is installed, and a cluster with more shards than nodes."""
    if request.param == "cluster":
        cluster: Cluster = request.getfixturevalue("cluster")
        return Place("cluster", cluster.url, 6, cluster.nodes)
    server: Server = request.getfixturevalue("valkey" if request.param == "valkey" else "redis7")
    return Place(request.param, server.url, 1, [server])


@pytest.fixture
def namespace() -> str:
    """A namespace for this test alone."""
    return fresh()


@pytest.fixture
def hands(place: Place, namespace: str) -> Generator[Hands]:
    """Plain commands on the test's keys, which are removed at its end."""
    made = place.hands(namespace)
    yield made
    made.clean()
    made.close()


@pytest.fixture
def dirty() -> None:
    """Asked for by tests that leave broken data behind: nothing is audited after them."""


@pytest.fixture
def app(request: pytest.FixtureRequest, place: Place, namespace: str, hands: Hands) -> Generator[Headrace]:
    """An app of its own; afterwards an audit finds nothing."""
    with place.open(namespace) as real:
        yield from _shown(request, real)


@pytest.fixture
def timed(request: pytest.FixtureRequest, place: Place, namespace: str, clock: Clock) -> Generator[Headrace]:
    """The same with a clock that stands still until the test moves it."""
    with place.open(namespace, test_clock=True) as real:
        yield from _shown(request, real)


@pytest.fixture
def clock(hands: Hands) -> Clock:
    """The time of `timed`."""
    return Clock(hands)


def _shown(request: pytest.FixtureRequest, real: Headrace) -> Generator[Headrace]:
    """As a test gets it: plain on Valkey, each call awaited on the cluster (asyncio) and on Redis (uvloop)."""
    kind = request.getfixturevalue("place").name
    if kind == "valkey":
        yield real
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if kind == "redis" else None) as loop:
            yield awaited(real, loop)
    if "dirty" not in request.fixturenames:
        found = real.audit()
        assert not found, found
