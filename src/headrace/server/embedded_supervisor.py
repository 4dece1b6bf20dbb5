"""Runs the embedded server for as long as its folder has a user. Started as a script, never imported.

    python -I -S embedded_supervisor.py STATUS_FD INSTANCE SOCKET PROGRAM ARGUMENT...      (cwd: the folder)

It uses nothing but small modules of the standard library, so that it starts in 10 ms and stays at 8 MB.
It never polls: one thread sleeps in `waitpid` of the server, another in `flock` of `users.lock`. Every user
holds that lock shared, and the kernel drops it however the user ends; so the exclusive lock is granted exactly
when the last user is gone, and no new one can be admitted until the server has stopped.

`server.lock` is inherited by the server: it stays held while either of the two lives, and says "occupied"
without trusting any pid. STATUS_FD is a pipe to the process that started us: a line on it says why we gave up.
"""

import _thread
import contextlib
import ctypes
import fcntl
import os
import select
import sys

SIGKILL, SIGTERM = 9, 15  # the module `signal` would cost 2 ms and 1 MB for two numbers
PR_SET_PDEATHSIG = 1
GRACE = 10.0  # seconds that a server gets to flush and go
unused = _thread.allocate_lock()  # taken once `users.lock` is ours
OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


def run_server(program: str, arguments: list[str], lock: int, parent: int) -> None:
    """In the forked child: becomes the server."""
    try:
        if sys.platform == "linux":  # should the supervisor be killed, the server goes too, gracefully
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
        os.set_inheritable(lock, True)
        os.execv(program, [program, *arguments])  # noqa: S606 - a shell would only stand in the way of signals
    except OSError as error:
        os.write(2, f"cannot run {program}: {error}\n".encode())
    finally:
        os._exit(127)


def stop_when_unused(server: int, users: int) -> None:
    """Sleeps until no process holds `users.lock`, then asks the server to flush and go."""
    fcntl.flock(users, fcntl.LOCK_EX)
    unused.acquire()
    os.kill(server, SIGTERM)
    select.select([], [], [], GRACE)  # waitpid in the main thread ends the process, and this wait with it
    os.kill(server, SIGKILL)


def tell(status: int, message: str) -> None:
    """One line to the process that started us; it may have stopped listening long ago."""
    with contextlib.suppress(OSError):
        os.write(status, message.encode() + b"\n")


def tidy(instance: str, socket: str) -> None:
    """Removes the socket and the record, unless there are users: theirs shall come back at the same place."""
    with contextlib.suppress(OSError):
        users = os.open("users.lock", OPEN, 0o600)  # the other thread may hold it: then the last user has left
        if not unused.locked():
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket)
        if os.path.isabs(socket):
            os.rmdir(os.path.dirname(socket))
        with open("server.json", encoding="utf-8") as record:
            ours = instance in record.read()
        if ours:
            os.unlink("server.json")


def main() -> None:
    """Leaves the caller's session, runs the server, waits for its end or for the last user's."""
    status, instance, socket, program = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    if os.fork():
        os._exit(0)  # the caller reaps this one at once, and never sees a zombie of ours
    os.setsid()  # Ctrl-C in the terminal of one user is not the business of the others
    os.umask(0o077)
    os.set_inheritable(status, False)
    lock = os.open("server.lock", OPEN, 0o600)
    users = os.open("users.lock", OPEN, 0o600)  # before there is a server: it must end even if the folder is removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        tell(status, "occupied")
        return
    parent = os.getpid()
    server = os.fork()
    if server == 0:
        run_server(program, sys.argv[5:], lock, parent)
    _thread.start_new_thread(stop_when_unused, (server, users))
    code = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
    tidy(instance, socket)
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    if code:
        os.write(2, f"the server ended with {how}\n".encode())
    tell(status, how)
    os._exit(0)  # releases both locks; the thread needs no farewell


if __name__ == "__main__":
    main()
