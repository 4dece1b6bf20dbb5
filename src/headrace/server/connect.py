"""From a URL, a client of the caller or nothing at all to an open `Site`: finds the server and examines it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError, OptionError
from headrace.server.address import Address, address_of
from headrace.server.borrowed import address_of_client
from headrace.server.delivery import Courier, FunctionLibrary
from headrace.server.fitness import Facts, survey
from headrace.server.site import Site, log
from headrace.server.sync_transport import SyncTransport
from headrace.server.topology import Cluster, Sentinel, Single, Topology

if TYPE_CHECKING:
    from headrace.server.embedded import Embedded

__all__ = ["Site", "open_site"]

#: Seconds that a call may take while connections break, servers load or fail over.
RETRY_FOR: Final = 20.0
ENVIRONMENT: Final = "HEADRACE_URL"


@dataclass(slots=True)
class _Found:
    """Where to connect, and how to start the server again when it is ours."""

    address: Address
    url: str
    origin: str = ""
    revive: Callable[[], None] | None = None


def open_site(
    url: str | None = None,
    *,
    connection: object | None = None,
    namespace: str = "hr",
    folder: Path | None = None,
    test_clock: bool = False,
    retry_for: float = RETRY_FOR,
    functions: FunctionLibrary | None = None,
) -> Site:
    """Connect to a server, examine it, and say in the log where that is and how durable.

    Without `url` and `connection`: an embedded server in `folder`, else the environment's HEADRACE_URL, else an
    embedded server in HEADRACE_DIR. Raises InvalidInput for a URL that cannot be read, ServerUnavailable when nothing
    answers there, ServerUnfit when the server is too old, may evict keys or refuses our commands.
    """
    _check_ways_in(url, connection, folder)
    if url is None and connection is None and folder is None:
        url = _environment()
    if connection is not None:
        address = address_of_client(connection)
        return _open(_Found(address, address.url), namespace, _functions(functions, test_clock), retry_for)
    if url is not None:
        return _open(_Found(address_of(url), url), namespace, _functions(functions, test_clock), retry_for)
    return _open_embedded(folder, namespace, _functions(functions, test_clock), retry_for)


def _check_ways_in(url: str | None, connection: object | None, folder: Path | None) -> None:
    """One way in at most: none of them may lose without a word."""
    if url is not None and connection is not None:
        raise OptionError("give url or connection=, not both")
    if folder is not None and (url is not None or connection is not None):
        other = "url" if url is not None else "connection="
        raise OptionError(f"give {other} or folder=, not both: folder= is for an embedded server")
    if url is not None and not url.strip():
        raise OptionError(
            f"url={url!r} names no server: give one, as in redis://localhost:6379/0, or leave url out (None) for "
            f"what {ENVIRONMENT} names, else an embedded server"
        )


def _environment() -> str | None:
    url = os.environ.get(ENVIRONMENT)
    if url is not None and not url.strip():
        raise OptionError(
            f"the environment variable {ENVIRONMENT} is set and empty: unset it for an embedded server, or let it "
            "name a server, as in redis://localhost:6379/0"
        )
    return url


def _functions(given: FunctionLibrary | None, test_clock: bool) -> FunctionLibrary:
    if given is not None:
        return given
    from headrace.server.library import library

    return library(test_clock)


def _open_embedded(folder: Path | None, namespace: str, functions: FunctionLibrary, retry_for: float) -> Site:
    from headrace.server.embedded import start_or_join

    embedded = start_or_join(folder or Path(os.environ.get("HEADRACE_DIR") or ".headrace"))
    try:
        found = _Found(address_of(embedded.url), embedded.url, ", embedded", partial(_revive, embedded))
        site = _open(found, namespace, functions, retry_for)
    except HeadraceError:
        embedded.close()
        raise
    site.on_close(embedded.close)
    return site


def _revive(embedded: Embedded) -> None:
    if embedded.closed:
        return
    try:
        embedded.ensure()
    except HeadraceError as error:
        if not embedded.closed:  # whoever has left meanwhile need not know
            log.error("%s", error)


def _open(found: _Found, namespace: str, functions: FunctionLibrary, retry_for: float) -> Site:
    transport = SyncTransport()
    try:
        topology, facts = _find(found, namespace, transport, retry_for)
    except BaseException:
        transport.close()
        raise
    courier = Courier(topology, functions, namespace, retry_for)
    site = Site(courier, transport, facts, namespace=namespace, url=found.url, origin=found.origin)
    # What may be lost at any moment is worth a line that shows without any set-up of logging.
    log.log(logging.WARNING if site.durability.startswith("memory") else logging.INFO, "%s", site.boot_line())
    return site


def _find(found: _Found, namespace: str, transport: SyncTransport, retry_for: float) -> tuple[Topology, list[Facts]]:
    address = found.address
    topology: Topology
    if address.shape == "cluster":
        topology = Cluster(address.seeds, namespace)
    elif address.shape == "sentinel":
        topology = Sentinel(address)
    else:
        topology = Single(address.way_in, found.revive)
    facts = transport.run(survey(topology, retry_for))
    if facts[0].is_cluster and not topology.is_cluster:
        # A plain URL of one node: the others are found through it.
        topology = Cluster([address.way_in], namespace)
        facts = transport.run(survey(topology, retry_for))
    return topology, facts
