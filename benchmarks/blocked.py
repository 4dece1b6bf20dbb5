"""Claims in front of lanes that may not start anything, many and one: claiming never scans past blocked work.

The server with one lane keeps as many keys of somebody else's: with much in its memory a server does everything
slower, and that is no matter of lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import msgspec

from benchmarks.figures import Figure, percentile
from benchmarks.ground import Ground, fresh
from benchmarks.load import QUEUE, Hands, Shape, fill, heads
from benchmarks.sizes import Sizes
from headrace.protocol.steps import Call, Steps
from headrace.queues.settings import LaneSettings, lane_letters

KINDS: dict[str, LaneSettings] = {"capped": {"cap": 1}, "rate-spent": {"rate": "1/h"}}
#: "Costs the same" leaves room for what a deeper index and a colder cache add.
SAME = 1.3
OPEN = "zz-open"
ROUNDS, PROBE = 5, 400


def run(sizes: Sizes) -> Iterator[Figure]:
    """One job runs and one waits in each blocked lane; the probe claims, one by one, from an open lane behind them."""
    n = sizes.blocked
    for kind, settings in KINDS.items():
        with fresh() as few, fresh() as many:
            _block(few, 1, settings)
            _ballast(few, n)
            _block(many, n, settings)
            # Hundreds of calls with the same work: the few that the machine held up say nothing about them.
            calls = many.calls_ms() or [0.2]
            # The two servers take turns, so that a busy machine is busy for both.
            taking = [(_claims(many), _claims(few)) for _ in range(ROUNDS)]
            in_vain = [(_in_vain(many), _in_vain(few)) for _ in range(ROUNDS)]
        for what, costs in (("claim + finish behind", taking), ("claim in vain before", in_vain)):
            least = [min(some) for some in zip(*costs, strict=True)]
            growth = median(many_us / few_us for many_us, few_us in costs)
            note = f"{least[0]:.1f} us of server time a call; one lane: {least[1]:.1f}"
            yield Figure(f"{what} {n:,} {kind} lanes / one", growth, "x", SAME, note=note)
        note = f"longest {max(calls):.1f} of {len(calls):,}"
        yield Figure(f"calls that fill {n:,} {kind} lanes, p90", percentile(calls, 0.9), "ms", 5, note=note)


def _block(ground: Ground, n: int, settings: LaneSettings) -> None:
    shape = Shape("", n)
    packed = msgspec.msgpack.encode(lane_letters(settings, "lane"))
    for begin in range(0, n, 1000):
        lanes = [shape.lane(i) for i in range(begin, min(begin + 1000, n))]
        ground.run(_set(lanes, packed))
    ground.watch_slow()  # not the many short calls that set the lanes up
    fill(ground, heads(shape), 2 * n)
    hands = Hands(ground, lease_ms=3_600_000)
    started = sum(iter(lambda: hands.turn(finish=False), 0))
    if started != n:
        raise AssertionError(f"{started} jobs started in {n} lanes that may start one each")


def _ballast(ground: Ground, n: int) -> None:
    """Keys that lanes would have, and are none."""
    for begin in range(0, n, 500):
        with ground.admin.pipeline(transaction=False) as pipe:
            for i in range(begin, min(begin + 500, n)):
                pipe.hset(f"ballast:n{i}", mapping={"s": "x" * 8, "e": 1, "x": 1})
                pipe.zadd(f"ballast:z{i}", {f"{i:016}": i})
                pipe.hset("ballast:j", f"{i:016}", "x" * 140)
                pipe.hset("ballast:run", f"{i:016}", "x" * 140)
            pipe.execute()


def _set(lanes: list[str], packed: bytes) -> Steps[Any]:
    return (yield [Call("lane", 0, (f"{QUEUE}/{lane}", packed), numbered=True) for lane in lanes])


def _claims(ground: Ground) -> float:
    """Server time of a call that finishes one job of an open lane and claims the next."""
    ground.app.queue(QUEUE, keep_result=0).enqueue_many([b""] * PROBE, lane=OPEN)
    hands = Hands(ground, batch=1)
    return ground.cost(hands.drain).server_us / PROBE


def _in_vain(ground: Ground) -> float:
    """Server time of a claim that finds nothing but blocked lanes."""
    hands = Hands(ground, batch=1)
    return ground.cost(lambda: [hands.turn() for _ in range(PROBE)]).server_us / PROBE
