"""Waiting on the server: tokens wake in milliseconds, time-outs are kept, a lost connection means look again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from headrace import clock, errors
from headrace.protocol.steps import Block, Listen
from tests.server.transport_tools import KINDS, Runner, add, doing, publish, push, read, running, site_at
from tests.tools.cluster import Cluster
from tests.tools.processes import eventually
from tests.tools.proxy import ChaosProxy
from tests.tools.servers import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, server: Server) -> Iterator[Runner]:
    with server.admin() as client:
        cast(Any, client).flushall()
    with running(request.param, server.url) as run:
        yield run


def blocked(server: Server) -> int:
    with server.admin() as client:
        return cast(Any, client).info("clients")["blocked_clients"]


def subscribers(server: Server, channel: str) -> int:
    with server.admin() as client:
        return cast(Any, client).pubsub_numsub(channel)[0][1]


def later(server: Server, effect: Any, ready: Any) -> threading.Thread:
    """Run an effect from another connection as soon as somebody waits."""

    def act() -> None:
        with site_at(server.url) as other:
            eventually(ready, "somebody waits")
            other.run(doing(effect))

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_token_wakes_at_once_and_a_waiting_token_is_taken(run: Runner, server: Server) -> None:
    thread = later(server, push("{hr:0}wake"), lambda: blocked(server))
    started = clock.monotonic()
    assert run(Block({0: "{hr:0}wake"}, 5)) is True
    assert clock.monotonic() - started < 2
    thread.join()
    run(push("{hr:0}wake"))
    assert run(Block({0: "{hr:0}wake"}, 5)) is True
    assert run(Block({0: "{hr:0}wake"}, 0.01)) is False


@pytest.mark.parametrize("seconds", [0.0001, 0.001, 0.05, 0.3])
def test_the_time_is_kept(run: Runner, seconds: float) -> None:
    run(Block({0: "{hr:0}wake"}, 0.001))
    started = clock.monotonic()
    assert run(Block({0: "{hr:0}wake"}, seconds)) is False
    assert seconds - 0.001 <= clock.monotonic() - started < seconds + 0.5


def test_one_wait_serves_all_shards_of_a_server(run: Runner, server: Server) -> None:
    keys = {shard: f"{{hr:{shard}}}wake" for shard in range(4)}
    for shard in (2, 0, 3):
        thread = later(server, push(keys[shard], shard), lambda: blocked(server) == 1)
        assert run(Block(keys, 5)) is True
        thread.join()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_wakes_from_any_shard_and_keeps_its_connections(kind: str) -> None:
    with Cluster() as cluster, running(kind, cluster.url) as run, site_at(cluster.url) as other:
        keys = {shard: f"{{hr:{shard}}}wake" for shard in range(6)}
        assert run(Block(keys, 0.01)) is False
        opened = _opened(cluster)

        def act(shard: int) -> None:
            eventually(lambda: sum(blocked(node) for node in cluster.nodes) == 6, "all shards are waited for")
            other.run(doing(push(keys[shard], shard)))

        other.run(doing(read("x", 0)))
        for shard in (0, 3, 5):
            thread = threading.Thread(target=act, args=(shard,))
            thread.start()
            assert run(Block(keys, 5)) is True
            thread.join()
            assert sum(blocked(node) for node in cluster.nodes) == 0
        assert _opened(cluster) - opened <= 8  # calls of both sites, an admin's look aside: no new one for each wait


def _opened(cluster: Cluster) -> int:
    """Connections over TCP now open: the admin's own look comes over a Unix socket."""
    total = 0
    for node in cluster.nodes:
        clients = cast("list[dict[str, str]]", cast(Any, node.client()).client_list())
        total += sum(1 for client in clients if client["addr"].startswith("127.0.0.1") and client["lib-name"] == "")
    return total


def _cut_a_waiter(server: Server, proxy: ChaosProxy) -> None:
    eventually(lambda: blocked(server), "somebody waits")
    proxy.cut()


