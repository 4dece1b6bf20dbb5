"""Where a benchmark runs: a fresh server of its own, an open Headrace on it, and what can be read off both.

The server is the packaged Valkey without persistence, on a Unix socket: the shortest road between two processes, so
that the cost of the road hides least of what Headrace itself costs. Baselines take the same road.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from headrace import Headrace, clock
from headrace.protocol.booting import boot
from headrace.protocol.steps import Steps
from tests.tools.servers import Server


class Cost(NamedTuple):
    """What some work cost: seconds, and microseconds of server time inside functions."""

    seconds: float
    server_us: float


class Ground:
    """A server and a Headrace on it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.unix_url
        self.admin: Any = server.admin()
        self.app = Headrace(self.url)

    def run(self, steps: Steps[Any]) -> Any:
        """Run protocol steps, as a worker does."""
        return self.app.engine.site.run(steps)

    def clear(self) -> None:
        """Empty the server, also of what it frees in the background."""
        self.admin.flushall(asynchronous=False)
        self.run(boot(None))

    def cost(self, work: Callable[[], object]) -> Cost:
        """Do it, and say what it cost."""
        gc.collect()
        used, started = self._function_us(), clock.monotonic()
        work()
        return Cost(clock.monotonic() - started, self._function_us() - used)

    def _function_us(self) -> float:
        return self.admin.info("commandstats").get("cmdstat_fcall", {"usec": 0})["usec"]

    def calls(self, *names: str) -> float:
        """How often these commands ran since the server started."""
        found = self.admin.info("commandstats")
        return sum(found.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)

    def memory(self) -> float:
        """Bytes in use but for buffers of connections, once that has come to rest (tables are resized step by step)."""
        last = -1.0
        while True:
            info = self.admin.info("memory")
            now: float = info["used_memory"] - info["mem_clients_normal"]
            if abs(now - last) < 2048 and not info["mem_overhead_db_hashtable_rehashing"]:
                return now
            last = now
            time.sleep(0.15)

    def watch_slow(self) -> None:
        """From now on, remember how long each longer call takes; not the short commands inside it, which are many."""
        self.admin.config_set("slowlog-log-slower-than", 200)
        self.admin.config_set("slowlog-max-len", 100_000)
        self.admin.slowlog_reset()

    def calls_ms(self) -> list[float]:
        """How long each longer call of a function took since `watch_slow`, in milliseconds, in order."""
        found = cast("list[dict[str, Any]]", self.admin.slowlog_get(-1))
        calls = [one for one in found if one["command"].startswith(b"FCALL")]
        return [one["duration"] / 1000 for one in sorted(calls, key=lambda one: one["id"])]

    def waited_ms(self) -> float:
        """How long the server's main thread has waited for a core so far; 0 where the kernel does not say."""
        try:
            return int(Path(f"/proc/{self.server.pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e6
        except OSError:
            return 0.0

    def close(self) -> None:
        """Leave the server."""
        self.app.engine.site.close()
        self.admin.close()


@contextmanager
def fresh() -> Generator[Ground]:
    """A fresh server, gone afterwards."""
    with Server() as server:
        ground = Ground(server)
        try:
            yield ground
        finally:
            ground.close()


@contextmanager
def one_core(server: Server) -> Generator[None]:
    """Client and server share one core: the steadiest view of what a call costs both of them together (Linux)."""
    usual = os.sched_getaffinity(0)
    core = {min(usual)}
    os.sched_setaffinity(0, core)
    os.sched_setaffinity(server.pid, core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)
        os.sched_setaffinity(server.pid, usual)
