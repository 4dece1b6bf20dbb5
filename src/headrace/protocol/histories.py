"""The history: one event an attempt, appended by the call that ended it (E36)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, cast

from headrace.errors import OptionError
from headrace.protocol.names import check_id, check_name
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


class EventPage(NamedTuple):
    """Some events of one shard in the order in which they ended, and the cursor of what comes after them.

    The cursor is plain text. Store it with the events: whoever asks for the events after it misses none and gets none
    twice, in another process and after any time, but for those that the bound of the history dropped meanwhile.
    """

    events: list[Event]
    cursor: str


_UP: Final = "up"
_DOWN: Final = "down"
_MOST: Final = 1_000_000
_NOWHERE: Final = "-"
_PLACE: Final = re.compile(r"-|[^\s:]+:(?:\d+-\d+)?")


def _read(shard: int, after: str, n: int, direction: str, text: str = "") -> Steps[tuple[list[Event], str, bool]]:
    """The events of one call, where it stopped, and whether there may be more."""
    call = Call("history", shard, (after, n, direction, text), readonly=True)
    stopped, more, *entries = cast("list[Any]", (yield call))
    if direction == _DOWN:
        entries.reverse()
    return [event for raw in entries for event in _parse_events(raw)], stopped.decode(), bool(more)


def read_history(
    shards: Iterable[int], n: int, queue: str | None = None, id: str | None = None, newest: bool = True
) -> Steps[list[Event]]:
    """The newest or the oldest `n` events of all shards, of a queue or an id where one is given, oldest first."""
    if type(n) is not int or not 1 <= n <= _MOST:
        raise OptionError(f"n={n!r}: expected a whole number from 1 to {_MOST:,}; events() goes through all")
    if queue is not None:
        check_name(queue, "queue")
    if id is not None:
        check_id(id)
    events: list[Event] = []
    for shard in shards:
        events += yield from _read_shard(shard, n, queue, id, newest)
    events.sort(key=lambda event: event.ended)
    return events[-n:] if newest else events[:n]


def _read_shard(shard: int, n: int, queue: str | None, id: str | None, newest: bool) -> Steps[list[Event]]:
    text = f"{queue or ''}/{id or ''}" if queue or id else ""
    pages: list[list[Event]] = []
    found, after, more = 0, "", True
    while more and found < n:
        most = _MOST if text else n - found  # an entry that holds what is looked for holds much else
        events, after, more = yield from _read(shard, after, most, _DOWN if newest else _UP, text)
        if text:
            events = [event for event in events if queue in (None, event.queue) and id in (None, event.id)]
        pages.append(events)
        found += len(events)
    if newest:
        pages.reverse()
    return [event for page in pages for event in page]


class Cursor:
    """How far each shard has been read."""

    def __init__(self, after: str | None, shards: int) -> None:
        self._places = [_NOWHERE] * shards if after is None else _places(after, shards)

    def __str__(self) -> str:
        return " ".join(self._places)

    def read(self, shard: int) -> Steps[tuple[EventPage, bool]]:
        """The next events of a shard, and whether there may be more; the cursor moves behind them."""
        place = self._places[shard]
        events, stopped, more = yield from _read(shard, "" if place == _NOWHERE else place, _MOST, _UP)
        self._places[shard] = stopped
        return EventPage(events, str(self)), more


def _places(after: object, shards: int) -> list[str]:
    places = after.split(" ") if isinstance(after, str) else []
    if len(places) != shards or not all(_PLACE.fullmatch(place) for place in places):
        raise OptionError(f"after={after!r}: expected the cursor of a page of events(), or None for the beginning")
    return places


def set_history(level: str, max_events: int, shards: Iterable[int]) -> Steps[None]:
    """Switch the history "off" or to level "attempt"; bound it to about `max_events` a shard (0: as it is)."""
    levels = {"off": 0, "attempt": 1}
    if level not in levels:
        raise OptionError(f"level={level!r}: expected 'off' or 'attempt'")
    if type(max_events) is not int or (max_events and not 100 <= max_events <= 100_000_000):
        raise OptionError(f"max_events={max_events!r}: expected 100 or more, or 0 to leave it as it is")
    yield [Call("configure", shard, (levels[level], max_events), readonly=True) for shard in shards]
