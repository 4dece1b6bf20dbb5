"""What is done to queues in the benchmarks: filling them, in one lane or many, and draining them without handlers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from benchmarks.ground import Ground
from benchmarks.sizes import PAYLOAD
from headrace.protocol import codec
from headrace.protocol.claiming import Claimed, End, Want, finish_and_claim
from headrace.protocol.enqueueing import Item, enqueue_many
from headrace.protocol.options import build_head, queue_defaults
from headrace.protocol.sessions import Profile, heartbeat, open_session
from headrace.protocol.steps import Channel

QUEUE = "emails"
_ROUND = 2048


@dataclass(frozen=True, slots=True)
class Shape:
    """How jobs spread over lanes; they are enqueued taking turns job by job."""

    name: str
    lanes: int = 0
    levels: int = 1

    def lane(self, i: int) -> str:
        """The name of the i-th lane: of two levels, a hundred lanes share a group."""
        return f"g{i // 100}/t{i:06}" if self.levels == 2 else f"t{i:06}"


ONE_LANE = Shape("one lane")


def heads(shape: Shape, keep_result: float = 0) -> list[tuple[str, bytes]]:
    """Lane and packed options for each lane."""
    defaults = queue_defaults({"keep_result": keep_result}, QUEUE)
    lanes = [shape.lane(i) for i in range(shape.lanes)] or [""]
    built = [build_head({"lane": lane} if lane else {}, defaults, QUEUE) for lane in lanes]
    return [(head.lane, head.packed) for head in built]


def fill(ground: Ground, turns: Sequence[tuple[str, bytes]], n: int, data: Any = PAYLOAD) -> None:
    """Enqueue n jobs over lanes that take turns, encoding each as `Queue.enqueue_many` does."""
    lanes = islice(cycle(turns), n)
    limit = ground.app.engine.max_payload
    for begin in range(0, n, _ROUND):
        some = islice(lanes, min(_ROUND, n - begin))
        items = [Item(None, lane, None, head, codec.encode(data, limit)) for lane, head in some]
        ground.run(enqueue_many(ground.app.engine.ring, QUEUE, items, "u"))


class Hands:
    """A worker without handlers: each turn finishes what it holds and claims the next, in one call."""

    def __init__(
        self, ground: Ground, batch: int = 100, lease_ms: int = 60_000, queues: Sequence[str] = (QUEUE,)
    ) -> None:
        self.ground = ground
        self.channel = Channel(secrets.token_urlsafe(12))
        self.want = Want(batch, queues)
        self.held: list[Claimed] = []
        ground.run(open_session(self.channel, 0, Profile(lease_ms, queues)))

    def turn(self, result: bytes = b"", finish: bool = True) -> int:
        """Finish and claim; answers how many jobs it holds now."""
        ends = [End(job.key, job.claim, "c", result) for job in self.held] if finish else []
        letters, grant = self.ground.run(finish_and_claim(ends, self.want, 0, self.channel))
        if letters.strip("C"):
            raise AssertionError(f"a claim of the benchmark was lost: {letters}")
        self.held = grant.jobs
        return len(grant.jobs)

    def drain(self) -> int:
        """Turn until nothing is left."""
        return sum(iter(self.turn, 0))

    def turns(self, jobs: int) -> Iterator[int]:
        """Turn until that many jobs were claimed, then finish the last."""
        while jobs > 0 and (n := self.turn()):
            jobs -= n
            yield n

    def let_go(self) -> None:
        """Finish what is held and claim nothing (a queue that has no jobs)."""
        usual, self.want = self.want, Want(1, ("nothing-here",))
        self.turn()
        self.want = usual

    def beat(self) -> bool:
        """A heartbeat; False when the session is dead."""
        return self.ground.run(heartbeat(self.channel.id, 0)) is not None


def drained(ground: Ground, n: int) -> None:
    """Claim and finish all of n jobs in batches of 100."""
    done = Hands(ground).drain()
    if done != n:
        raise AssertionError(f"drained {done} of {n} jobs")
