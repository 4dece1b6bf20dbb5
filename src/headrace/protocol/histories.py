"""The history: one event an attempt, appended by the call that ended it (E36)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import msgspec

from headrace.errors import OptionError
from headrace.protocol.steps import Call, Steps


class Event(NamedTuple):
    """How one attempt ended, or a job without one. Times are milliseconds of the server.

    `kind` is done, failed, stalled, timeout, released, cancelled, or gap: events lost to the bound, their number
    in `attempt`.
    """

    kind: str
    queue: str
    id: str
    generation: int
    lane: str
    attempt: int
    queued: int
    started: int
    ended: int
    session: str
    size_in: int
    size_out: int
    note: str


def read_history(shard: int, after: str = "", n: int = 100) -> Steps[tuple[str, list[Event]]]:
    """Up to `n` entries after the one with the id `after`; answers the last id read, and their events."""
    reply = cast("list[bytes]", (yield Call("history", shard, (after, n), readonly=True)))
    events: list[Event] = []
    for packed in reply[1::2]:
        events += (Event(*fields) for fields in msgspec.msgpack.decode(packed))
    return (reply[-2].decode() if reply else after), events


def set_history(level: str, max_events: int, shards: Iterable[int]) -> Steps[None]:
    """Switch the history "off" or to level "attempt"; bound it to about `max_events` a shard (0: as it is)."""
    levels = {"off": 0, "attempt": 1}
    if level not in levels:
        raise OptionError(f"level={level!r}: expected 'off' or 'attempt'")
    if max_events and not 100 <= max_events <= 100_000_000:
        raise OptionError(f"max_events={max_events!r}: expected 100 or more")
    yield [Call("configure", shard, (levels[level], max_events), readonly=True) for shard in shards]
