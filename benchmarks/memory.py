"""What a waiting job takes, and what is left when all is done."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Figure
from benchmarks.ground import Ground, fresh
from benchmarks.load import ONE_LANE, QUEUE, drained, fill, heads
from benchmarks.sizes import PAYLOAD, Sizes
from headrace.protocol import keys


def run(sizes: Sizes) -> Iterator[Figure]:
    """Fill; then drain the smallest without results. The history stays, up to its bound, and is counted apart."""
    for n in sizes.memory:
        with fresh() as ground:
            queue = ground.app.queue(QUEUE, keep_result=0)
            _warm_up(ground)
            before = ground.memory()
            queue.enqueue_many(PAYLOAD for _ in range(n))
            full = ground.memory()
            yield Figure(f"memory a waiting job, {n:,} of them", (full - before) / n, "B", 290)
            if n > min(sizes.memory):
                continue
            drained(ground, n)
            with_history = ground.memory()
            ground.admin.delete(keys.history(ground.app.engine.site.namespace, 0))
            after = ground.memory()
            yield Figure(f"left by {n:,} jobs without results, history aside", after - before, "B", 1 << 16)
            yield Figure("history an attempt (bounded by count)", (with_history - after) / n, "B")


def _warm_up(ground: Ground) -> None:
    """Statistics of each command and the heap of the functions grow with first use, whatever is stored."""
    fill(ground, heads(ONE_LANE), 3000)
    drained(ground, 3000)
    ground.clear()
