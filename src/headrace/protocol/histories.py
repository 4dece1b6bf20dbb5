"""The history: one event an attempt, appended by the call that ended it (E36)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, cast

from headrace.errors import OptionError
from headrace.protocol.steps import Call, Steps


class Event(NamedTuple):
    """How one attempt ended, or a job without one. Times are milliseconds of the server.

    `kind` is done, failed, stalled, timeout, released, cancelled, or gap: events were lost to the bound, `note` says
    how many in all so far, earlier gaps included.
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


_KINDS: Final = {
    b"d": "done", b"f": "failed", b"s": "stalled", b"o": "timeout", b"l": "released", b"c": "cancelled", b"g": "gap",
}  # fmt: skip
_CLAIM: Final = 27
_LENGTH: Final = struct.Struct(">H")
_OWN: Final = struct.Struct(">dI6s6sI")
_END: Final = struct.Struct(">6sIB")


def _parse_events(raw: bytes) -> Iterator[Event]:
    """Take the events of one entry apart: see `45_history.lua` and `43_run.lua` for the bytes."""
    at = 0
    while at < len(raw):
        kind = _KINDS[raw[at : at + 1]]
        (n,) = _LENGTH.unpack_from(raw, at + 1)
        key = raw[at + 3 : at + 3 + n].decode()
        at += 3 + n
        (n,) = _LENGTH.unpack_from(raw, at)
        run, at = raw[at + 2 : at + 2 + n], at + 2 + n
        ended, size_out, n = _END.unpack_from(raw, at)
        at += _END.size
        note, at = raw[at : at + n].decode(errors="replace"), at + n
        (n,) = _LENGTH.unpack_from(run, _CLAIM)
        session, path, started = _parse_common(run[_CLAIM + 2 : _CLAIM + 2 + n])
        _, attempt, queued, generation, size_in = _OWN.unpack_from(run, _CLAIM + 2 + n)
        queue, _, id = key.partition("/")
        yield Event(
            kind, queue, id, int.from_bytes(generation, "big"), path.partition("/")[2], attempt,
            int.from_bytes(queued, "big"), started, int.from_bytes(ended, "big"), session, size_in, size_out, note,
        )  # fmt: skip


def _parse_common(raw: bytes) -> tuple[str, str, int]:
    """Session, path and start of a run."""
    at = 1 + raw[0]
    (n,) = _LENGTH.unpack_from(raw, at)
    end = at + 2 + n
    return raw[1:at].decode(), raw[at + 2 : end].decode(), int.from_bytes(raw[end : end + 6], "big")


def read_history(shard: int, after: str = "", n: int = 100) -> Steps[tuple[str, list[Event]]]:
    """Up to `n` entries after the one with the id `after`; answers the last id read, and their events."""
    if type(n) is not int or not 1 <= n <= 10_000:
        raise OptionError(f"n={n!r}: expected a whole number from 1 to 10,000")
    reply = cast("list[bytes]", (yield Call("history", shard, (after, n), readonly=True)))
    events = [event for raw in reply[1::2] for event in _parse_events(raw)]
    return (reply[-2].decode() if reply else after), events


def set_history(level: str, max_events: int, shards: Iterable[int]) -> Steps[None]:
    """Switch the history "off" or to level "attempt"; bound it to about `max_events` a shard (0: as it is)."""
    levels = {"off": 0, "attempt": 1}
    if level not in levels:
        raise OptionError(f"level={level!r}: expected 'off' or 'attempt'")
    if type(max_events) is not int or (max_events and not 100 <= max_events <= 100_000_000):
        raise OptionError(f"max_events={max_events!r}: expected 100 or more, or 0 to leave it as it is")
    yield [Call("configure", shard, (levels[level], max_events), readonly=True) for shard in shards]
