"""Another process that waits for work: `python -m benchmarks.waiter URL lease|session`.

`lease`: for each line on its input it waits for one job, however long that takes, and answers with a line: its
monotonic and its wall clock at that moment, and the job's data. `session`: it waits as a worker does, with a session
and heartbeats, and never comes back. The end of its input is its end, whatever it is doing.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from benchmarks.load import QUEUE
from headrace import Headrace, clock
from headrace.protocol import keys
from headrace.protocol.claiming import MAX_WAIT, Want, claim
from headrace.protocol.sessions import Profile, heartbeat, open_session
from headrace.protocol.steps import Block, Channel, Steps

LEASE_MS, HEARTBEAT = 10_000, 3.0


class Waiter:
    """The process, as the one that measures it holds it."""

    def __init__(self, url: str, what: str = "lease") -> None:
        command = [sys.executable, "-m", "benchmarks.waiter", url, what]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line()

    def go(self) -> None:
        """Let it wait for its next job."""
        if self._process.stdin is not None:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()

    def found(self) -> tuple[float, float, float]:
        """When it got a job, by the monotonic and by the wall clock, and the job's data; blocks."""
        monotonic, wall, data = self._line().split()
        return float(monotonic), float(wall), float(data)

    def _line(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise AssertionError("the waiting process has ended")
        return line

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()


def _watch_input(orders: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)


def _leases(app: Headrace, orders: SimpleQueue[str]) -> None:
    queue = app.queue(QUEUE, keep_result=0)
    while True:
        orders.get()
        (job,) = queue.lease(30, wait=None)
        print(clock.monotonic(), clock.wall(), job.data, flush=True)
        job.complete()


def _session(app: Headrace) -> None:
    channel = Channel(secrets.token_urlsafe(12))
    site = app.engine.site
    site.run(open_session(channel, 0, Profile(LEASE_MS, [QUEUE])))

    def beat() -> None:
        never = threading.Event()
        while not never.wait(HEARTBEAT):
            site.run(heartbeat(channel.id, 0))

    def wait() -> Steps[Any]:
        want = Want(100, [QUEUE], wait_ms=int(MAX_WAIT * 1000), waiter=channel.id)
        grant = yield from claim(want, 0, channel)
        seconds = MAX_WAIT if grant.due_ms < 0 else min(MAX_WAIT, grant.due_ms / 1000)
        yield Block({0: keys.wake_list(site.namespace, 0, channel.id)}, seconds)

    threading.Thread(target=beat, daemon=True).start()
    while True:
        site.run(wait())


def main() -> None:
    """Say that it is there, then wait for orders."""
    orders: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_watch_input, args=(orders,), daemon=True).start()
    app = Headrace(sys.argv[1])
    print("ready", flush=True)
    if sys.argv[2] == "session":
        _session(app)
    _leases(app, orders)


if __name__ == "__main__":
    main()
