"""Leasing by hand: sweep the shards, wait where nothing is, and keep nothing when the caller is cancelled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from headrace import clock
from headrace.errors import HeadraceError
from headrace.protocol import claiming, keys
from headrace.protocol.claiming import Claimed, End, Grant, Want
from headrace.protocol.steps import Block, Steps, hurried
from headrace.queues.engine import Engine

Taken: TypeAlias = list[tuple[float, Claimed]]


def lease(engine: Engine, want: Want, shards: Sequence[int], ends: float | None) -> Steps[Taken]:
    """Claim until there is something or the time is up; the jobs, each with the time when it was asked for."""
    held: list[Claimed] = []
    try:
        return (yield from _patiently(engine, want, shards, ends, held))
    except (HeadraceError, GeneratorExit):
        raise
    except BaseException:  # cancelled, or interrupted: what we hold, and what was to wake us, is for others
        with suppress(HeadraceError):
            yield from hurried(_give_back(held))
            yield from hurried(claiming.leave(want.waiter, want.queues, shards))
        raise


def _patiently(
    engine: Engine, want: Want, shards: Sequence[int], ends: float | None, held: list[Claimed]
) -> Steps[Taken]:
    waited = False
    while True:
        left = claiming.MAX_WAIT if ends is None else min(claiming.MAX_WAIT, ends - clock.monotonic())
        started = clock.monotonic()
        want.wait_ms = max(0, int(left * 1000))
        due_ms = yield from _sweep(engine, want, shards, held)
        if held and waited:
            served = {job.shard for job in held}
            yield from claiming.leave(want.waiter, want.queues, [i for i in shards if i not in served])
        if held or left <= 0:
            return [(started, job) for job in held]
        seconds = left if due_ms < 0 else min(left, max(due_ms, 1) / 1000)
        waited = True
        yield Block({i: keys.wake_list(engine.site.namespace, i, want.waiter) for i in shards}, seconds)


def _sweep(engine: Engine, want: Want, shards: Sequence[int], held: list[Claimed]) -> Steps[int]:
    """Ask the shards in turn, from a random one on; fills `held`, answers when something is due there at the latest.

    What was claimed before a shard failed is kept: the failure comes again when it is asked next.
    """
    due, order = -1, list(shards)
    start = random.randrange(len(order))
    for shard in order[start:] + order[:start]:
        while len(held) < want.n:
            part = Want(want.n - len(held), want.queues, lease_ms=want.lease_ms, waiter=want.waiter)
            part.wait_ms = 0 if held else want.wait_ms
            try:
                grant = yield from _claim(engine, part, shard, held)
            except HeadraceError:
                if held:
                    return due
                raise
            held += grant.jobs
            if grant.due_ms >= 0:
                due = grant.due_ms if due < 0 else min(due, grant.due_ms)
            short = len(grant.jobs) < min(part.n, claiming.CLAIM_JOBS)
            if short and sum(len(job.record) for job in grant.jobs) < claiming.CALL_BYTES // 2:
                break  # nothing more may start there; a call that ended for its bytes is followed by another
    return due


def _claim(engine: Engine, part: Want, shard: int, held: list[Claimed]) -> Steps[Grant]:
    """One call; when the caller is cancelled in the middle of it, its answer is asked for all the same."""
    channel = engine.borrow_channel()
    try:
        grant = yield from claiming.claim(part, shard, channel)
    except (HeadraceError, GeneratorExit):
        raise
    except BaseException:
        channel.number -= 1  # the same number gets the same answer, whether or not the call was run
        with suppress(HeadraceError):
            held += (yield from hurried(claiming.claim(part, shard, channel))).jobs
        raise
    engine.return_channel(channel)
    return grant


def _give_back(jobs: Sequence[Claimed]) -> Steps[None]:
    by_shard: dict[int, list[End]] = {}
    for job in jobs:
        by_shard.setdefault(job.shard, []).append(End(job.key, job.claim, "l", claiming.time_body(delay_ms=0)))
    for shard, ends in by_shard.items():
        yield from claiming.finish(ends, shard)
