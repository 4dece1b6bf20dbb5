"""What the shared logic asks a transport to do on the wire, and how bytes are packed and refusals read.

`delivery`, `topology` and `fitness` are generators that yield these moves and never touch a socket; the two
transports run them, one with blocking sockets, one with awaits. A move never fails by an exception: what went
wrong is its answer, as a `Lost` (no reply) or a `Refusal` (the server's error reply).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

import hiredis

from headrace.errors import HeadraceError
from headrace.server.endpoint import Endpoint

R = TypeVar("R")

#: Calls in flight for one endpoint from one list: enough to hide the way there and back, few enough to share.
WINDOW: Final = 8

#: What `gets` answers while a reply is incomplete; a reply itself may be None.
NOT_YET: Final = object()

#: The answer of a part of `Wait` that had none when another part answered, or when the time was up.
PENDING: Final = object()


class Refusal(Exception):
    """An error reply of the server, as it came; `refusals` knows what it means."""

    @property
    def text(self) -> str:
        """What the server said."""
        return str(self.args[0])


class Garbled(ConnectionError):
    """What came is no reply of the protocol: somebody else's server, or somebody else's bytes."""


@dataclass(slots=True, eq=False)
class Lost:
    """No reply: `sent` says whether the request may have reached the server; a `final` error is not retried."""

    endpoint: Endpoint | None
    error: Exception
    sent: bool
    final: HeadraceError | None = None


@dataclass(slots=True, eq=False)
class Send:
    """One packed command to one endpoint; `careful` only over a line that is seen to be alive. Answer: its reply."""

    endpoint: Endpoint
    packed: bytes
    careful: bool = False


@dataclass(slots=True, eq=False)
class Part:
    """The packed commands of one endpoint, in order; no more than `WINDOW` of them are in flight at once."""

    endpoint: Endpoint
    commands: list[bytes]
    careful: bool = False


@dataclass(slots=True, eq=False)
class SendMany:
    """Several endpoints at once. Answer: for each part the list of its replies, a `Lost` for each that has none."""

    parts: list[Part]


@dataclass(slots=True, eq=False)
class Wait:
    """One blocking command a part, each on a line of its own, until the first one answers or `seconds` passed.

    The answer is a reply for each part, `PENDING` for those that were still waiting and were called off.
    """

    parts: list[Send]
    seconds: float


@dataclass(slots=True, eq=False)
class Pause:
    """Do nothing for that long."""

    seconds: float


class Ear(Protocol):
    """A subscription: closed by the shared logic, at once and without waiting."""

    def close(self) -> None:
        """Give the subscription up."""
        ...


@dataclass(slots=True, eq=False)
class Tune:
    """Subscribe to a channel. Answer: an `Ear`, once the server has confirmed it."""

    endpoint: Endpoint
    channel: str


@dataclass(slots=True, eq=False)
class Hear:
    """The next message of an ear. Answer: its bytes, or None when `seconds` have passed."""

    ear: Ear
    seconds: float


Move: TypeAlias = Send | SendMany | Wait | Pause | Tune | Hear
Moves: TypeAlias = Generator[Move, Any, R]


# Its stub says that it takes a tuple of one and answers nothing known.
_pack = cast("Callable[[tuple[bytes | str | int | float, ...]], bytes]", cast("Any", hiredis).pack_command)


_TEXT: Final = frozenset((bytes, str))


def pack(*words: bytes | str | int | float) -> bytes:
    """One command in the protocol of the server."""
    # Numbers become text here: hiredis does it without looking at errors, and a signal that raises just then
    # (Ctrl-C) ends the process with a segmentation fault.
    if _TEXT.issuperset(map(type, words)):
        return _pack(words)
    return _pack(tuple([word if type(word) in _TEXT else str(word) for word in words]))


def new_reader() -> hiredis.Reader:
    """A parser of replies: bytes stay bytes, an error reply becomes a `Refusal`."""
    return hiredis.Reader(protocolError=Garbled, replyError=Refusal, notEnoughData=NOT_YET)


def trouble(reply: object) -> bool:
    """Whether an answer of a move is anything but a reply."""
    return isinstance(reply, Lost | Refusal)
