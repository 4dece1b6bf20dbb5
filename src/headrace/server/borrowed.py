"""From a client or pool that the caller made to an `Address`: its settings are copied, its connections left alone.

Accepted: clients of redis-py, synchronous or asynchronous, for one server, through Sentinels or of a cluster, and
their connection pools. Our connections stand beside theirs: they decode nothing, have no retries of redis-py, and
use the client's timeouts where it has any. The client stays its owner's, to use and to close.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.errors import OptionError
from headrace.server.address import Address
from headrace.server.endpoint import Endpoint, Kind

_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("UnixDomainSocketConnection", "unix"),
    ("SSLConnection", "tls"),
    ("Connection", "tcp"),
)


def address_of_client(client: object) -> Address:
    """The address that a client or pool talks to; raises OptionError for anything else."""
    if getattr(client, "nodes_manager", None) is not None:
        return _cluster(client)
    pool: Any = getattr(client, "connection_pool", client)
    kind = _kind(getattr(pool, "connection_class", None))
    if not isinstance(getattr(pool, "connection_kwargs", None), dict) or kind is None:
        raise OptionError(
            f"connection= takes a redis-py client or connection pool, not {type(client).__name__}: "
            "for anything else, pass its url"
        )
    settings = _settings(pool.connection_kwargs)
    if getattr(pool, "sentinel_manager", None) is not None:
        return _sentinel(pool, kind, settings)
    endpoint = Endpoint(kind, settings)
    return Address("single", [endpoint], endpoint)


def _cluster(client: Any) -> Address:
    # The asynchronous client keeps its settings itself, the synchronous one in its nodes manager.
    kwargs: dict[str, Any] = getattr(client, "connection_kwargs", None) or client.nodes_manager.connection_kwargs
    secure = bool(kwargs.get("ssl")) or _kind(kwargs.get("connection_class")) == "tls"
    way_in = Endpoint("tls" if secure else "tcp", _settings(kwargs))
    manager = client.nodes_manager
    nodes = list((manager.nodes_cache or manager.startup_nodes).values())
    if not nodes:
        raise OptionError("connection= is a cluster client that knows no node: give it startup nodes, or pass a url")
    return Address("cluster", [way_in.at(node.host, int(node.port)) for node in nodes], way_in)


def _sentinel(pool: Any, kind: Kind, settings: dict[str, Any]) -> Address:
    if not pool.is_master:
        raise OptionError("connection= leads to the replicas of a service: pass the client of its primary, master_for")
    seeds: list[Endpoint] = []
    for client in pool.sentinel_manager.sentinels:
        inner = client.connection_pool
        seeds.append(Endpoint(_kind(inner.connection_class) or "tcp", _settings(inner.connection_kwargs)))
    login = {k: v for k, v in seeds[0].settings.items() if k in {"username", "password"}} if seeds else {}
    return Address("sentinel", seeds, Endpoint(kind, settings), str(pool.service_name), login)


def _kind(connection_class: object) -> Kind | None:
    """By the names of the classes it is made of, so that asynchronous and Sentinel-managed ones are known too."""
    if not isinstance(connection_class, type):
        return None
    names = {base.__name__ for base in connection_class.__mro__}
    return next((kind for name, kind in _KINDS if name in names), None)


def _settings(kwargs: dict[str, Any]) -> dict[str, Any]:
    ocsp = sorted(k for k, v in kwargs.items() if "ocsp" in k and v)
    if ocsp:
        raise OptionError(f"connection= asks for {', '.join(ocsp)}, which Headrace's connections cannot check")
    return dict(kwargs)
