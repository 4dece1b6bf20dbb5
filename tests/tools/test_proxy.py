"""The proxy does to connections what it says, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any, cast

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headrace import clock
from tests.tools.processes import eventually
from tests.tools.proxy import ChaosProxy
from tests.tools.resp import Frames
from tests.tools.servers import Server

LIBRARY = """#!lua name=proxytest
local function add(keys) return redis.call('INCR', keys[1]) end
redis.register_function('hr_1a2b_enqueue', add)
redis.register_function('hr_1a2b_claim', add)
"""


@pytest.fixture
def proxy(server: Server) -> Generator[ChaosProxy]:
    admin = cast(Any, server.client())
    admin.flushall()
    admin.function_load(LIBRARY, replace=True)
    with ChaosProxy(server) as standing:
        yield standing
    admin.function_flush()


def through(proxy: ChaosProxy, **options: Any) -> Any:
    return cast(Any, redis.Redis).from_url(proxy.url, retry=Retry(NoBackoff(), 0), **options)


@pytest.mark.parametrize("protocol", [2, 3])
def test_passes_everything_unchanged(proxy: ChaosProxy, protocol: int) -> None:
    client = through(proxy, protocol=protocol)
    big = bytes(range(256)) * 8000
    client.set("big", big)
    client.hset("h", mapping={"a": "1", "b": "\r\n*3\r\n$"})
    assert client.get("big") == big
    assert client.hgetall("h") == {b"a": b"1", b"b": b"\r\n*3\r\n$"}
    with client.pipeline() as pipe:
        for n in range(5000):
            pipe.set(f"k{n}", b"x" * 200).get(f"k{n}")
        assert pipe.execute() == [True, b"x" * 200] * 5000
    with client.pubsub() as listener:
        listener.subscribe("news")
        assert listener.get_message(timeout=5)["type"] == "subscribe"
        client.publish("news", "hello")
        assert listener.get_message(timeout=5)["data"] == b"hello"


def test_counts_functions_and_commands(proxy: ChaosProxy) -> None:
    client = through(proxy)
    client.fcall("hr_1a2b_enqueue", 1, "n")
    client.fcall("hr_1a2b_enqueue", 1, "n")
    client.get("n")
    assert proxy.counts["hr_1a2b_enqueue"] == 2
    assert proxy.counts["get"] == 1


def test_a_lost_reply_was_applied(proxy: ChaosProxy, server: Server) -> None:
    client = through(proxy)
    lost = proxy.lose_reply(after="enqueue", n=2)
    assert client.fcall("hr_1a2b_claim", 1, "n") == 1
    assert client.fcall("hr_1a2b_enqueue", 1, "n") == 2
    assert not lost.fired.is_set()
    with pytest.raises(redis.ConnectionError):
        client.fcall("hr_1a2b_enqueue", 1, "n")
    assert lost.fired.is_set()
    assert cast(Any, server.client()).get("n") == b"3"
    assert client.fcall("hr_1a2b_enqueue", 1, "n") == 4


def test_in_a_pipeline_the_replies_before_the_lost_one_arrive(proxy: ChaosProxy) -> None:
    proxy.lose_reply(after="claim")
    connection = through(proxy).connection_pool.get_connection()
    connection.send_packed_command(
        connection.pack_commands([("FCALL", f"hr_1a2b_{name}", 1, "n") for name in ("enqueue", "claim", "enqueue")])
    )
    assert connection.read_response() == 1
    with pytest.raises(redis.ConnectionError):
        connection.read_response()
    connection.disconnect()


def test_a_lost_request_was_not_applied(proxy: ChaosProxy, server: Server) -> None:
    client = through(proxy)
    lost = proxy.lose_request(before="claim")
    with pytest.raises(redis.ConnectionError):
        client.fcall("hr_1a2b_claim", 1, "n")
    assert lost.fired.is_set()
    assert cast(Any, server.client()).get("n") is None


def test_cut_ends_what_is_open(proxy: ChaosProxy) -> None:
    client = through(proxy)
    failed: list[Exception] = []

    def block() -> None:
        try:
            client.blpop("nothing", timeout=30)
        except redis.ConnectionError as error:
            failed.append(error)

    waiting = threading.Thread(target=block)
    waiting.start()
    eventually(lambda: proxy.counts["blpop"] == 1, "the call is on its way")
    assert proxy.cut() == 1
    waiting.join(10)
    assert failed
    assert client.ping()


def test_a_black_hole_swallows_until_it_is_closed(proxy: ChaosProxy, server: Server) -> None:
    client = through(proxy, socket_timeout=0.1)
    client.ping()
    proxy.blackhole()
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    assert cast(Any, server.client()).get("n") is None
    proxy.restore()
    eventually(lambda: cast(Any, server.client()).get("n") == b"1", "what was swallowed arrives late")


def test_delay_is_added_to_replies(proxy: ChaosProxy) -> None:
    client = through(proxy)
    client.ping()
    proxy.delay(0.05)
    began = clock.monotonic()
    client.ping()
    assert clock.monotonic() - began >= 0.05


def test_a_server_that_is_down_refuses(proxy: ChaosProxy) -> None:
    with Server() as mortal, ChaosProxy(mortal) as standing:
        client = through(standing)
        client.ping()
        mortal.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        mortal.restart()
        assert client.ping()


def test_messages_are_cut_at_their_ends_however_they_arrive() -> None:
    messages = [
        b"+OK\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"$4\r\n\r\n$1\r\n",
        b"*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
        b"%1\r\n+a\r\n*1\r\n_\r\n",
        b"|1\r\n+ttl\r\n:1\r\n+value\r\n",
        b">2\r\n+message\r\n=5\r\ntxt:x\r\n",
        b"#t\r\n",
    ]
    stream = b"".join(messages)
    for size in (1, 2, 3, 7, len(stream)):
        frames = Frames()
        found = [m for at in range(0, len(stream), size) for m in frames.feed(stream[at : at + size])]
        assert found == messages