def test_a_lost_connection_means_look_again(server: Server) -> None:
    for kind in KINDS:
        with ChaosProxy(server) as proxy, running(kind, proxy.url) as run:
            cutter = threading.Thread(target=_cut_a_waiter, args=(server, proxy))
            cutter.start()
            assert run(Block({0: "{hr:0}wake"}, 5)) is True
            cutter.join()
            assert run(Block({0: "{hr:0}wake"}, 0.01)) is False


def test_a_half_open_connection_is_noticed(server: Server) -> None:
    for kind in KINDS:
        with ChaosProxy(server) as proxy, running(kind, proxy.url) as run:
            assert run(Block({0: "{hr:0}wake"}, 0.01)) is False
            proxy.blackhole()
            started = clock.monotonic()
            assert run(Block({0: "{hr:0}wake"}, 0.1)) is True
            assert clock.monotonic() - started < 4


def test_a_foreign_type_under_the_key_is_an_error(run: Runner) -> None:
    run(add("number"))
    with pytest.raises(errors.ForeignKey):
        run(Block({0: "{hr:0}number"}, 1))


def test_a_message_is_heard(run: Runner, server: Server) -> None:
    thread = later(server, publish("{hr:0}done", "hello"), lambda: subscribers(server, "{hr:0}done"))
    started = clock.monotonic()
    assert run(Listen(0, "{hr:0}done", read("none"), 5)) == b"hello"
    assert clock.monotonic() - started < 2
    thread.join()
    eventually(lambda: subscribers(server, "{hr:0}done") == 0, "nobody listens any more")


def test_what_is_there_already_is_read_and_silence_has_its_time(run: Runner) -> None:
    run(add("n", 7))
    assert run(Listen(0, "{hr:0}done", read("n"), 5)) == b"7"
    started = clock.monotonic()
    assert run(Listen(0, "{hr:0}done", read("none"), 0.05)) is None
    assert 0.049 <= clock.monotonic() - started < 1


def test_listening_survives_a_lost_connection(server: Server) -> None:
    for kind in KINDS:
        with ChaosProxy(server) as proxy, running(kind, proxy.url, namespace=f"lost{kind}") as run:
            channel = f"{{lost{kind}:0}}done"

            def act(proxy: ChaosProxy = proxy, channel: str = channel, kind: str = kind) -> None:
                with site_at(server.url, namespace=f"lost{kind}") as other:
                    eventually(lambda: subscribers(server, channel), "somebody listens")
                    other.run(doing(add("n", 7)))  # the message is missed, the next read finds what it told
                    proxy.cut()

            thread = threading.Thread(target=act)
            thread.start()
            assert run(Listen(0, channel, read("n"), 5)) == b"7"
            thread.join()


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_many_tasks_listen_over_one_connection(server: Server, kind: str) -> None:
    with running(kind, server.url) as run:

        async def work() -> list[Any]:
            tasks = [
                asyncio.create_task(run.site.arun(doing(Listen(0, f"c{i % 10}", read("none"), 10)))) for i in range(100)
            ]
            await asyncio.to_thread(
                eventually, lambda: all(subscribers(server, f"c{i}") for i in range(10)), "all listen"
            )
            for i in range(5):
                await run.site.arun(doing(publish(f"c{i}", str(i))))
            heard = await asyncio.gather(*(tasks[i] for i in range(100) if i % 10 < 5))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(
                eventually, lambda: not any(subscribers(server, f"c{i}") for i in range(10)), "nobody listens"
            )
            return heard

        assert run.wait_for(work()) == [b"%d" % (i % 10) for i in range(100) if i % 10 < 5]


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_cancelled_wait_leaves_nobody_waiting(server: Server, kind: str) -> None:
    with running(kind, server.url) as run:

        async def work() -> Any:
            task = asyncio.create_task(run.site.arun(doing(Block({0: "{hr:0}wake"}, 5))))
            await asyncio.to_thread(eventually, lambda: blocked(server) == 1, "it waits")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(eventually, lambda: blocked(server) == 0, "nobody waits")
            return await run.site.arun(doing(read("none")))

        assert run.wait_for(work()) is None
