"""Enqueue: many jobs as few calls, each within the limits of one call (E25), each on its own shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from headrace.errors import JobExists, ProtocolError
from headrace.protocol.names import new_id
from headrace.protocol.routing import Ring
from headrace.protocol.steps import Arg, Call, Steps

CALL_JOBS: Final = 256
CALL_BYTES: Final = 1 << 20
CALL_LANES: Final = 100  # lanes of one call: making a lane costs as much as several jobs
_LETTERS: Final = {"a": "added", "u": "updated", "h": "held", "i": "ignored"}
_SPLIT: Final = b"s"  # nothing was done: too much for one call is there already under these ids


class Item(NamedTuple):
    """One job to enqueue: its id (None: generate one), where it goes, its packed options and payload."""

    id: str | None
    lane: str
    route: str | None
    head: bytes
    payload: bytes


class Enqueued(NamedTuple):
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

    __slots__ = ("args", "ids", "lanes", "origin", "places", "seen", "shard", "size")

    def __init__(self, shard: int, origin: str) -> None:
        self.shard = shard
        self.origin = origin
        self.seen: set[str] = set()
        self.lanes: set[str] = set()
        self.args: list[Arg] = []
        self.ids: list[str] = []
        self.places: list[int] = []
        self.size = 0

    def has_room(self, id: str, lane: str, size: int) -> bool:
        """Whether one more job fits into the same call."""
        return (
            len(self.ids) < CALL_JOBS
            and self.size + size <= CALL_BYTES
            and id not in self.seen
            and (lane in self.lanes or len(self.lanes) < CALL_LANES)
        )

    def add(self, place: int, id: str, item: Item, size: int) -> None:
        """Put a job at the end of the call."""
        if self.origin == "c":
            self.seen.add(id)
        self.lanes.add(item.lane)
        self.places.append(place)
        self.ids.append(id)
        self.size += size
        self.args += (id, item.head, item.payload)

    def halves(self) -> list[_Batch]:
        """The same jobs in two calls."""
        middle = len(self.ids) // 2
        parts: list[_Batch] = []
        for part in (slice(0, middle), slice(middle, None)):
            half = _Batch(self.shard, self.origin)
            half.ids, half.places = self.ids[part], self.places[part]
            half.args = self.args[3 * (part.start or 0) : 3 * part.stop if part.stop else None]
            parts.append(half)
        return parts


def enqueue_many(ring: Ring, queue: str, items: Sequence[Item], if_exists: str) -> Steps[list[Enqueued]]:
    """Enqueue many jobs: order is kept within a shard; each call is atomic, the whole is not."""
    outcomes: list[Enqueued | None] = [None] * len(items)
    batches = _batches(ring, items)
    while batches:
        calls = [Call("enqueue", b.shard, (queue, if_exists, b.origin, b"", *b.args), numbered=True) for b in batches]
        replies = cast("list[list[bytes | int]]", (yield calls))
        batches = _note(batches, replies, outcomes)
    return cast("list[Enqueued]", outcomes)


def _note(batches: list[_Batch], replies: list[list[bytes | int]], outcomes: list[Enqueued | None]) -> list[_Batch]:
    """Note what became of the jobs; answers what is to be sent again in smaller calls."""
    again: list[_Batch] = []
    for batch, reply in zip(batches, replies, strict=True):
        if reply[0] == _SPLIT and len(batch.ids) > 1:
            again += batch.halves()
            continue
        letters = cast("bytes", reply[0]).decode()
        for place, id, letter, generation in zip(batch.places, batch.ids, letters, reply[1:], strict=True):
            outcomes[place] = Enqueued(id, cast("int", generation), _LETTERS[letter], batch.shard)
    return again


def _batches(ring: Ring, items: Sequence[Item]) -> list[_Batch]:
    """Cut the jobs into calls: by shard, by origin of the id, by number and size; no id twice in one call."""
    done: list[_Batch] = []
    filling: dict[tuple[int, str], _Batch] = {}
    for place, item in enumerate(items):
        shard = ring.of_job(item.id, item.lane, item.route)
        id, origin = (item.id, "c") if item.id is not None else (new_id(shard), "g")
        size = len(item.payload) + len(item.head) + len(id)
        batch = filling.get((shard, origin))
        if batch is None or not batch.has_room(id, item.lane, size):
            batch = filling[shard, origin] = _Batch(shard, origin)
            done.append(batch)
        batch.add(place, id, item, size)
    return done
