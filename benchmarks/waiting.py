"""What waiting costs the server, how soon a waiting process has its job, and how late time alone wakes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure, percentile
from benchmarks.ground import Ground, fresh
from benchmarks.load import QUEUE
from benchmarks.sizes import Sizes
from benchmarks.waiter import Waiter
from headrace import clock
from tests.tools.processes import eventually

#: What a waiting client may send; the other commands in the server's statistics come from inside functions, or from us.
SENT = ("fcall", "fcall_ro", "blpop", "ping", "client|unblock", "subscribe", "publish")
LATE_MS = 50
PATIENCE_MS = 150


def idle(sizes: Sizes) -> Iterator[Figure]:
    """Commands a second of one process that waits, by hand and as a worker."""
    for what, mode in (("lease(wait=None)", "lease"), ("a session with heartbeats", "session")):
        with fresh() as ground, Waiter(ground.url, mode) as waiter:
            waiter.go()
            _blocked(ground)
            before, functions = _sent(ground), ground.calls("fcall")
            used = ground.cost(lambda: time.sleep(sizes.idle_seconds)).server_us
            rate = (_sent(ground) - before) / sizes.idle_seconds
            functions = ground.calls("fcall") - functions
            note = f"{used / sizes.idle_seconds:.0f} us of server time a second, {functions:.0f} function calls in all"
            yield Figure(f"commands a second, idle: {what}", rate, "", 2, note=note)


def wake(sizes: Sizes) -> Iterator[Figure]:
    """From just before an enqueue to a claim in the hands of another process that was blocked."""
    with fresh() as ground, Waiter(ground.url) as waiter:
        queue = ground.app.queue(QUEUE, keep_result=0)
        times: list[float] = []
        for _ in range(sizes.wakes):
            waiter.go()
            _blocked(ground)
            started = clock.monotonic()
            queue.enqueue(started)
            times.append((waiter.found()[0] - started) * 1000)
    for share, target in ((0.5, 1.0), (0.99, 4.0)):
        yield Figure(f"wake-up of a waiting process, p{share * 100:.0f}", percentile(times, share), "ms", target)


def late(sizes: Sizes) -> Iterator[Figure]:
    """How long after the moment a lone waiter has the job; the worst of all trials."""
    trials: dict[str, Callable[[Ground, Waiter], float]] = {
        "due work": _due,
        "work whose rate opens": _rate_opens,
        "work whose lease ran out": _expires,
    }
    for what, trial in trials.items():
        with fresh() as ground, Waiter(ground.url) as waiter:
            times = [trial(ground, waiter) for _ in range(sizes.trials)]
        note = f"p50 {percentile(times, 0.5):.1f}, earliest {min(times):.1f}, {len(times)} trials"
        yield Figure(f"lateness of {what}, worst", max(times), "ms", LATE_MS, note=note)


def _due(ground: Ground, waiter: Waiter) -> float:
    waiter.go()
    _blocked(ground)
    at = clock.wall() + PATIENCE_MS / 1000
    ground.app.queue(QUEUE).enqueue(0, run_at=at)
    return (waiter.found()[1] - at) * 1000


def _rate_opens(ground: Ground, waiter: Waiter) -> float:
    """Two jobs in a lane that may start one a window: the second starts a window after the first."""
    lane = ground.app.queue(QUEUE).lane("steady")
    lane.set(rate=(1, PATIENCE_MS / 1000))
    time.sleep(PATIENCE_MS / 1000)
    for _ in range(2):
        ground.app.queue(QUEUE).enqueue(0, lane="steady")
    waiter.go()
    first = waiter.found()[0]
    waiter.go()
    return (waiter.found()[0] - first) * 1000 - PATIENCE_MS


def _expires(ground: Ground, waiter: Waiter) -> float:
    """The job was leased by another process, which says nothing more."""
    queue = ground.app.queue(QUEUE)
    queue.enqueue(0, max_stalls=None)
    started = clock.monotonic()
    (_,) = queue.lease(PATIENCE_MS / 1000)
    waiter.go()
    return (waiter.found()[0] - started) * 1000 - PATIENCE_MS


def _blocked(ground: Ground) -> None:
    eventually(lambda: ground.admin.info("clients")["blocked_clients"], "the other process waits")


def _sent(ground: Ground) -> float:
    return ground.calls(*SENT)
