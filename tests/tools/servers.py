"""Launches real servers for tests: one, a cluster of them, or one with replica and Sentinels.

    with Server(password="pw", persistence="always") as server:
        server.client().set("k", 1)
        server.kill()
        server.restart()                # on the same data, at the same address

They listen on loopback and in directories of the run only, and end with it however it ends (see `processes`).
"""

from __future__ import annotations

import shutil
import signal
import ssl
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote

import redis
import trustme
from redis.backoff import NoBackoff
from redis.retry import Retry

from headrace.errors import EmbeddedUnavailable
from headrace.server.embedded_program import find_program
from tests.tools.processes import Port, ended, eventually, new_directory, spawn
from tests.tools.proxy import ChaosProxy

Flavour = Literal["valkey", "redis"]
Persistence = Literal["none", "everysec", "always"]
LOOPBACK = "127.0.0.1"


@cache
def program(flavour: Flavour) -> Path | None:
    """The server program of a flavour: the packaged Valkey, or the machine's own Redis; None when not installed."""
    if flavour == "redis":
        found = shutil.which("redis-server")
        return Path(found) if found else None
    try:
        found = find_program(new_directory("program"))
    except EmbeddedUnavailable:
        return None
    return found if found.name == "valkey-server" else None


def flavours() -> list[Flavour]:
    """What is installed, for tests that run on each."""
    known: tuple[Flavour, ...] = ("valkey", "redis")
    return [flavour for flavour in known if program(flavour)]


