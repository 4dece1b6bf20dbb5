"""One asyncio connection shared by all tasks of a loop: writes of one turn leave together, replies come in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from headrace.server.dial import adial
from headrace.server.endpoint import Endpoint
from headrace.server.moves import NOT_YET, Lost, Refusal, new_reader, pack


class AsyncLine(asyncio.Protocol):
    """A connection with automatic pipelining. Futures get their reply, or a `Lost`; never an exception."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self.endpoint = endpoint
        self.closed = False
        self._loop = loop
        self._reader = new_reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._held: Any = None
        self._received = 0
        self._watch: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, endpoint: Endpoint) -> AsyncLine:
        """A connected line on the running loop."""
        line = cls(endpoint, asyncio.get_running_loop())
        line._transport, line._held = await adial(endpoint)
        line._transport.set_protocol(line)
        return line

    def send(self, packed: bytes, patient: bool = False) -> asyncio.Future[Any]:
        """Send one command; the future of its reply. `patient`: the reply may take its time."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.closed:
            future.set_result(Lost(self.endpoint, ConnectionError("the connection was closed"), False))
            return future
        if self._watch is None and not patient:
            self._look_after()
        self._waiting.append(future)
        self._write(packed)
        return future

    def _write(self, packed: bytes) -> None:
        if self._out:
            self._out.append(packed)
        elif len(self._waiting) > 1:
            # Others are talking: what the tasks of this turn of the loop have to say leaves in one write.
            self._out.append(packed)
            self._loop.call_soon(self._flush)
        elif self._transport is not None:
            self._transport.write(packed)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self.closed:
            self._transport.write(b"".join(out))

    def data_received(self, data: bytes) -> None:
        """Replies, whole or in parts."""
        reader = self._reader
        reader.feed(data)
        reply = reader.gets()
        while reply is not NOT_YET:
            self._received += 1
            self.heard(reply)
            reply = reader.gets()

    def heard(self, reply: Any) -> None:
        """One reply: it belongs to the oldest request, whose task may have been cancelled since."""
        if not self._waiting:
            self.close(ConnectionError(f"an unasked reply: {reply!r}"[:200]))
            return
        future = self._waiting.popleft()
        if not future.done():
            future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end: all who wait learn it."""
        self.close(exc or ConnectionResetError("the server closed the connection"))

    def close(self, error: Exception | None = None) -> None:
        """Close at once; whoever waits gets `Lost`."""
        if self.closed:
            return
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._held = None
        lost = Lost(self.endpoint, error or ConnectionError("the connection was closed"), True)
        for future in self._waiting:
            if not future.done():
                future.set_result(lost)
        self._waiting.clear()
        self.ended(lost)

    def ended(self, lost: Lost) -> None:
        """For kinds of lines that have more to tell at the end."""

    def _look_after(self) -> None:
        self._watch = self._loop.call_later(self.endpoint.reply_timeout, self._check, self._received)

    def _check(self, received: int) -> None:
        self._watch = None
        if not self._waiting or self.closed:
            return
        if self._received == received:
            self.close(TimeoutError("the server did not reply in time"))
        else:
            self._look_after()


class EarLine(AsyncLine):
    """One pub/sub connection of a loop: any number of ears on any number of channels."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(endpoint, loop)
        self._ears: dict[bytes, set[AsyncEar]] = {}

    def join(self, ear: AsyncEar) -> None:
        """One more ear on its channel."""
        self._ears.setdefault(ear.channel, set()).add(ear)

    def leave(self, ear: AsyncEar) -> bool:
        """One ear less; True when it was the last on its channel."""
        ears = self._ears.get(ear.channel)
        if ears is None:
            return False
        ears.discard(ear)
        if ears:
            return False
        del self._ears[ear.channel]
        return True

    def heard(self, reply: Any) -> None:
        """A message goes to the ears of its channel, anything else answers a request."""
        words = cast("list[Any]", reply) if isinstance(reply, list) else []
        if len(words) == 3 and words[0] == b"message":
            for ear in self._ears.get(words[1], ()):
                ear.tell(words[2])
        else:
            super().heard(reply)

    def ended(self, lost: Lost) -> None:
        """All ears learn that the line is lost."""
        ears, self._ears = self._ears, {}
        for ear in {ear for some in ears.values() for ear in some}:
            ear.tell(lost)


class AsyncEar:
    """One subscription on the shared pub/sub line."""

    def __init__(self, line: EarLine, channel: str) -> None:
        self.channel = channel.encode()
        self._line = line
        self._heard: deque[Any] = deque()
        self._future: asyncio.Future[None] | None = None
        line.join(self)

    async def confirmed(self, packed: bytes) -> Lost | Refusal | None:
        """Subscribe; None once the server has confirmed it."""
        reply = await self._line.send(packed)
        return reply if isinstance(reply, Lost | Refusal) else None

    def tell(self, message: Any) -> None:
        """A message has come, or the end of the line."""
        self._heard.append(message)
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def hear(self, seconds: float) -> Any:
        """The next message, or None when the time is up, or `Lost`."""
        if not self._heard:
            self._future = asyncio.get_running_loop().create_future()
            timer = asyncio.get_running_loop().call_later(seconds, _wake, self._future)
            try:
                await self._future
            finally:
                timer.cancel()
        return self._heard.popleft() if self._heard else None

    def close(self) -> None:
        """Give the subscription up; the last on a channel tells the server."""
        if self._line.leave(self) and not self._line.closed:
            self._line.send(pack("UNSUBSCRIBE", self.channel))  # nobody waits for its answer


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
