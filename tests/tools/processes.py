"""Processes and directories that cannot outlive the test run, however it ends.

The kernel kills a process started here together with its parent; a `sh` that waits for the end of a pipe removes
the directory of the run. Neither needs this process to be alive when it matters.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from headrace import clock

# Run in the new process before it becomes the program: 1 is PR_SET_PDEATHSIG, 9 is SIGKILL. A `preexec_fn` would
# do the same in a fork of this process, which is unsafe (and from Python 3.12 on a warning) once it has threads.
DIE_WITH_PARENT = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    os.getppid() == int(sys.argv[1]) or os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
_running: dict[int, subprocess.Popen[bytes]] = {}
# The kernel takes the end of the *thread* that forked for the parent's death, so one thread that stays does it all.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a process that dies with this one; its output is appended to `log`."""
    shim = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid())]

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                [*shim, *command],
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
            )

    process = _spawner.submit(start).result()
    _running[process.pid] = process
    return process


def ended(process: subprocess.Popen[bytes], within: float | None = None) -> bool:
    """Whether the process has ended, waiting for it `within` seconds when given."""
    try:
        process.wait(within if within is not None else 0)
    except subprocess.TimeoutExpired:
        return False
    _running.pop(process.pid, None)
    return True


def left_running() -> list[str]:
    """What was spawned and still runs: `pid command`. Empty at the end of every well-behaved run."""
    return [
        f"{pid} {cast(list[str], process.args)[6:]}" for pid, process in list(_running.items()) if not ended(process)
    ]


def end_all() -> None:
    """Kills everything that was spawned and still runs."""
    for process in list(_running.values()):
        process.kill()
        ended(process, 10)


def alive(pid: int) -> bool:
    """Whether a process of this id exists and is not merely waiting to be reaped."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        if sys.platform == "linux":
            return False
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
        return bool(found.stdout.strip()) and not found.stdout.startswith("Z")
    return "\nState:\tZ" not in status


def eventually(true: Callable[[], Any], what: str, within: float = 10.0) -> Any:
    """Waits until `true()` is truthy and returns that; pauses grow from 1 to 20 ms. Fails naming `what`."""
    until, pause = clock.monotonic() + within, 0.001
    never = threading.Event()
    while True:
        found = true()
        if found:
            return found
        if clock.monotonic() > until:
            raise AssertionError(f"not within {within:g} s: {what}")
        never.wait(pause)
        pause = min(pause * 1.5, 0.02)


class _Scratch:
    """The directory of this run, removed by a process that waits for our end."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.path = Path(tempfile.mkdtemp(prefix="headrace-test-"))
        # In a session of its own: Ctrl-C must not end it before us. It exits when our end of the pipe closes.
        self._remover = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; rm -rf -- "$0"', str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._remover.communicate()


_scratch: _Scratch | None = None


def new_directory(name: str) -> Path:
    """A new empty directory that is gone after the run; its path is short enough for sockets."""
    global _scratch  # noqa: PLW0603 - one per process, made at first use
    if _scratch is None or _scratch.pid != os.getpid():
        _scratch = _Scratch()
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_scratch.path))


def remove_directories() -> None:
    """Removes every directory of this run."""
    global _scratch  # noqa: PLW0603
    if _scratch is not None and _scratch.pid == os.getpid():
        _scratch.remove()
        _scratch = None


class Port:
    """A free TCP port on loopback that no other test process takes while this object is open.

    Below the range that the kernel gives to outgoing connections, so that none of those lands on it.
    The claim is an abstract socket (Linux): other test processes see it, and it goes with its process.
    """

    def __init__(self) -> None:
        while True:
            self.number = random.randrange(20_000, 32_000)
            self._claim = socket.socket(socket.AF_UNIX)
            try:
                if sys.platform == "linux":
                    self._claim.bind(f"\0headrace-test-port-{self.number}")
                with socket.socket() as trial:
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    trial.bind(("127.0.0.1", self.number))
                return
            except OSError:
                self._claim.close()

    def close(self) -> None:
        """Gives the port back."""
        self._claim.close()
