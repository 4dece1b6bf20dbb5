"""Runs moves with blocking sockets, for any number of threads; a forked child starts with none."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from headrace import clock
from headrace.server.dial import DIAL_ERRORS, not_connected
from headrace.server.endpoint import Endpoint
from headrace.server.moves import (
    NOT_YET,
    PENDING,
    Hear,
    Lost,
    Move,
    Moves,
    Pause,
    Refusal,
    Send,
    SendMany,
    Tune,
    Wait,
    pack,
)
from headrace.server.sync_line import Line
from headrace.server.sync_talk import SyncEar, Talk

R = TypeVar("R")

#: Idle connections kept for one endpoint: more threads than this open and close some at their peaks.
_KEPT: Final = 64
#: How much longer than its wait a blocking command may take until its connection counts as dead.
MARGIN: Final = 2.0


class SyncTransport:
    """A last-in-first-out stack of idle connections an endpoint; who talks holds one alone."""

    def __init__(self) -> None:
        self._idle: dict[Endpoint, deque[Line]] = {}
        self._waiting: set[Line] = set()
        self._closed = False
        self._runs: dict[type[Move], Callable[[Any], Any]] = {
            Send: self._send,
            SendMany: self._send_many,
            Wait: self._wait,
            Pause: lambda move: time.sleep(move.seconds),
            Tune: self._tune,
            Hear: self._hear,
        }

    def run(self, moves: Moves[R]) -> R:
        """Run moves to their result."""
        runs = self._runs
        try:
            move = next(moves)
            while True:
                try:
                    answer = runs[type(move)](move)
                except BaseException as error:
                    move = moves.throw(error)
                else:
                    move = moves.send(answer)
        except StopIteration as stop:
            return stop.value

    def close(self) -> None:
        """Close all idle connections and end the waits; what else is in use is closed by whoever holds it."""
        self._closed = True
        for line in list(self._waiting):
            line.hang_up()
        self.start_over()

    def start_over(self) -> None:
        """Close all idle connections. In a forked child no other is ours, not even to hang up."""
        self._waiting = set()
        idle, self._idle = self._idle, {}
        for lines in idle.values():
            for line in list(lines):
                line.close()

    def _take(self, endpoint: Endpoint, careful: bool) -> Line:
        lines = self._idle.get(endpoint)
        while lines:
            try:
                line = lines.pop()
            except IndexError:
                break
            if not careful or line.alive():
                return line
            line.close()
        return Line(endpoint)

    def _put_back(self, line: Line) -> None:
        lines = self._idle.setdefault(line.endpoint, deque())
        if len(lines) < _KEPT and not self._closed:
            lines.append(line)
        else:
            line.close()

    def _expose(self, line: Line) -> None:
        """The line is waited on for long: from now on, `close` ends that."""
        self._waiting.add(line)
        if self._closed:  # and has perhaps not seen this one
            line.hang_up()

    def _lost(self, line: Line, error: OSError) -> Lost:
        line.close()
        # What ended this connection ended the idle ones as a rule: do not try each of them.
        for other in self._idle.pop(line.endpoint, ()):
            other.close()
        return Lost(line.endpoint, error, True)

    def _send(self, move: Send) -> Any:
        try:
            line = self._take(move.endpoint, move.careful)
        except DIAL_ERRORS as error:
            return not_connected(move.endpoint, error)
        try:
            line.send(move.packed)
            reply = line.receive()
        except OSError as error:
            return self._lost(line, error)
        except BaseException:  # interrupted in the middle: the next reply on it would be somebody else's
            line.close()
            raise
        self._put_back(line)
        return reply

    def _send_many(self, move: SendMany) -> list[list[Any]]:
        talks = [Talk(part) for part in move.parts]
        try:
            for talk in talks:
                try:
                    talk.line = self._take(talk.part.endpoint, talk.part.careful)
                except DIAL_ERRORS as error:
                    talk.give_up(not_connected(talk.part.endpoint, error))
            while busy := [talk for talk in talks if talk.line is not None]:
                for talk in busy:
                    self._step(talk)
        except BaseException:
            for talk in talks:
                if talk.line is not None:
                    talk.line.close()
            raise
        return [talk.replies for talk in talks]

    def _step(self, talk: Talk) -> None:
        line = talk.line
        if line is None:
            return
        try:
            if talk.step(line):
                talk.line = None
                self._put_back(line)
        except OSError as error:
            talk.give_up(self._lost(line, error))

    def _wait(self, move: Wait) -> list[Any]:
        answers: list[Any] = [PENDING] * len(move.parts)
        lines: dict[int, Line] = {}
        try:
            for i, part in enumerate(move.parts):
                try:
                    lines[i] = self._take(part.endpoint, True)
                    self._expose(lines[i])
                    lines[i].within(move.seconds + MARGIN)
                    lines[i].send(pack("CLIENT", "ID") + part.packed)
                except DIAL_ERRORS as error:
                    answers[i] = not_connected(part.endpoint, error)
            if len(lines) == len(move.parts):
                self._first(lines, answers, move.seconds)
        except BaseException:
            for line in lines.values():
                line.close()
            raise
        finally:
            self._waiting.difference_update(lines.values())
        for i, line in lines.items():
            if answers[i] is PENDING or isinstance(answers[i], Lost):
                line.close()
            else:
                line.within(line.endpoint.reply_timeout)
                self._put_back(line)
        return answers

    def _read(self, line: Line) -> Any:
        try:
            return line.receive()
        except OSError as error:
            return self._lost(line, error)

    def _first(self, lines: dict[int, Line], answers: list[Any], seconds: float) -> None:
        """Wait until one line has its answer or the time is up; call off the other waits, to use their lines again.

        An idle server looks at the clock ten times a second only: a wait that is to end in time is ended from here.
        """
        ids = {i: self._read(line) for i, line in lines.items()}
        until = clock.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for i, line in lines.items():
                if isinstance(ids[i], Lost):
                    answers[i] = ids[i]
                else:
                    answers[i] = self._glance(line)  # what came together with the id does not make it readable again
                    if answers[i] is PENDING:  # a line that was lost has no file any more
                        selector.register(line, selectors.EVENT_READ, i)
            while all(answer is PENDING for answer in answers):
                ready = selector.select(max(0.0, until - clock.monotonic()))
                if not ready:
                    break
                for key, _ in ready:
                    answers[key.data] = self._glance(lines[key.data])
        for i, line in lines.items():
            if answers[i] is PENDING and isinstance(ids[i], int) and not self._closed:
                freed = self._send(Send(line.endpoint, pack("CLIENT", "UNBLOCK", ids[i])))
                if isinstance(freed, Lost):
                    answers[i] = freed
                elif not isinstance(freed, Refusal):
                    answers[i] = self._read(line)  # None as a rule; a token that came just then is one too

    def _glance(self, line: Line) -> Any:
        try:
            reply = line.glance()
        except OSError as error:
            return self._lost(line, error)
        return PENDING if reply is NOT_YET else reply

    def _tune(self, move: Tune) -> Any:
        try:
            line = self._take(move.endpoint, True)
        except DIAL_ERRORS as error:
            return not_connected(move.endpoint, error)
        try:
            line.send(pack("SUBSCRIBE", move.channel))
            reply = line.receive()
        except OSError as error:
            return self._lost(line, error)
        except BaseException:
            line.close()
            raise
        if isinstance(reply, Refusal):
            self._put_back(line)
            return reply
        return SyncEar(line, move.channel, self._put_back)

    def _hear(self, move: Hear) -> Any:
        if not isinstance(move.ear, SyncEar):
            raise TypeError(f"no way to run {move!r}")
        line = move.ear.line
        if line is None:
            return None
        self._expose(line)
        try:
            return move.ear.hear(move.seconds)
        finally:
            self._waiting.discard(line)
