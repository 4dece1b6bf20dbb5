"""Leasing by hand: sweep the shards, wait where nothing is, and keep nothing when the caller is cancelled."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from headrace import clock
from headrace.errors import HeadraceError
from headrace.protocol import claiming, keys
from headrace.protocol.claiming import Claimed, End, Grant, Want
from headrace.protocol.steps import Block, Steps, hurried
from headrace.queues.engine import Engine

Taken: TypeAlias = list[tuple[float, Claimed]]

#: How often a shard is asked again that had looked long enough for one call, and found less than was wanted.
AGAIN: Final = 100
#: How a claim ends whose job was not looked at: it is back in its place in line, and nothing is counted.
UNRUN: Final = ("l", claiming.time_body(delay_ms=0))


def lease(engine: Engine, want: Want, shards: Sequence[int], ends: float | None) -> Steps[Taken]:
    """Claim until there is something or the time is up; the jobs, each with the time when it was asked for."""
    hand = _Hand(engine, want, shards)
    try:
        taken = yield from hand.patiently(ends)
        engine.site.check_open()  # claims that came in while it was being closed could never be finished
        yield from hand.leave()
        return taken
    except GeneratorExit:
        raise
    except BaseException:  # failed, cancelled, or interrupted: what we hold, and what was to wake us, is for others
        with suppress(HeadraceError):
            yield from hurried(give_back(hand.held))
        yield from hand.leave()
        raise


class _Hand:
    """One lease on its way: what it holds so far, and the shards that may have it among their waiters."""

    def __init__(self, engine: Engine, want: Want, shards: Sequence[int]) -> None:
        self.engine = engine
        self.want = want
        self.shards = shards
        self.held: list[Claimed] = []
        self._asleep: set[int] = set()

    def patiently(self, ends: float | None) -> Steps[Taken]:
        """Sweep and wait in turns."""
        want = self.want
        while True:
            left = claiming.MAX_WAIT if ends is None else min(claiming.MAX_WAIT, ends - clock.monotonic())
            started = clock.monotonic()
            want.wait_ms = max(0, int(left * 1000))
            due_ms = yield from self._sweep()
            if self.held or left <= 0:
                return [(started, job) for job in self.held]
            seconds = left if due_ms < 0 else min(left, max(due_ms, 1) / 1000)
            yield Block({i: keys.wake_list(self.engine.site.namespace, i, want.waiter) for i in self.shards}, seconds)

    def leave(self) -> Steps[None]:
        """Where we still pass for a waiter, the next wake-up would be ours, and so nobody's."""
        with suppress(HeadraceError):
            yield from hurried(claiming.leave(self.want.waiter, self.want.queues, sorted(self._asleep)))

    def _sweep(self) -> Steps[int]:
        """Ask the shards in turn, from a random one on; answers when something is due there at the latest.

        What was claimed before a shard failed is kept: the failure comes again when it is asked next.
        """
        due, order = -1, list(self.shards)
        start = random.randrange(len(order))
        for shard in order[start:] + order[:start]:
            try:
                due_ms = yield from self._ask(shard)
            except HeadraceError:
                if self.held:
                    return due
                raise
            if due_ms >= 0:
                due = due_ms if due < 0 else min(due, due_ms)
        return due

    def _ask(self, shard: int) -> Steps[int]:
        """Ask a shard until we have enough or nothing more may start there; answers when something is due there."""
        want, again, due_ms = self.want, AGAIN, -1
        while len(self.held) < want.n:
            part = Want(want.n - len(self.held), want.queues, lease_ms=want.lease_ms, waiter=want.waiter)
            part.wait_ms = 0 if self.held else want.wait_ms
            if part.wait_ms:
                self._asleep.add(shard)  # before the reply, which may get lost
            grant = yield from _claim(self.engine, part, shard, self.held)
            self.held += grant.jobs
            if grant.jobs or not part.wait_ms:
                self._asleep.discard(shard)
            due_ms = grant.due_ms
            if _full(part, grant):
                continue
            if due_ms != 0 or again == 0:
                break
            again -= 1  # it had looked long enough for one call: what may start is perhaps behind that
        return due_ms


def _full(part: Want, grant: Grant) -> bool:
    """Whether a call gave what one call can give: as many jobs as it may, or as many bytes."""
    if len(grant.jobs) >= min(part.n, claiming.CLAIM_JOBS):
        return True
    return sum(len(job.record) for job in grant.jobs) >= claiming.CALL_BYTES // 2


def _claim(engine: Engine, part: Want, shard: int, held: list[Claimed]) -> Steps[Grant]:
    """One call; when the caller is cancelled or the app closed in the middle of it, its answer is asked for all the
    same.
    """
    channel = engine.borrow_channel()
    number = channel.number
    try:
        grant = yield from claiming.claim(part, shard, channel)
    except GeneratorExit:
        raise
    except BaseException as error:
        # One that was never sent has no number, and the number before it is that of somebody else's claims.
        sent = channel.number > number
        if sent and (engine.site.closed or not isinstance(error, HeadraceError)):
            channel.number = number  # the same number gets the same answer, whether or not the call was run
            with suppress(HeadraceError):
                held += (yield from hurried(claiming.claim(part, shard, channel))).jobs
        raise
    engine.return_channel(channel)
    return grant


def give_back(jobs: Iterable[Claimed]) -> Steps[None]:
    """Claims that nobody will work on end, on all their shards."""
    by_shard: dict[int, list[Claimed]] = {}
    for job in jobs:
        by_shard.setdefault(job.shard, []).append(job)
    for shard, some in by_shard.items():
        ends = [End(job.key, job.claim, *UNRUN) for job in some]
        yield from claiming.finish(ends, shard, bulk=sum(len(job.record) for job in some))
