"""What an acknowledged enqueue survives at durability `always`: a kill of the server, and that the disk has it before.

A kill -9 shows that what was acknowledged had left the server's own memory, and that the log is read back whole. It
does not show what a power failure would leave: the kernel's memory outlives a killed process. For that, the second
test makes the sync to the disk slow, and sees that the answer waits for it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from headrace import Headrace
from tests.tools.processes import eventually
from tests.tools.servers import Server


def test_what_was_acknowledged_is_there_after_a_kill() -> None:
    """The server is killed three times among enqueues; each that returned is there, once, and none that did not."""
    acknowledged: list[str] = []
    over = threading.Event()

    def produce(name: str) -> None:
        with Headrace(server.url) as own:
            q = own.queue("q")
            n = 0
            while not over.is_set():
                job = q.enqueue(n, id=f"{name}{n}")
                assert job.outcome == "added"
                acknowledged.append(job.id)
                n += 1

    with Server(persistence="always") as server, Headrace(server.url, durability="always") as app:
        threads = [threading.Thread(target=produce, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for kill in range(3):
            eventually(lambda kill=kill: len(acknowledged) > 200 * (kill + 1), "jobs are acknowledged")
            server.kill()
            server.start()
        over.set()
        for thread in threads:
            thread.join()
        there = [claim.id for claim in app.queue("q").lease(60, n=10_000)]
        assert sorted(there) == sorted(acknowledged)
        assert app.audit() == []


SLOW = 0.3


@contextmanager
def slow_disk(server: Server) -> Generator[None]:
    """Each sync of the server's files takes longer by SLOW; where strace may do that."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    what = f"inject=fsync,fdatasync:delay_enter={round(SLOW * 1e6)}"
    command = [strace, "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", what, "-p", str(server.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    try:
        said = tracer.stderr.readline()
        if "attached" not in said:
            pytest.skip(f"strace may not trace here: {said}")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=10)


@pytest.mark.parametrize(("persistence", "waits"), [("always", True), ("everysec", False)])
def test_only_always_waits_for_the_disk_before_it_answers(persistence: str, waits: bool) -> None:
    with Server(persistence="always" if waits else "everysec") as server, Headrace(server.url) as app:
        assert app.durability == persistence
        q = app.queue("q")
        q.enqueue("before")
        with slow_disk(server):
            took: list[float] = []
            for n in range(4):
                started = time.monotonic()
                q.enqueue(n)
                took.append(time.monotonic() - started)
        assert (min(took) >= SLOW) == waits, took
