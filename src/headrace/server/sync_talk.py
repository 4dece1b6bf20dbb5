"""What a blocking connection is used for beside a single call: a window of many, and a subscription."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.server.moves import WINDOW, Lost, Part, pack
from headrace.server.sync_line import Line


class Talk:
    """One part of a `SendMany`: a window of commands in flight over one line."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.replies: list[Any] = []
        self.line: Line | None = None
        self._sent = 0

    def step(self, line: Line) -> bool:
        """Keep the window full, read a reply; True when all is read."""
        commands = self.part.commands
        if self._sent < len(commands) and self._sent - len(self.replies) <= WINDOW // 2:
            begin, self._sent = self._sent, min(len(self.replies) + WINDOW, len(commands))
            line.send(b"".join(commands[begin : self._sent]))
            if begin == 0:
                return False  # let the other endpoints start before waiting for this one
        self.replies.append(line.receive())
        return len(self.replies) == len(commands)

    def give_up(self, lost: Lost) -> None:
        """The line is lost: what has no reply was sent, or surely not."""
        self.line = None
        for i in range(len(self.replies), len(self.part.commands)):
            self.replies.append(Lost(lost.endpoint, lost.error, lost.sent and i < self._sent, lost.final))


class SyncEar:
    """A subscription on a line of its own, which goes back to the stack when it is given up in order."""

    def __init__(self, line: Line, channel: str, put_back: Callable[[Line], None]) -> None:
        self._line: Line | None = line
        self._channel = channel
        self._put_back = put_back

    @property
    def line(self) -> Line | None:
        """The line, until it is lost or given up."""
        return self._line

    def hear(self, seconds: float) -> Any:
        """The next message, or None when the time is up, or `Lost`."""
        line = self._line
        if line is None:
            return None
        try:
            line.within(max(seconds, 0.001))
            message = line.receive()
        except TimeoutError:
            return None
        except BaseException as error:
            self._line = None
            line.close()
            if isinstance(error, OSError):
                return Lost(line.endpoint, error, False)
            raise
        return message[2]

    def close(self) -> None:
        """Unsubscribe; the line is an ordinary one again."""
        line, self._line = self._line, None
        if line is None:
            return
        try:
            line.within(line.endpoint.reply_timeout)
            line.send(pack("UNSUBSCRIBE", self._channel))
            while line.receive()[0] != b"unsubscribe":
                pass  # messages that came on the way
        except BaseException as error:
            line.close()
            if not isinstance(error, OSError):
                raise
            return
        self._put_back(line)
