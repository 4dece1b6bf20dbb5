"""Every public operation, plain and awaited, on a server that is full and on one that has just lost everything."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, cast

import pytest

from headrace import Headrace, QueueFull
from headrace.protocol import claiming
from tests.queues.operations import OPERATIONS, Expected, Ground, ground, missing
from tests.queues.test_sessions import Session
from tests.tools.servers import Server


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    """A server for these tests alone: they fill it, and empty it."""
    with Server() as server:
        yield server


@pytest.fixture(params=["plain", "awaited"])
def prepared(request: pytest.FixtureRequest, server: Server) -> Generator[Ground]:
    """A queue with a job in each place, on a server that holds nothing else."""
    admin(server, "FLUSHALL")
    with Headrace(server.url) as app:
        if request.param == "plain":
            yield ground(app, None)
        else:
            with asyncio.Runner() as loop:
                yield ground(app, loop)
                loop.run(app.aclose())


def admin(server: Server, *words: object) -> None:
    with server.admin() as client:
        cast(Any, client).execute_command(*words)


@pytest.fixture
def full(server: Server) -> Generator[None]:
    """No memory is left, once everything is prepared."""
    admin(server, "CONFIG", "SET", "maxmemory", "1")
    yield
    admin(server, "CONFIG", "SET", "maxmemory", "0")


def check(name: str, prepared: Ground, expected: Expected) -> None:
    """The operation answers what is expected, or raises it."""
    operation = OPERATIONS[name][0]
    if isinstance(expected, type):
        with pytest.raises(expected):
            operation(prepared)
    else:
        answer = operation(prepared)
        assert expected(answer), answer


def test_no_public_operation_is_missing() -> None:
    assert not missing()


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_a_full_server_refuses(prepared: Ground, full: None, name: str) -> None:
    """Jobs, and the settings of the history, are refused; everything else answers as ever."""
    check(name, prepared, OPERATIONS[name][1])


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_call_survives_the_loss(prepared: Ground, server: Server, name: str) -> None:
    """Right after the server lost all keys, any call makes an empty shard and answers what holds there."""
    before = prepared.app.epochs
    admin(server, "FLUSHALL")
    check(name, prepared, OPERATIONS[name][2])
    assert prepared.app.epochs != before
    assert prepared.app.audit() == []


def test_a_worker_goes_on_while_the_server_is_full(server: Server) -> None:
    admin(server, "FLUSHALL")
    with Headrace(server.url) as app:
        app.queue("q").enqueue_many(range(3))
        admin(server, "CONFIG", "SET", "maxmemory", "1")
        try:
            worker = Session(app, "w")
            first, second, _ = worker.claim()
            assert worker.beat() == []
            assert worker.finish(first) == "C"
            assert worker.finish(second, "l", claiming.time_body(delay_ms=0)) == "L"
        finally:
            admin(server, "CONFIG", "SET", "maxmemory", "0")
        assert (app.queue("q").counts().ready, app.queue("q").counts().running) == (1, 1)


def test_a_full_server_takes_no_library(server: Server) -> None:
    """A version that the server has not seen yet cannot begin there; those that run go on."""
    admin(server, "FLUSHALL")
    with Headrace(server.url) as app:
        app.queue("q").enqueue(1)
        admin(server, "CONFIG", "SET", "maxmemory", "1")
        try:
            assert app.queue("q").lease(30)
            admin(server, "FUNCTION", "FLUSH")
            with pytest.raises(QueueFull, match="FUNCTION LOAD"):
                app.queue("q").lease(30)
        finally:
            admin(server, "CONFIG", "SET", "maxmemory", "0")
        assert app.queue("q").lease(30) == []
