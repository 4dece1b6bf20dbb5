"""A TCP proxy in front of one server that loses replies and requests, cuts, delays and swallows.

    with ChaosProxy(server) as proxy:
        lost = proxy.lose_reply(after="enqueue", n=2)     # the 2nd FCALL of a function named ..._enqueue from now on
        ...                                               # is applied, its reply never comes, the connection ends
        assert lost.fired.is_set()

Commands are told apart by the function they call (`FCALL hr_ab12_enqueue` is "enqueue") or by their own name.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import Counter, deque
from contextlib import suppress
from typing import Any, Protocol, cast

import hiredis

from tests.tools.resp import Frames

SILENT = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"}


class Upstream(Protocol):
    """What the proxy stands in front of."""

    @property
    def address(self) -> str | tuple[str, int]:
        """The path of a Unix socket, or host and port."""
        ...


class Rule:
    """Something that happens once, at the nth matching command; `fired` is set when it has."""

    def __init__(self, name: str, n: int) -> None:
        self._name = name.lower()
        self._left = n
        self.fired = threading.Event()

    def met(self, name: str) -> bool:
        """Counts a command; True for the one that was waited for."""
        if self.fired.is_set() or (name != self._name and not name.endswith("_" + self._name)):
            return False
        self._left -= 1
        if self._left == 0:
            self.fired.set()
        return self._left == 0


class ChaosProxy:
    """Listens on a loopback port of its own; without rules it passes everything on unchanged."""

    def __init__(self, upstream: Upstream, *, tls: ssl.SSLContext | None = None) -> None:
        self.counts: Counter[str] = Counter()
        """How often each function or command went through, by its full name in small letters."""
        self._upstream = upstream
        self._tls = tls
        self._lose_replies: list[Rule] = []
        self._lose_requests: list[Rule] = []
        self._delay = 0.0
        self._closing = False
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._listener = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.host, self.port = "127.0.0.1", int(self._listener.sockets[0].getsockname()[1])

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; one proxy may stand in front of another."""
        return self.host, self.port

    @property
    def url(self) -> str:
        """Where it listens, as a URL without credentials."""
        return f"{'rediss' if self._tls else 'redis'}://{self.host}:{self.port}"

    def lose_reply(self, after: str, n: int = 1) -> Rule:
        """The nth such command is applied, but its reply is dropped and its connection ended."""
        rule = Rule(after, n)
        self._lose_replies.append(rule)
        return rule

    def lose_request(self, before: str, n: int = 1) -> Rule:
        """The nth such command never reaches the server, and its connection ends."""
        rule = Rule(before, n)
        self._lose_requests.append(rule)
        return rule

    def cut(self) -> int:
        """Resets every connection there is; returns how many. New ones are accepted."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def blackhole(self) -> None:
        """From now on nothing passes in either direction, and nobody is told."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def restore(self) -> None:
        """Ends `blackhole` and `delay`; what was swallowed meanwhile arrives late."""
        self._delay = 0.0
        self._loop.call_soon_threadsafe(self._open.set)

    def delay(self, seconds: float) -> None:
        """Every batch of replies takes that much longer."""
        self._delay = seconds

    def close(self) -> None:
        """Ends all connections and stops listening."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> ChaosProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _listen(self) -> asyncio.Server:
        patience: dict[str, Any] = {"ssl_shutdown_timeout": 0.1} if self._tls else {}  # for the client's goodbye
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls, **patience)

    async def _cut(self) -> int:
        there = list(self._connections)
        for connection in there:
            connection.abort()
        return len(there)

    async def _shut(self) -> None:
        self._closing = True
        self._listener.close()
        self.restore()
        await self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = self._upstream.address
        try:
            if isinstance(address, str):
                server = await asyncio.open_unix_connection(address)
            else:
                server = await asyncio.open_connection(*address)
        except OSError:  # as a client sees a server that is down
            writer.transport.abort()
            return
        connection = _Connection(self, (reader, writer), server)
        self._connections.add(connection)
        if self._closing:
            connection.abort()
        await connection.run()
        self._connections.discard(connection)

    async def passage(self, *, reply: bool) -> None:
        """Waits for as long as what passes is held up."""
        await self._open.wait()
        if reply and self._delay:
            await asyncio.sleep(self._delay)

    def request_lost(self, name: str) -> bool:
        """Counts a request; whether it shall not arrive."""
        lost = [rule for rule in list(self._lose_requests) if rule.met(name)]
        self.counts[name] += not lost
        return bool(lost)

    def reply_lost(self, name: str) -> bool:
        """Whether the reply to this command shall not arrive."""
        return bool([rule for rule in list(self._lose_replies) if rule.met(name)])


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """One client's connection and the one to the server behind it."""

    def __init__(self, proxy: ChaosProxy, client: Stream, server: Stream) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._asked: deque[str] = deque()
        """The commands that wait for their replies."""

    async def run(self) -> None:
        """Passes both ways until either side ends, or a rule says so; what was already passed still arrives."""
        pumps = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._replies())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for _, writer in (self._client, self._server):
                writer.close()
                with suppress(OSError, ssl.SSLError):
                    await writer.wait_closed()

    def abort(self) -> None:
        """Resets both sides at once."""
        for _, writer in (self._client, self._server):
            writer.transport.abort()

    async def _requests(self) -> None:
        frames = Frames()
        while received := await self._client[0].read(1 << 16):
            for frame in frames.feed(received):
                name = _name(frame)
                if self._proxy.request_lost(name):
                    return
                if name.upper() not in SILENT:
                    self._asked.append(name)
                await self._proxy.passage(reply=False)
                self._server[1].write(frame)
            await self._server[1].drain()

    async def _replies(self) -> None:
        frames = Frames()
        while received := await self._server[0].read(1 << 16):
            await self._proxy.passage(reply=True)
            for frame in frames.feed(received):
                answers = self._asked and not frame.startswith(b">")  # a push of RESP3 answers nothing
                if answers and self._proxy.reply_lost(self._asked.popleft()):
                    return
                self._client[1].write(frame)
            await self._client[1].drain()


def _name(request: bytes) -> str:
    """The function that a request calls, else the command, in small letters."""
    reader = hiredis.Reader()
    reader.feed(request)
    words = cast(list[bytes], reader.gets()) if request.startswith(b"*") else request.split()
    names = [word.decode(errors="replace").lower() for word in words[:2]]
    return names[-1] if names and names[0].startswith("fcall") else "".join(names[:1])
