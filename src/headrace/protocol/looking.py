"""Looking: one job, its reasons, counts, and pages of jobs. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from headrace.protocol import keys
from headrace.protocol.records import Counts, Record, parse_counts, parse_record
from headrace.protocol.steps import Call, Listen, Steps

#: Where a job stands; and those of them that a lane has pages of.
Status: TypeAlias = Literal["scheduled", "ready", "held", "running", "done", "failed", "cancelled", "stranded"]
Listed: TypeAlias = Literal["ready", "scheduled", "held", "running", "failed"]


@dataclass(slots=True)
class Seen:
    """One generation of a job as the server showed it; `status` is '' when the server does not know it."""

    status: Status | Literal[""]
    generation: int
    record: Record | None
    counts: Counts
    at_ms: int
    body: bytes
    progress: bytes
    held: bool
    cancelled_by: str
    session: str


def _seen(reply: list[Any]) -> Seen:
    status, generation, record, counts, at, body, progress, held, by, session, _ = reply
    return Seen(
        cast("Status", status.decode()) if isinstance(status, bytes) else "",
        generation,
        parse_record(record) if record else None,
        parse_counts(counts) if counts else Counts(),
        int(at),
        body,
        progress,
        bool(held),
        by.decode(),
        session.decode(),
    )


class Ref(msgspec.Struct, frozen=True, gc=False):
    """One generation of a job, and where it lives; generation 0 is the latest."""

    queue: str
    id: str
    generation: int
    shard: int

    def call(self, function: str, *more: int) -> Call:
        """A call about this job."""
        return Call(function, self.shard, (self.queue, self.id, self.generation, *more), readonly=True)


def look(ref: Ref) -> Steps[Seen]:
    """Everything about one job."""
    return _seen((yield ref.call("look")))


def wait_for_end(ref: Ref, namespace: str, seconds: float) -> Steps[Seen | None]:
    """Wait up to `seconds` (5 at most a call) for a job's end without polling; None while it goes on."""
    seconds = min(seconds, 5.0)
    armed = ref.call("watch", int(seconds * 1000) + 1000)
    reply = yield Listen(ref.shard, keys.done_channel(namespace, ref.shard, ref.queue, ref.id), armed, seconds)
    if isinstance(reply, list):
        return _seen(cast("list[Any]", reply))
    seen = yield from look(ref)
    return seen if seen.status in ("", "done", "failed", "cancelled") else None


def explain(ref: Ref) -> Steps[tuple[str, list[dict[str, Any]]]]:
    """A job's status and every reason why it is not running."""
    status, packed = yield ref.call("explain")
    reasons = cast("list[dict[str, Any]] | dict[str, Any]", msgspec.msgpack.decode(packed))
    return status.decode(), reasons if isinstance(reasons, list) else []


class Tally(NamedTuple):
    """How many jobs stand where; `parked` ones are among the ready."""

    scheduled: int
    ready: int
    held: int
    running: int
    failed: int
    parked: int


def counts(paths: Sequence[str], shards: Sequence[int]) -> Steps[list[Tally]]:
    """Counts of queues, groups or lanes, summed over the shards."""
    calls = [Call("counts", shard, paths, readonly=True) for shard in shards]
    replies = cast("list[list[int]]", (yield calls))
    sums = [sum(column) for column in zip(*replies, strict=True)]
    return [Tally(*sums[i : i + 6]) for i in range(0, len(sums), 6)]


class Row(NamedTuple):
    """One job of a page."""

    id: str
    at_ms: int
    counts: Counts
    record: Record
    """Without its payload."""


def page(path: str, status: str, cursor: str, n: int, shard: int) -> Steps[tuple[str, list[Row]]]:
    """A page of jobs by status; go on until the cursor is ''."""
    reply = cast("list[Any]", (yield Call("inspect", shard, (path, status, cursor, n), readonly=True)))
    rows = [
        Row(reply[i].decode(), int(reply[i + 1]), parse_counts(reply[i + 2]), parse_record(reply[i + 3]))
        for i in range(1, len(reply), 4)
    ]
    return reply[0].decode(), rows


def lanes_page(path: str, cursor: str, n: int, shard: int) -> Steps[tuple[str, list[str]]]:
    """A page of the children of a queue or group; of all queues with ''."""
    reply = cast("list[bytes]", (yield Call("inspect", shard, (path, "lanes", cursor, n), readonly=True)))
    return reply[0].decode(), [name.decode() for name in reply[1:]]
