"""Enqueue: many jobs as few calls, each within the limits of one call (E25), each on its own shard."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final, cast

import msgspec

from headrace.errors import JobExists, ProtocolError
from headrace.protocol.names import new_id, new_ids
from headrace.protocol.routing import Ring
from headrace.protocol.steps import Arg, Call, Steps

CALL_JOBS: Final = 256
CALL_BYTES: Final = 1 << 20
CALL_LANES: Final = 100  # lanes of one call: making a lane costs as much as several jobs
_LETTERS: Final = {"a": "added", "u": "updated", "h": "held", "i": "ignored"}
_SPLIT: Final = b"s"  # nothing was done: too much for one call is there already under these ids


# Jobs come by the hundred in each call: a struct is made in a third of the time that a named tuple takes.
class Item(msgspec.Struct, frozen=True, gc=False):
    """One job to enqueue: its id (None: generate one), where it goes, its packed options and payload."""

    id: str | None
    lane: str
    route: str | None
    head: bytes
    payload: bytes


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """What became of one job: its id, its generation, and added, updated, held or ignored."""

    id: str
    generation: int
    outcome: str
    shard: int


def enqueue_one(ring: Ring, queue: str, item: Item, if_exists: str) -> Steps[Enqueued]:
    """Enqueue one job."""
    shard = ring.of_job(item.id, item.lane, item.route)
    for _ in range(3):
        id, origin = (item.id, "c") if item.id is not None else (new_id(shard), "g")
        args: tuple[Arg, ...] = (queue, if_exists, origin, item.head, id, b"", item.payload)
        try:
            reply = cast("list[bytes | int]", (yield Call("enqueue", shard, args, numbered=True)))
        except JobExists as error:
            if item.id is None:
                continue  # another process drew the same id in the same millisecond: draw again
            error.queue, error.id = queue, id
            raise
        return Enqueued(id, cast("int", reply[1]), _LETTERS[cast("bytes", reply[0]).decode()], shard)
    raise ProtocolError("three generated ids in a row were taken: is the source of randomness broken?")


class _Batch:
    """Jobs of one call, and how big it has become."""

    __slots__ = ("args", "head", "ids", "lanes", "origin", "places", "seen", "shard", "size")

    def __init__(self, shard: int, origin: str, head: bytes) -> None:
        self.shard = shard
        self.origin = origin
        #: the options of the first job: those that have the same need not say so again
        self.head = head
        self.seen: set[str] = set()
        self.lanes: set[str] = set()
        self.args: list[Arg] = []
        self.ids: list[str] = []
        self.places: list[int] = []
        self.size = 0

    def add(self, place: int, id: str, item: Item) -> bool:
        """Put a job at the end of the call; False when there is no room for it."""
        size = self.size + len(item.payload) + len(item.head) + len(id)
        if len(self.ids) == CALL_JOBS or (size > CALL_BYTES and self.ids) or id in self.seen:
            return False
        head = item.head
        if head != self.head and not head:
            return False  # an empty one would say "like the first"
        if item.lane not in self.lanes:
            if len(self.lanes) == CALL_LANES:
                return False
            self.lanes.add(item.lane)
        if self.origin == "c":
            self.seen.add(id)
        self.places.append(place)
        self.ids.append(id)
        self.size = size
        self.args += (id, b"" if head == self.head else head, item.payload)
        return True

    def told(self, together: str) -> str:
        """Where its ids come from. Of calls with ids of the caller's, none is run once one before it was refused."""
        return self.origin + together if self.origin == "c" else self.origin

    def halves(self) -> list[_Batch]:
        """The same jobs in two calls."""
        middle = len(self.ids) // 2
        parts: list[_Batch] = []
        for part in (slice(0, middle), slice(middle, None)):
            half = _Batch(self.shard, self.origin, self.head)
            half.ids, half.places = self.ids[part], self.places[part]
            half.args = self.args[3 * (part.start or 0) : 3 * part.stop if part.stop else None]
            parts.append(half)
        return parts


def enqueue_many(ring: Ring, queue: str, items: Sequence[Item], if_exists: str) -> Steps[list[Enqueued]]:
    """Enqueue many jobs: order is kept within a shard; each call is atomic, the whole is not."""
    outcomes: list[Enqueued | None] = [None] * len(items)
    batches = _batches(ring, items)
    while batches:
        together = secrets.token_hex(8) if len(batches) > 1 else ""
        calls = [
            Call("enqueue", b.shard, (queue, if_exists, b.told(together), b.head, *b.args), numbered=True)
            for b in batches
        ]
        replies = cast("list[list[bytes | int]]", (yield calls))
        batches = _note(batches, replies, outcomes)
    return cast("list[Enqueued]", outcomes)


def _note(batches: list[_Batch], replies: list[list[bytes | int]], outcomes: list[Enqueued | None]) -> list[_Batch]:
    """Note what became of the jobs; answers what is to be sent again, the first of each shard in smaller calls."""
    again: list[_Batch] = []
    cut: set[int] = set()
    for batch, reply in zip(batches, replies, strict=True):
        if reply[0] == _SPLIT and batch.origin == "c":
            again += [batch] if batch.shard in cut or len(batch.ids) == 1 else batch.halves()
            cut.add(batch.shard)
            continue
        letters = cast("bytes", reply[0]).decode()
        for place, id, letter, generation in zip(batch.places, batch.ids, letters, reply[1:], strict=True):
            outcomes[place] = Enqueued(id, cast("int", generation), _LETTERS[letter], batch.shard)
    return again


def _batches(ring: Ring, items: Sequence[Item]) -> list[_Batch]:
    """Cut the jobs into calls: by shard, by origin of the id, by number and size; no id twice in one call."""
    done: list[_Batch] = []
    filling: dict[tuple[int, str], _Batch] = {}
    for place, (shard, id, item) in enumerate(_placed(ring, items)):
        origin = "g" if item.id is None else "c"
        batch = filling.get((shard, origin))
        if batch is None or not batch.add(place, id, item):
            batch = filling[shard, origin] = _Batch(shard, origin, item.head)
            batch.add(place, id, item)
            done.append(batch)
    return done


def _placed(ring: Ring, items: Sequence[Item]) -> Iterator[tuple[int, str, Item]]:
    """The shard and id of each job."""
    if ring.shards == 1 and all(item.id is None for item in items):
        return zip(repeat(0), new_ids(0, len(items)), items)
    return (_place(ring, item) for item in items)


def _place(ring: Ring, item: Item) -> tuple[int, str, Item]:
    shard = ring.of_job(item.id, item.lane, item.route)
    return shard, new_id(shard) if item.id is None else item.id, item
