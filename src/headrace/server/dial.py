"""Opens connections with redis-py, and takes over the socket once the way in (TLS, password, database) is done.

redis-py's connection objects know every way into a server and are slow to talk through; talking is ours. The socket
is theirs by a private attribute, so this file is the only one that knows it, and a test fails should it ever change.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, cast

import redis.asyncio.connection as asyncio_redis
import redis.connection as redis
from redis import exceptions

from headrace.errors import HeadraceError, ServerUnavailable, ServerUnfit
from headrace.server.endpoint import Endpoint, Kind
from headrace.server.moves import Lost
from headrace.server.patience import foreign

_SYNC: Final[dict[Kind, Any]] = {
    "tcp": redis.Connection,
    "tls": redis.SSLConnection,
    "unix": redis.UnixDomainSocketConnection,
}
_ASYNC: Final[dict[Kind, Any]] = {
    "tcp": asyncio_redis.Connection,
    "tls": asyncio_redis.SSLConnection,
    "unix": asyncio_redis.UnixDomainSocketConnection,
}

#: What opening a connection raises when it does not work.
DIAL_ERRORS: Final = (exceptions.RedisError, OSError, ValueError)


def dial(endpoint: Endpoint) -> Any:
    """A connected and authenticated blocking socket."""
    connection = _SYNC[endpoint.kind](**_settings(endpoint))
    try:
        connection.connect()
        sock = connection._sock
        connection._sock = None
    except BaseException:
        connection.disconnect()
        raise
    return sock


async def adial(endpoint: Endpoint) -> tuple[asyncio.Transport, Any]:
    """A connected and authenticated asyncio transport, and what to hold on to while it is open."""
    connection = _ASYNC[endpoint.kind](**_settings(endpoint))
    try:
        await connection.connect()
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    writer = connection._writer
    connection._writer = connection._reader = None
    # A collected stream writer closes its transport: it lives as long as the line does.
    return cast("asyncio.Transport", writer.transport), writer


def not_connected(endpoint: Endpoint, error: Exception) -> Lost:
    """The answer of a move whose connection could not be opened: final when trying again cannot help."""
    return Lost(endpoint, error, False, _final(endpoint, error))


def _settings(endpoint: Endpoint) -> dict[str, Any]:
    timeouts = {"socket_timeout": endpoint.reply_timeout, "socket_connect_timeout": endpoint.connect_timeout}
    # Each retry policy, push message and greeting left out is a round trip and a surprise less.
    return endpoint.settings | timeouts | {"protocol": 2, "driver_info": None}


def _final(endpoint: Endpoint, error: Exception) -> HeadraceError | None:
    if isinstance(error, exceptions.AuthenticationError):
        return ServerUnfit(
            f"the server at {endpoint.where} refused the way in ({error}): check user and password of the URL"
        )
    if isinstance(error, exceptions.InvalidResponse):
        return foreign(endpoint, error)
    cause = error.__context__ or error
    if endpoint.kind == "tls" and isinstance(cause, ssl.SSLError | FileNotFoundError):
        return ServerUnavailable(
            f"no secure connection to {endpoint.where} ({cause}): check that the server speaks TLS, that its "
            "certificate names this host, and the certificates that the URL names (ssl_ca_certs and its like)"
        )
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        return None  # it may come back
    return ServerUnfit(f"the server at {endpoint.where} refused the connection: {error}")
