"""One server process to talk to: where it is and how to get in, with its secrets out of every text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

Kind = Literal["tcp", "tls", "unix"]

#: Seconds to wait for a connection, and for a reply, unless the URL or the client given says otherwise.
CONNECT_TIMEOUT: Final = 5.0
REPLY_TIMEOUT: Final = 10.0

#: Settings of redis-py's connections that say how to reach a server and get in; whatever else a pool holds
#: (decoding, retries, caches, health checks) is about reading replies, which we do ourselves.
WAY_IN: Final = frozenset(
    {"host", "port", "path", "db", "username", "password", "credential_provider", "client_name"}
    | {"socket_keepalive", "socket_keepalive_options", "socket_type"}
)


class Endpoint:
    """One server process. Compared by identity: `topology` makes one for each place."""

    __slots__ = ("connect_timeout", "kind", "reply_timeout", "settings", "where")

    def __init__(self, kind: Kind, settings: Mapping[str, Any]) -> None:
        self.kind: Kind = kind
        self.settings = {k: v for k, v in settings.items() if _used(kind, k) and v is not None}
        self.reply_timeout = float(settings.get("socket_timeout") or REPLY_TIMEOUT)
        self.connect_timeout = float(settings.get("socket_connect_timeout") or CONNECT_TIMEOUT)
        self.where = _where(kind, self.settings)

    def at(self, host: str, port: int) -> Endpoint:
        """The same way in, at another place: how nodes of a cluster or a new primary are reached."""
        timeouts = {"socket_timeout": self.reply_timeout, "socket_connect_timeout": self.connect_timeout}
        return Endpoint(self.kind, {**self.settings, **timeouts, "host": host, "port": port})

    @property
    def place(self) -> tuple[str, int]:
        """Host and port; a Unix socket has its path and port 0."""
        if self.kind == "unix":
            return str(self.settings["path"]), 0
        return str(self.settings.get("host", "localhost")), int(self.settings.get("port", 6379))

    def __repr__(self) -> str:
        return f"<Endpoint {self.where}>"


def _used(kind: Kind, name: str) -> bool:
    if name.startswith("ssl_"):
        return kind == "tls"
    if name in {"host", "port"} or name.startswith("socket_"):
        return kind != "unix" and name in WAY_IN
    if name == "path":
        return kind == "unix"
    return name in WAY_IN


def _where(kind: Kind, settings: Mapping[str, Any]) -> str:
    database = f" database {settings['db']}" if settings.get("db") else ""
    if kind == "unix":
        return f"unix socket {settings['path']}{database}"
    host = str(settings.get("host", "localhost"))
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{settings.get('port', 6379)}{database}{' (TLS)' if kind == 'tls' else ''}"
