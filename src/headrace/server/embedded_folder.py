"""The folder of an embedded server: its locks, its record, its log and the place of its socket.

    users.lock   held shared by every user, so the kernel counts them whatever becomes of them
    start.lock   held by the one who is starting the server
    server.lock  held while the server (or its supervisor) lives
    server.json  the record: which server we started last, and where it listens; proves nothing by itself
    server.log   what the server said
    server.sock  the socket, unless the folder's path is too long for one

The data (`appendonlydir/`) is the server's own business.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from headrace.errors import EmbeddedUnavailable

SOCKET_PATH_MAX = 100  # bytes; the kernel's limit is 108 on Linux and 104 on macOS, with the closing zero
LOG_MAX = 1 << 20


class Record(msgspec.Struct, frozen=True):
    """Which server was started last. `socket` is relative to the folder or, for long folders, absolute."""

    instance: str
    socket: str
    host: str


@contextmanager
def explained(folder: Path) -> Generator[None]:
    """Turns what the operating system refuses into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "The disk is full: free some space"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = "It is not writable: set HEADRACE_DIR to a folder that is"
        else:
            advice = "Set HEADRACE_DIR to a folder on a local disk"
        raise EmbeddedUnavailable(
            f"the embedded server cannot use the folder {folder}: {error.strerror or error} "
            f"({error.filename or folder}). {advice}, or set HEADRACE_URL to a server of yours."
        ) from error


class Folder:
    """The files of one embedded server, by name; its methods raise `EmbeddedUnavailable` only."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        with explained(self.path):
            with suppress(FileExistsError):
                self.path.mkdir(parents=True, mode=0o700)
                (self.path / ".gitignore").write_text("*\n")
            self.path = self.path.resolve(strict=True)

    def lock(self, name: str, operation: int) -> int | None:
        """Takes the lock without waiting: an open file that holds it, or None when somebody else's is in the way."""
        with explained(self.path):
            held = os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(held, operation | fcntl.LOCK_NB)
                # whoever cleared the folder meanwhile took the file, and what it locks, out of everybody's sight
                if self.has(held, name):
                    return held
            except BlockingIOError:
                pass
            except BaseException:
                os.close(held)
                raise
            os.close(held)
        return None

    def has(self, held: int, name: str) -> bool:
        """Whether an open file is still the one of that name in this folder."""
        try:
            return os.path.samestat(os.fstat(held), os.stat(self.path / name))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def occupied(self) -> bool:
        """Whether a server or its supervisor lives here, however silent. Only for the holder of `start.lock`."""
        held = self.lock("server.lock", fcntl.LOCK_EX)
        if held is None:
            return True
        # unlocked by name: a fork in another thread may have copied the descriptor
        fcntl.flock(held, fcntl.LOCK_UN)
        os.close(held)
        return False

    def record(self) -> Record | None:
        """The record, or None when there is none or it is damaged."""
        try:
            return msgspec.json.decode((self.path / "server.json").read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            return None

    def write_record(self, record: Record) -> None:
        """Replaces the record in one step."""
        fresh = self.path / "server.json.new"
        with explained(self.path):
            fresh.touch(mode=0o600)
            fresh.write_bytes(msgspec.json.encode(record))
            fresh.replace(self.path / "server.json")

    def address(self, record: Record) -> str:
        """The path of the socket as a client needs it."""
        return str(self.path / record.socket)

    def choose_socket(self) -> str:
        """Where the server shall listen: in the folder, else in a private directory with a short path."""
        if len(os.fsencode(self.path / "server.sock")) <= SOCKET_PATH_MAX and self._takes_sockets():
            return "server.sock"
        last = self.record()
        if last is not None and os.path.isabs(last.socket) and _is_private(Path(last.socket).parent):
            return last.socket  # clients of the server that died find the new one at the same place
        base = tempfile.gettempdir()
        with explained(self.path):
            short = tempfile.mkdtemp(prefix="headrace-", dir=base if len(os.fsencode(base)) < 60 else "/tmp")  # noqa: S108
        return f"{short}/server.sock"

    def _takes_sockets(self) -> bool:
        """Some file systems (of virtual machines, of networks) hold no sockets."""
        trial = self.path / f".{os.getpid()}"
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(trial))
        except OSError:
            return False
        finally:
            trial.unlink(missing_ok=True)
        return True

    def open_log(self) -> int:
        """The log, to append to; one old log is kept."""
        log = self.path / "server.log"
        with explained(self.path):
            if log.is_file() and log.stat().st_size > LOG_MAX:
                log.replace(self.path / "server.log.old")
            return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def log_size(self) -> int:
        """How much log there is, to tell what comes after."""
        return len(self._log())

    def log_tail(self, since: int = 0, lines: int = 6) -> str:
        """The last lines of the log, those after byte `since`."""
        text = self._log()[since:].decode(errors="replace").splitlines()
        return "\n  ".join(["", *text[-lines:]]) if text else " (it wrote nothing to its log)"

    def _log(self) -> bytes:
        try:
            return (self.path / "server.log").read_bytes()
        except OSError:
            return b""


def _is_private(directory: Path) -> bool:
    """A directory of ours alone; whatever else stands in a shared temporary directory is not to be trusted."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
