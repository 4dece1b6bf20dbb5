"""Claims in front of lanes that may not start anything, many and one: claiming never scans past blocked work."""

from __future__ import annotations

from collections.abc import Iterator
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
PROBE = 1000


def run(sizes: Sizes) -> Iterator[Figure]:
    """One job runs and one waits in each blocked lane; the probe claims, one by one, from an open lane behind them."""
    for kind, settings in KINDS.items():
        costs: dict[int, list[float]] = {}
        for n in (1, sizes.blocked):
            with fresh() as ground:
                _block(ground, n, settings)
                calls = ground.calls_ms()
                costs[n] = [_claims(ground), _in_vain(ground)]
        for what, one, many in zip(("claim + finish behind", "claim in vain before"), *costs.values(), strict=True):
            note = (
                f"{many:.1f} us, behind one {one:.1f}" if "behind" in what else f"{many:.1f} us, before one {one:.1f}"
            )
            yield Figure(f"{what} {sizes.blocked:,} {kind} lanes / one", many / one, "x", SAME, note=note)
        # Hundreds of calls with the same work: the share that the machine held up says nothing about them.
        note = f"longest {max(calls):.1f} of {len(calls):,}"
        yield Figure(
            f"calls that fill {sizes.blocked:,} {kind} lanes, p99", percentile(calls, 0.99), "ms", 5, note=note
        )


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
