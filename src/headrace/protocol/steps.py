"""What a protocol method asks its transport to do: the only bridge between plain code and I/O.

A public operation is written once, as a generator that yields effects and returns its result.
The synchronous transport drives it with blocking sockets, the asynchronous one with awaits.
An effect that fails is thrown into the generator as a typed error of `headrace.errors`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

R = TypeVar("R")

Arg: TypeAlias = bytes | str | int | float


class Channel:
    """A numbered line of state-changing calls: the server answers a repeated number from memory.

    At most one call of a channel is in flight. A worker session is a channel; producers borrow one.
    """

    __slots__ = ("id", "number")

    def __init__(self, id: str) -> None:
        self.id = id
        self.number = 0

    def next(self) -> int:
        """The number of the next call; a repetition of a call keeps its number."""
        self.number += 1
        return self.number


@dataclass(slots=True)
class Call:
    """One server function on one shard; the answer is its reply, undecoded (bytes, int, list, None).

    A `numbered` call goes out as `<channel id> <number> <args...>` and is safe to send again after a
    lost reply; without a channel of its own the transport lends one. A `readonly` call may always be repeated.
    Somebody who leaves is waiting for a `hurried` one: it is given up after a second of trouble.
    """

    function: str
    shard: int
    args: Sequence[Arg] = ()
    numbered: bool = False
    channel: Channel | None = None
    readonly: bool = False
    hurried: bool = False


@dataclass(slots=True)
class Block:
    """Wait until a token arrives on the list `keys[i]` of shard `i`, or until `seconds` passed.

    The answer is True when a token came. Tokens carry no meaning: the caller looks again.
    """

    keys: dict[int, str]
    seconds: float


@dataclass(slots=True)
class Listen:
    """Wait for a message on a pub/sub channel of one shard's server, or until `seconds` passed.

    Subscribes, then runs `armed` (a read that might already give the answer); when its reply is not
    None that reply is the answer at once, else the message is, or None when the time is up.
    """

    shard: int
    channel: str
    armed: Call
    seconds: float


@dataclass(slots=True)
class Command:
    """A command of the server itself (no function of ours) on the primary of a shard; only such as may be repeated."""

    shard: int
    words: Sequence[str]


Effect: TypeAlias = Call | list[Call] | Block | Listen | Command
Steps: TypeAlias = Generator[Effect, Any, R]


def hurried(steps: Steps[R]) -> Steps[R]:
    """The same operation, whose calls are not repeated for long."""
    try:
        effect = next(steps)
        while True:
            for one in effect if isinstance(effect, list) else [effect]:
                if isinstance(one, Call):
                    one.hurried = True
            try:
                answer = yield effect
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(answer)
    except StopIteration as stop:
        return stop.value
