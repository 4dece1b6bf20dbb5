"""Lost connections and replies: numbered calls happen once, readers go on, plain calls say that nobody knows."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from headrace import clock, errors
from headrace.protocol.steps import Channel
from tests.server.transport_tools import KINDS, Runner, add, bump, echo, read, running
from tests.tools.processes import eventually
from tests.tools.proxy import ChaosProxy
from tests.tools.servers import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def proxy(server: Server) -> Iterator[ChaosProxy]:
    with server.admin() as client:
        cast(Any, client).flushall()
    with ChaosProxy(server) as proxy:
        yield proxy


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, proxy: ChaosProxy) -> Iterator[Runner]:
    with running(request.param, proxy.url + "?socket_timeout=0.5", retry_for=5) as run:
        assert run(add("warm")) == 1
        yield run


@contextmanager
def quickly(seconds: float) -> Generator[None]:
    started = clock.monotonic()
    yield
    assert clock.monotonic() - started < seconds


def test_a_lost_reply_is_asked_for_again_and_the_call_happens_once(run: Runner, proxy: ChaosProxy) -> None:
    lost = proxy.lose_reply(after="add")
    with quickly(1):
        assert run(add("n", 7)) == 7
    assert lost.fired.is_set()
    assert run(read("n")) == b"7"


def test_a_lost_request_is_sent_again(run: Runner, proxy: ChaosProxy) -> None:
    lost = proxy.lose_request(before="add")
    with quickly(1):
        assert run(add("n", 7)) == 7
    assert lost.fired.is_set()
    assert run(read("n")) == b"7"


def test_lost_replies_in_a_list(run: Runner, proxy: ChaosProxy) -> None:
    rules = [proxy.lose_reply(after="add", n=n) for n in (3, 20, 31)]
    answers = run([add("n") for _ in range(40)])
    assert all(rule.fired.is_set() for rule in rules)
    assert sorted(answers) == list(range(1, 41))
    assert run(read("n")) == b"40"


def test_a_session_s_channel_keeps_its_numbers(run: Runner, proxy: ChaosProxy) -> None:
    channel = Channel("session")
    lost = proxy.lose_reply(after="add", n=2)
    assert run([add("n", channel=channel) for _ in range(3)]) == [1, 2, 3]
    assert lost.fired.is_set()
    assert channel.number == 3


def test_a_plain_call_whose_reply_was_lost_is_not_repeated(run: Runner, proxy: ChaosProxy) -> None:
    run(bump("other"))
    lost = proxy.lose_reply(after="bump")
    with pytest.raises(errors.ServerUnavailable, match="may or may not"):
        run(bump("n"))
    assert lost.fired.is_set()
    assert run(read("n")) == b"1"


def test_a_plain_call_on_a_connection_that_ended_before_is_sent_on_a_new_one(run: Runner, server: Server) -> None:
    for turn in range(1, 4):
        with server.admin() as client:
            cast(Any, client).execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        _notice(run)
        assert run(bump("n")) == turn


def _notice(run: Runner) -> None:
    """Let an event loop turn until it has seen that its connection ended; a blocking caller looks by itself."""
    run(read("n"))


def test_every_connection_is_killed_while_many_calls_run(run: Runner, proxy: ChaosProxy) -> None:
    done = threading.Event()

    def cutter() -> None:
        while not done.wait(0.02):
            proxy.cut()

    thread = threading.Thread(target=cutter)
    thread.start()
    try:
        for _ in range(10):
            run([add("n") for _ in range(50)])
    finally:
        done.set()
        thread.join()
    assert run(read("n")) == b"500"


def test_a_silent_server_is_left_after_the_timeout(run: Runner, proxy: ChaosProxy) -> None:
    proxy.blackhole()
    timer = threading.Timer(0.7, proxy.restore)
    timer.start()
    with quickly(4):
        assert run(add("n", 7)) == 7
    timer.join()
    assert run(read("n")) == b"7"


def test_what_stays_lost_is_unavailable(server: Server) -> None:
    for kind in KINDS:
        with ChaosProxy(server) as proxy, running(kind, proxy.url + "?socket_timeout=0.2", retry_for=0.6) as run:
            assert run(echo("x")) == [b"x"]
            proxy.blackhole()
            with quickly(3), pytest.raises(errors.ServerUnavailable, match="did not reply in time") as caught:
                run(add("n"))
            said = str(caught.value)
            assert f"no answer from the server at 127.0.0.1:{proxy.port} to add (" in said
            assert said.endswith("; add was sent and its reply was lost: it may or may not have been done")
            assert "URL" not in said, "it worked before"
            with quickly(3), pytest.raises(errors.ServerUnavailable, match=r"to echo \(.*can be reached from here$"):
                run([echo("x")])


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_may_have_been_done_says_so_however_it_ends(kind: str) -> None:
    """Its reply was lost, and when it was sent again the server did not take it."""
    with Server() as server, ChaosProxy(server) as proxy, running(kind, proxy.url, retry_for=0.5) as run:
        run(add("n"))
        lost = proxy.lose_reply(after="add")
        proxy.delay(1)  # so long it takes until the reply is lost
        before = proxy.counts.total()

        def refuse() -> None:
            eventually(lambda: proxy.counts.total() > before, "it was sent")
            with server.admin() as client:
                eventually(lambda: cast(Any, client).get("{hr:0}n") == b"2", "it was done")
                cast(Any, client).config_set("min-replicas-to-write", "1")
            proxy.restore()

        thread = threading.Thread(target=refuse)
        thread.start()
        refused = r"does not take add now \(NOREPLICAS.*; add was sent .*"
        with pytest.raises(errors.ServerUnavailable, match=refused + "may or may not have been done"):
            run([add("n")])
        thread.join()
        assert lost.fired.is_set()


def test_a_restart_of_the_server_is_waited_for() -> None:
    with Server(persistence="always") as server:
        for kind in KINDS:
            with running(kind, server.url) as run:
                before = run(add("n"))
                server.kill()
                thread = threading.Thread(target=server.start)
                thread.start()
                assert run(add("n")) == before + 1
                thread.join()


def test_a_server_that_is_gone_is_unavailable_within_the_time_given() -> None:
    for kind in KINDS:
        with Server() as server, running(kind, server.url, retry_for=0.5) as run:
            run(echo("x"))
            server.kill()
            with quickly(2), pytest.raises(errors.ServerUnavailable, match=str(server.port)):
                run(add("n"))
            with quickly(2), pytest.raises(errors.ServerUnavailable):
                run([bump("n"), echo("x")])


def test_a_busy_server_is_waited_for(run: Runner, server: Server) -> None:
    with server.admin() as client:
        admin = cast(Any, client)
        admin.config_set("min-replicas-to-write", "1")
        timer = threading.Timer(0.3, admin.config_set, ("min-replicas-to-write", "0"))
        timer.start()
        assert run(add("n")) == 1
        timer.join()
