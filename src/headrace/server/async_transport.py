"""Runs moves with awaits: one shared connection an endpoint for calls, own ones for waiting, all kept by loop.

Several event loops may use one site, one after the other or in several threads at once. What a loop holds is closed
when the loop shuts its asynchronous generators down, which `asyncio.run` does at its end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from headrace.server.async_line import AsyncEar, AsyncLine, EarLine
from headrace.server.dial import DIAL_ERRORS, not_connected
from headrace.server.endpoint import Endpoint
from headrace.server.moves import (
    PENDING,
    WINDOW,
    Hear,
    Lost,
    Moves,
    Part,
    Pause,
    Refusal,
    Send,
    SendMany,
    Tune,
    Wait,
    pack,
)
from headrace.server.sync_transport import MARGIN

R = TypeVar("R")


class AsyncTransport:
    """The connections of each event loop."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopLines] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def run(self, moves: Moves[R]) -> R:
        """Run moves to their result on the running loop."""
        loop = asyncio.get_running_loop()
        lines = self._loops.get(loop)
        if lines is None or lines.closed:
            lines = _LoopLines()
            with self._lock:
                for ended in [known for known in self._loops if known.is_closed()]:
                    del self._loops[ended]
                self._loops[loop] = lines
            await lines.close_with_loop()
        lines.enter()
        try:
            move = next(moves)
            while True:
                try:
                    answer = await lines.perform(move)
                except BaseException as error:
                    move = moves.throw(error)
                else:
                    move = moves.send(answer)
        except StopIteration as stop:
            return stop.value
        finally:
            lines.leave()

    async def close_here(self, patience: float) -> None:
        """Close what the running loop holds; who waits there has that long to say farewell to the server."""
        with self._lock:
            lines = self._loops.pop(asyncio.get_running_loop(), None)
        if lines is not None:
            lines.close()
            await lines.deserted(patience)

    def close(self) -> None:
        """Ask each loop that runs in another thread to close its connections."""
        with self._lock:
            loops = list(self._loops.items())
            self._loops = WeakKeyDictionary()
        for loop, lines in loops:
            with suppress(RuntimeError):  # it ended in this moment, and closed them itself
                loop.call_soon_threadsafe(lines.close)

    def abandon(self) -> object:
        """In a forked child: forget everything, touching nothing. Keep the answer alive.

        Closing a transport here would take the parent's sockets out of the epoll set that both share.
        """
        loops, self._loops, self._lock = self._loops, WeakKeyDictionary(), threading.Lock()
        return [(loop, lines) for loop, lines in loops.items()]


