"""Starting the server of a folder, or finding that somebody else did."""

from __future__ import annotations

import fcntl
import os
import platform
import secrets
import select
import subprocess
from contextlib import suppress
from pathlib import Path

from headrace import clock
from headrace.errors import EmbeddedUnavailable
from headrace.server import embedded_program
from headrace.server.embedded_folder import Folder, Record, explained
from headrace.server.embedded_probe import Seen, look

SUPERVISOR = Path(__file__).with_name("embedded_supervisor.py")
FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.03


class Patience:
    """Short, growing pauses until the time is up; a pause ends early when `signal` becomes readable."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Somebody is seen at work: wait for them as long again."""
        self._until = clock.monotonic() + self.seconds
        self._pause = FIRST_PAUSE

    def wait(self, signal: int | None = None) -> bool:
        """One pause; False when the time is up."""
        if clock.monotonic() >= self._until:
            return False
        select.select([] if signal is None else [signal], [], [], self._pause)
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE)
        return True


def hold_users(folder: Folder, patience: Patience) -> int:
    """Becomes a user: an open file whose lock keeps the server alive. Waits while a server is stopping."""
    while (held := folder.lock("users.lock", fcntl.LOCK_SH)) is None:
        if not patience.wait():
            raise EmbeddedUnavailable(
                f"the embedded server in {folder.path} has been stopping for {patience.seconds:g} s. "
                f"Its log ends:{folder.log_tail()}"
            )
    return held


def find_or_start(folder: Folder, program: Path | None, patience: Patience) -> Seen:
    """The living server of the folder. Only for a user, so that what is found cannot stop meanwhile."""
    seen = look(folder)
    if seen and not seen.loading:
        return seen
    with _Starter(folder, program) as starter:
        while True:
            seen = look(folder)
            if seen and not seen.loading:
                return seen
            if seen:
                patience.renew()  # it says itself that it is reading its data
            else:
                starter.advance()
            if not patience.wait(starter.status):
                raise EmbeddedUnavailable(_too_late(folder, patience.seconds))


def _too_late(folder: Folder, seconds: float) -> str:
    record = folder.record()
    elsewhere = record is not None and record.host != platform.node()
    return (
        f"the embedded server in {folder.path} did not answer within {seconds:g} s"
        + (f"; it was started on the host {record.host}, and a folder serves one host" if record and elsewhere else "")
        + f". Its log ends:{folder.log_tail()}\nEnd that server, or set HEADRACE_URL to another one."
    )


class _Starter:
    """One attempt to start: becomes the only starter of the folder, then launches; neither ever waits."""

    def __init__(self, folder: Folder, program: Path | None) -> None:
        self._folder = folder
        self._program = program
        self._lock: int | None = None
        self._log_start = 0
        self.status: int | None = None
        """Readable when the supervisor has given up."""

    def __enter__(self) -> _Starter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            os.close(self.status)
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # also for a copy that a fork in another thread took along
            os.close(self._lock)

    def advance(self) -> None:
        """The next step towards a running server; raises when the one that was launched has ended."""
        if self._lock is None:
            self._lock = self._folder.lock("start.lock", fcntl.LOCK_EX)
            return  # look once more: the starter before us may just have finished
        if self.status is not None:
            self._check(self.status)
        elif not self._folder.occupied():
            self._launch()

    def _check(self, status: int) -> None:
        if not select.select([status], [], [], 0)[0]:
            return
        reason = os.read(status, 4096).decode().strip() or "its supervisor ended"
        if reason == "occupied":  # the one before us was not quite gone
            os.close(status)
            self.status = None
            return
        raise self._died(reason)

    def _died(self, reason: str) -> EmbeddedUnavailable:
        return EmbeddedUnavailable(
            f"the embedded server in {self._folder.path} did not start ({reason}). Its log "
            f"({self._folder.path / 'server.log'}) ends:{self._folder.log_tail(self._log_start)}\n"
            "Put right what it says, or set HEADRACE_URL to a server of yours."
        )

    def _launch(self) -> None:
        """Writes the record, then starts the supervisor, which leaves our process group and outlives us."""
        folder = self._folder
        program = self._program or embedded_program.find_program(folder.path)
        record = Record(secrets.token_hex(8), folder.choose_socket(), platform.node())
        folder.write_record(record)
        self._log_start = folder.log_size()
        log = folder.open_log()
        self.status, write = os.pipe()
        command = [embedded_program.interpreter(), "-I", "-S", str(SUPERVISOR)]
        command += [str(write), record.instance, record.socket, str(program)]
        command += embedded_program.arguments(record.socket, record.instance)
        try:
            with explained(folder.path):
                first = subprocess.Popen(
                    command, cwd=folder.path, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(write,)
                )
        finally:
            os.close(log)
            os.close(write)
        with suppress(ChildProcessError):  # it forks and ends at once; a SIGCHLD handler may have reaped it
            first.wait()
        if first.returncode:
            raise self._died(f"its supervisor ended with exit code {first.returncode}")
