"""Runs Python in a process of its own, to be killed by a test or by itself at a crash point."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType

from headrace.server.crashpoint import VARIABLE
from tests.tools.processes import new_directory, spawn

ROOT = Path(__file__).resolve().parents[2]


def python_env(**more: str) -> dict[str, str]:
    """The environment in which a child sees the package and the test tools, installed or not."""
    return {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **more}


class Child:
    """A Python program that tells the test, line by line on a pipe, how far it is: `tell("...")` in its code.

    with Child("tell('ready'); wait()") as child:     # `wait()` returns when the test calls `go()`
        assert child.says() == "ready"
        child.kill()
    """

    PREAMBLE = (
        "import os, sys\n"
        "def tell(*words): os.write({out}, (' '.join(map(str, words)) + '\\n').encode())\n"
        "def wait(): os.read({into}, 1)\n"
    )

    def __init__(self, code: str, *, crash_at: str | None = None, cwd: Path | None = None, **env: str) -> None:
        read, out = os.pipe()
        into, self._go = os.pipe()
        self._said = os.fdopen(read, encoding="utf-8")
        self.log = new_directory("child") / "log"
        if crash_at is not None:
            env[VARIABLE] = crash_at
        program = self.PREAMBLE.format(out=out, into=into) + code
        self.process = spawn(
            [sys.executable, "-c", program], log=self.log, cwd=cwd, env=python_env(**env), pass_fds=(out, into)
        )
        os.close(out)
        os.close(into)

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def says(self, within: float = 30) -> str:
        """The next line it tells; fails with its output when it ends, or takes longer than `within`, instead."""
        timer = threading.Timer(within, self.process.kill)
        timer.start()
        line = self._said.readline().strip()
        timer.cancel()
        assert line, f"the child said nothing more (exit code {self.process.wait()}):\n{self.output()}"
        return line

    def go(self) -> None:
        """Lets one `wait()` return."""
        os.write(self._go, b".")

    def kill(self) -> None:
        """SIGKILL, and its end awaited."""
        self.process.kill()
        self.process.wait()

    def ends(self, within: float = 30) -> int:
        """Its exit code (minus the signal), awaited."""
        return self.process.wait(within)

    def crashed(self, within: float = 30) -> bool:
        """Whether it ended by SIGKILL, as at a crash point."""
        return self.ends(within) == -signal.SIGKILL

    def output(self) -> str:
        """What it wrote to stdout and stderr."""
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        """Ends it if it still runs."""
        if self.process.poll() is None:
            self.kill()
        self._said.close()
        os.close(self._go)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
        if error is not None and self.output():
            error.add_note(f"the child process wrote:\n{self.output()}")


def said_with_seeds(code: str) -> set[str]:
    """What a program says first, in processes whose sets and dicts have other orders."""
    said: set[str] = set()
    for seed in ("1", "2", "3"):
        with Child(code, PYTHONHASHSEED=seed) as child:
            said.add(child.says())
            assert child.ends() == 0
    return said
