"""The embedded server: a real Valkey for a folder, shared by all processes that ask for it.

The first who comes starts it, in a session of its own; others join; it stops when the last one has left or died.
The locks in `embedded_folder` decide who is what, `embedded_start` finds or starts, `embedded_supervisor` watches.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

from headrace.errors import EmbeddedUnavailable
from headrace.server.embedded_folder import Folder
from headrace.server.embedded_start import Patience, find_or_start, hold_users

START_WITHIN = 15.0

log: Final = logging.getLogger("headrace")


class Embedded:
    """This process's share in the embedded server of a folder; the server runs while anybody has one.

    A forked child inherits the share, so the server outlives the parent for it; it may `close` its copy.
    """

    def __init__(self, folder: Folder, program: Path | None, timeout: float) -> None:
        self._folder = folder
        self._program = program
        self._timeout = timeout
        self._warned = False
        self._share: int | None = hold_users(folder, Patience(timeout))
        try:
            self.ensure()
        except BaseException:
            self.close()
            raise

    url: str
    """`unix://` and the path of the socket."""
    pid: int
    """The server's process, when it was last looked at."""

    @property
    def folder(self) -> Path:
        """Where the data lies."""
        return self._folder.path

    @property
    def closed(self) -> bool:
        """Whether this process has left."""
        return self._share is None

    def ensure(self) -> None:
        """Finds the server alive, or starts it anew on the same data; to be called when it stopped answering."""
        if self._share is None:
            raise EmbeddedUnavailable(
                f"this share in the embedded server of {self.folder} is closed. Call start_or_join() for a new one."
            )
        self._warn_when_removed(self._share)
        seen = find_or_start(self._folder, self._program, Patience(self._timeout))
        self.url, self.pid = "unix://" + quote(seen.address), seen.pid

    def close(self) -> None:
        """Leaves; when nobody else is left, the server writes out its data and stops. Any number of times."""
        share, self._share = self._share, None
        if share is not None:
            self._warn_when_removed(share)
            os.close(share)  # never LOCK_UN: that would also take the share of forked children

    def _warn_when_removed(self, share: int) -> None:
        """One line, once: our server listens where nobody finds it any more, and what it writes is gone with it."""
        if not self._warned and not self._folder.has(share, "users.lock"):
            self._warned = True
            log.error(
                "the folder %s was removed or replaced while this process used its embedded server: the jobs on that "
                "server are seen by no other process, and are gone when it stops. End all processes that use the "
                "folder before you remove it",
                self.folder,
            )

    def __enter__(self) -> Embedded:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_or_join(folder: Path, *, program: Path | None = None, timeout: float = START_WITHIN) -> Embedded:
    """Joins the server of `folder`, starting it when there is none; raises `EmbeddedUnavailable` when that fails.

    `program` is the server program to start, found by itself when not given. `timeout` bounds every wait but
    that for a server that says it is reading its data.
    """
    return Embedded(Folder(folder), program, timeout)