class _LoopLines:
    """The connections of one loop."""

    def __init__(self) -> None:
        self.closed = False
        self._shared: dict[tuple[Endpoint, type[AsyncLine]], AsyncLine] = {}
        self._opening: dict[tuple[Endpoint, type[AsyncLine]], asyncio.Task[AsyncLine | Lost]] = {}
        self._spare: dict[Endpoint, list[AsyncLine]] = {}
        self._busy: set[AsyncLine] = set()
        self._keeper: AsyncGenerator[None, None] | None = None
        self._users = 0
        self._last: asyncio.Future[None] | None = None

    def enter(self) -> None:
        """One more operation runs here."""
        self._users += 1

    def leave(self) -> None:
        """One operation less; the last one closes what was opened after the end, to say farewell."""
        self._users -= 1
        if self.closed and self._users == 0:
            self.close()
            if self._last is not None and not self._last.done():
                self._last.set_result(None)

    async def deserted(self, patience: float) -> None:
        """Return when no operation runs here any more, or the patience has ended."""
        if self._users:
            self._last = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._last], timeout=patience)

    async def close_with_loop(self) -> None:
        """A started generator is closed by the loop before it ends: the place to close connections in order."""
        self._keeper = _keeper(self)
        await anext(self._keeper)

    async def perform(self, move: Any) -> Any:
        """Run one move."""
        if type(move) is Send:
            line = self._shared.get((move.endpoint, AsyncLine))
            if line is None or line.closed:
                opened = await self._open(move.endpoint, AsyncLine)
                if isinstance(opened, Lost):
                    return opened
                line = opened
            return await line.send(move.packed)
        return await self._other(move)

    def close(self) -> None:
        """Close everything at once."""
        self.closed = True
        for task in self._opening.values():
            task.cancel()
        spare = [line for lines in self._spare.values() for line in lines]
        for line in [*self._shared.values(), *spare, *self._busy]:
            line.close()
        self._shared, self._spare = {}, {}

    async def _other(self, move: Any) -> Any:
        if isinstance(move, SendMany):
            if len(move.parts) == 1:
                return [await self._part(move.parts[0])]
            return list(await asyncio.gather(*(self._part(part) for part in move.parts)))
        if isinstance(move, Wait):
            return await self._wait(move)
        if isinstance(move, Pause):
            return await asyncio.sleep(move.seconds)
        if isinstance(move, Tune):
            return await self._tune(move)
        if isinstance(move, Hear) and isinstance(move.ear, AsyncEar):
            return await move.ear.hear(move.seconds)
        raise TypeError(f"no way to run {move!r}")

    async def _open(self, endpoint: Endpoint, kind: type[AsyncLine]) -> AsyncLine | Lost:
        """The shared line of an endpoint, opened once however many ask; one who leaves does not stop the others."""
        key = (endpoint, kind)
        line = self._shared.get(key)
        if line is not None and not line.closed:
            return line
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(self._connect(key))
        return await asyncio.shield(task)

    async def _connect(self, key: tuple[Endpoint, type[AsyncLine]]) -> AsyncLine | Lost:
        endpoint, kind = key
        try:
            line = self._shared[key] = await kind.open(endpoint)
        except DIAL_ERRORS as error:
            return not_connected(endpoint, error)
        except asyncio.CancelledError:
            if not self.closed:
                raise
            # Only the connection is called off, not those who wait for it.
            return not_connected(endpoint, ConnectionError("the connection was closed"))
        finally:
            del self._opening[key]
        return line

    async def _part(self, part: Part) -> list[Any]:
        line = await self._open(part.endpoint, AsyncLine)
        if isinstance(line, Lost):
            return [line] * len(part.commands)
        futures: list[asyncio.Future[Any]] = []
        replies: list[Any] = []
        for packed in part.commands:
            if len(futures) - len(replies) >= WINDOW:
                replies.append(await futures[len(replies)])
            futures.append(line.send(packed))
        for future in futures[len(replies) :]:
            replies.append(await future)
        return replies

    async def _own(self, endpoint: Endpoint) -> AsyncLine | Lost:
        """A line for one waiter alone."""
        spare = self._spare.get(endpoint)
        while spare:
            line = spare.pop()
            if not line.closed:
                return line
        try:
            return await AsyncLine.open(endpoint)
        except DIAL_ERRORS as error:
            return not_connected(endpoint, error)

    async def _wait(self, move: Wait) -> list[Any]:
        lines: list[AsyncLine | Lost] = []
        try:
            for part in move.parts:
                line = await self._own(part.endpoint)
                lines.append(line)
                if isinstance(line, AsyncLine):
                    self._busy.add(line)
                    if self.closed:  # while it was opened
                        line.close()
            answers = await self._first(move, lines)
        except BaseException:  # cancelled: nobody is there for a token that may come
            for line in lines:
                if isinstance(line, AsyncLine):
                    line.close()
            raise
        finally:
            self._busy.difference_update(line for line in lines if isinstance(line, AsyncLine))
        for line, answer in zip(lines, answers, strict=True):
            if isinstance(line, AsyncLine):
                if answer is PENDING or isinstance(answer, Lost):
                    line.close()
                else:
                    self._spare.setdefault(line.endpoint, []).append(line)
        return answers

    async def _first(self, move: Wait, lines: list[AsyncLine | Lost]) -> list[Any]:
        """Wait until one line has its answer or the time is up; call off the other waits, to use their lines again.

        An idle server looks at the clock ten times a second only: a wait that is to end in time is ended from here.
        """
        if any(isinstance(line, Lost) for line in lines):
            return [line if isinstance(line, Lost) else PENDING for line in lines]
        pairs = [(line, part) for line, part in zip(lines, move.parts, strict=True) if isinstance(line, AsyncLine)]
        ids = [line.send(pack("CLIENT", "ID"), patient=True) for line, _ in pairs]
        waits = [line.send(part.packed, patient=True) for line, part in pairs]
        await asyncio.wait(waits, timeout=move.seconds, return_when=asyncio.FIRST_COMPLETED)
        for (line, _), wait, number in zip(pairs, waits, ids, strict=True):
            if wait.done():
                continue
            if not number.done() and not (await asyncio.wait([number], timeout=MARGIN))[0]:
                line.close(TimeoutError("the server did not reply in time"))
            elif isinstance(number.result(), int):
                freed = await self.perform(Send(line.endpoint, pack("CLIENT", "UNBLOCK", number.result())))
                if isinstance(freed, Lost):
                    line.close(freed.error)
                elif not isinstance(freed, Refusal):
                    await asyncio.wait([wait], timeout=MARGIN)
        return [wait.result() if wait.done() else PENDING for wait in waits]

    async def _tune(self, move: Tune) -> Any:
        line = await self._open(move.endpoint, EarLine)
        if not isinstance(line, EarLine):
            return line
        ear = AsyncEar(line, move.channel)
        try:
            trouble = await ear.confirmed(pack("SUBSCRIBE", move.channel))
        except BaseException:
            ear.close()
            raise
        if trouble is not None:
            ear.close()
        return trouble or ear


async def _keeper(lines: _LoopLines) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        lines.close()
        await asyncio.sleep(0)  # the sockets are closed in the next turn of the loop