@cache
def certificates() -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context for loopback, and the file of the authority that a client has to trust."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    cast(Any, authority.issue_cert(LOOPBACK, "localhost")).configure_cert(context)
    trusted = new_directory("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    return context, trusted


class Process:
    """A server process with a directory, a port and a life that tests may disturb."""

    def __init__(self, name: str, flavour: Flavour, env: Mapping[str, str] | None = None) -> None:
        found = program(flavour)
        if found is None:
            raise RuntimeError(f"no server program of flavour {flavour!r} is installed")
        self.program = found
        self.directory = new_directory(name)
        self.env = dict(env or {})
        """More environment for the process: the place for `LD_PRELOAD=libfaketime` and its like."""
        self._ports = [Port()]
        self._process: Any = None

    @property
    def port(self) -> int:
        """The TCP port; the same over restarts."""
        return self._ports[0].number

    @property
    def pid(self) -> int:
        """The process as it runs now, or ran last."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there, paused or not."""
        return self._process is not None and not ended(self._process)

    def command(self) -> list[str]:
        """What to run, program and arguments."""
        raise NotImplementedError

    def admin(self) -> redis.Redis:
        """A client over the process's own Unix socket: no port, no TLS, no retry between."""
        return redis.Redis(
            unix_socket_path=str(self.directory / "admin.sock"), retry=Retry(NoBackoff(), 0), **self._login()
        )

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        for _ in range(5):
            self._process = spawn(self.command(), log=self.directory / "log", cwd=self.directory, env=self.env)
            with self.admin() as client:
                answers = eventually(lambda: self._state(client), f"{self.program.name} answers:\n{self.log()}", 30)
            if answers == "ready":
                return
            if "in use" not in self.log():
                break
            self._ports = [Port() for port in self._ports if not port.close()]  # a stranger took one
        raise AssertionError(f"{self.program.name} did not start:\n{self.log()}")

    def log(self) -> str:
        """The last lines of what the process said."""
        log = self.directory / "log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""

    def stop(self) -> None:
        """Ends the process in good order, writing out what it has to."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)
            if not ended(self._process, 10):
                self.kill()

    def kill(self) -> None:
        """SIGKILL: nothing is written any more."""
        if self.running:
            self._process.kill()
            ended(self._process, 10)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and nobody answers."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: goes on where it was paused."""
        self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Starts again on the same data at the same address, whether it was stopped, killed or still runs."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends the process and removes its directory and its claim on the port. Any number of times."""
        if self._process is not None:
            self.kill()
        for port in self._ports:
            port.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _login(self) -> dict[str, Any]:
        return {}

    def _state(self, client: Any) -> str:
        if not self.running:
            return "ended"
        try:
            client.ping()
        except redis.AuthenticationError:
            return "ready"
        except redis.RedisError:
            return ""
        return "ready"


class Server(Process):
    """One server, started at once. It stands alone unless `replica_of` says whose copy it is.

    `tls` puts an encrypting port in front of the plain one (the packaged Valkey has no TLS of its own); clients
    cannot tell. `acl` takes ACL users as `"alice on >secret ~* &* +@all"`; `config` any further setting.
    """

    def __init__(
        self,
        flavour: Flavour = "valkey",
        *,
        persistence: Persistence = "none",
        password: str | None = None,
        acl: Iterable[str] = (),
        tls: bool = False,
        replica_of: Server | None = None,
        maxmemory: str | None = None,
        config: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(flavour, flavour, env)
        self.password = password
        self._options = {"maxmemory-policy": "noeviction", "save": ""}
        if persistence != "none":
            self._options |= {"appendonly": "yes", "appendfsync": persistence}
        if password:
            self._options |= {"requirepass": password, "primaryauth" if flavour == "valkey" else "masterauth": password}
        if replica_of is not None:
            self._options["replicaof"] = f"{LOOPBACK} {replica_of.port}"
        if maxmemory:
            self._options["maxmemory"] = maxmemory
        self._options |= config or {}
        self._acl = list(acl)
        self._clients: list[redis.Redis] = []
        self._tls: ChaosProxy | None = None
        try:
            self.start()
            if tls:
                self._tls = ChaosProxy(self, tls=certificates()[0])
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server itself."""
        return LOOPBACK, self.port

    @property
    def url(self) -> str:
        """How a client reaches it, password and trust included."""
        return self.url_for()

    def url_for(self, user: str = "", password: str | None = None) -> str:
        """The URL for a user of the ACL, or for the default one."""
        secret = self.password if password is None else password
        login = f"{quote(user)}:{quote(secret, safe='')}@" if secret else ""
        if self._tls is not None:
            return f"rediss://{login}{LOOPBACK}:{self._tls.port}?ssl_ca_certs={quote(str(certificates()[1]))}"
        return f"redis://{login}{LOOPBACK}:{self.port}"

    @property
    def unix_url(self) -> str:
        """The same server through its Unix socket."""
        return f"unix://{self.directory / 'admin.sock'}" + (
            f"?password={quote(self.password)}" if self.password else ""
        )

    def client(self, **options: Any) -> redis.Redis:
        """A client that is closed with the server; retries nothing unless told to."""
        made: redis.Redis = cast(Any, redis.Redis).from_url(self.url, **{"retry": Retry(NoBackoff(), 0), **options})
        self._clients.append(made)
        return made

    def wait_for_replica(self) -> None:
        """Waits until a replica is in step."""
        with self.admin() as client:
            info = cast(Any, client).info
            eventually(lambda: info("replication").get("master_link_status") == "up", "the replica is in step", 30)

    def command(self) -> list[str]:
        """Program and settings."""
        always = {
            "port": str(self.port),
            "bind": LOOPBACK,
            "unixsocket": "admin.sock",
            "unixsocketperm": "700",
            "repl-diskless-sync-delay": "0",
        }
        words = [
            word for name, value in {**always, **self._options}.items() for word in (f"--{name}", *_split(name, value))
        ]
        return [str(self.program), *words, *(word for user in self._acl for word in ("--user", *user.split()))]

    def close(self) -> None:
        """Ends everything, clients too."""
        for client in self._clients:
            client.close()
        if self._tls is not None:
            self._tls.close()
        super().close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _login(self) -> dict[str, Any]:
        return {"password": self.password} if self.password else {}


def _split(name: str, value: str) -> list[str]:
    """A setting's value as arguments: some have several, and an empty one is still one."""
    return value.split() if name in ("replicaof", "client-output-buffer-limit") else [value]
