"""Claims: taking jobs, finishing them, keeping them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple, cast

import msgspec

from headrace.protocol.steps import Arg, Call, Channel, Steps

CLAIM_JOBS: Final = 100
CALL_BYTES: Final = 1 << 20
MAX_WAIT: Final = 5.0

COMPLETED, RETRIED, FAILED, CANCELLED, RELEASED, PARKED, LOST = "C", "R", "F", "X", "L", "P", "-"


# Claims come and go by the hundred in each call: a struct is made in a third of the time that a named tuple takes.
class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A claimed job as the server describes it; counts and record are parsed when they are looked at."""

    key: bytes
    claim: bytes
    counts: bytes
    record: bytes
    shard: int


@dataclass(slots=True)
class Want:
    """What a claim call asks for."""

    n: int
    queues: Sequence[str] = ("*",)
    ahead: int = 0
    lease_ms: int = 0
    wait_ms: int = 0
    waiter: str = ""
    members: int = 1
    units: int = 1

    def args(self, n: int | None = None) -> tuple[Arg, ...]:
        """The arguments from `n` on; every call gets a nonce of 96 random bits for its claim ids."""
        nonce = secrets.token_urlsafe(12)
        return (
            min(self.n if n is None else n, CLAIM_JOBS), self.ahead, self.lease_ms, self.wait_ms, self.waiter, nonce,
            self.members, self.units, *self.queues,
        )  # fmt: skip


class Grant(NamedTuple):
    """The answer to a claim: the jobs, when to look again at the latest, and the level that waits."""

    jobs: list[Claimed]
    due_ms: int
    level: int


def _grant(reply: list[bytes | int], at: int, shard: int) -> Grant:
    words = cast("list[bytes]", reply)
    keys, claims, counts, records = (words[at + i :: 4] for i in range(2, 6))
    jobs = list(map(Claimed, keys, claims, counts, records, repeat(shard)))
    return Grant(jobs, cast("int", reply[at]), cast("int", reply[at + 1]))


def claim(want: Want, shard: int, channel: Channel | None = None) -> Steps[Grant]:
    """Claim up to `want.n` jobs of one shard."""
    reply = cast("list[bytes | int]", (yield Call("claim", shard, want.args(), numbered=True, channel=channel)))
    return _grant(reply, 0, shard)


def leave(waiter: str, queues: Sequence[str], shards: Sequence[int]) -> Steps[None]:
    """Stop being a waiter on these shards; a wake-up that was meant for it goes to another."""
    if shards:
        yield [Call("leave", shard, (waiter, *queues), readonly=True) for shard in shards]


class End(msgspec.Struct, frozen=True, gc=False):
    """How one claim ends: an operation of `85_finishing.lua` and its body."""

    key: bytes
    claim: bytes
    op: str
    body: bytes = b""


def time_body(at_ms: int = -1, delay_ms: int = -1, error: bytes = b"") -> bytes:
    """The body of a retry, failure or release: when the job may run again, and the error's payload."""
    return b"%d %d %b" % (at_ms, delay_ms, error)


def _finish_calls(ends: Sequence[End], shard: int, channel: Channel | None, bulk: int) -> list[Call]:
    """Cut the ends into calls within the limits of one; nearly always it is one call.

    `bulk` is what the server has to free: the bytes of all the records.
    """
    calls: list[Call] = []
    step = CLAIM_JOBS if bulk <= CALL_BYTES else max(1, min(CLAIM_JOBS, len(ends) * CALL_BYTES // bulk))
    for i in range(0, len(ends), step):
        part = ends[i : i + step]
        words: list[Arg] = [word for end in part for word in (end.key, end.claim, end.op, end.body)]
        if len(part) > 1 and sum(len(end.body) for end in part) > CALL_BYTES:
            half = len(part) // 2
            calls += _finish_calls(part[:half], shard, channel, 0) + _finish_calls(part[half:], shard, channel, 0)
        else:
            calls.append(Call("finish", shard, (len(part), *words), numbered=True, channel=channel))
    return calls


def finish(ends: Sequence[End], shard: int, channel: Channel | None = None, bulk: int = 0) -> Steps[str]:
    """Finish claims of one shard; answers a letter for each (see the constants above)."""
    letters = ""
    for call in _finish_calls(ends, shard, channel, bulk):
        reply = cast("list[bytes | int]", (yield call))
        letters += cast("bytes", reply[0]).decode()
    return letters


def finish_and_claim(
    ends: Sequence[End], want: Want, shard: int, channel: Channel | None = None, *, bulk: int = 0
) -> Steps[tuple[str, Grant]]:
    """Finish claims and claim the next jobs in the same round trip."""
    calls = _finish_calls(ends, shard, channel, bulk)
    letters = ""
    for call in calls[:-1]:
        reply = cast("list[bytes | int]", (yield call))
        letters += cast("bytes", reply[0]).decode()
    args = (*calls[-1].args, *want.args()) if calls else (0, *want.args())
    reply = cast("list[bytes | int]", (yield Call("finish", shard, args, numbered=True, channel=channel)))
    return letters + cast("bytes", reply[0]).decode(), _grant(reply, 1, shard)


class Kept(NamedTuple):
    """The answer to an extension or a report: whether the claim is current, and who cancelled the job if anyone."""

    current: bool
    cancelled: str | None


def _kept(reply: list[bytes | int]) -> Kept:
    if not reply[0]:
        return Kept(False, None)
    by = cast("bytes", reply[1]).decode()
    return Kept(True, by or None)


def extend(key: bytes, claim_id: bytes, lease_ms: int, shard: int) -> Steps[Kept]:
    """Give a claim another deadline."""
    return _kept((yield Call("extend", shard, (key, claim_id, lease_ms), readonly=True)))


def report(key: bytes, claim_id: bytes, progress: bytes, shard: int) -> Steps[Kept]:
    """Store the progress of a running job."""
    return _kept((yield Call("report", shard, (key, claim_id, progress), readonly=True)))
