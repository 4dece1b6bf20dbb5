"""An open site: the one thing that operations are run on, from any thread, any event loop, and after a fork."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakSet

from headrace.errors import ServerUnavailable
from headrace.protocol.steps import Steps
from headrace.server.async_transport import AsyncTransport
from headrace.server.delivery import HURRY, Courier, Mending
from headrace.server.fitness import Facts, epoch_of, weakest
from headrace.server.moves import Moves
from headrace.server.sync_transport import SyncTransport
from headrace.server.topology import Topology

R = TypeVar("R")

log = logging.getLogger("headrace")

_PROMISES: Final = {
    "memory": "in memory only: a server that stops loses all jobs",
    "everysec": "written to disk every second: a crash of the server loses at most the last second or so",
    "always": "written to disk before each answer",
    "unknown": "unknown: the server does not let us read its configuration",
}


class Site:
    """Where the server is and how to talk to it. Made by `open_site`; close it, or use it as a context manager."""

    def __init__(
        self, courier: Courier, transport: SyncTransport, facts: list[Facts], *, namespace: str, url: str, origin: str
    ) -> None:
        self._courier = courier
        self._sync = transport
        self._async = AsyncTransport()
        self._facts = facts
        self._origin = origin
        self._on_close: list[Callable[[], object]] = []
        self.namespace = namespace
        #: Leads another process to the same server, password included: not for logs; `where` is. May be empty
        #: when the way in is known to a credential provider only.
        self.url = url
        _sites.add(self)

    def __repr__(self) -> str:
        return f"<Site {self.where}>"

    @property
    def _topology(self) -> Topology:
        return self._courier.topology

    @property
    def where(self) -> str:
        """Engine, version and place, for people; no secrets."""
        nodes = self._topology.primaries()
        place = ", ".join(node.where for node in nodes[:3]) + (", ..." if len(nodes) > 3 else "")
        kind = f"a cluster of {len(nodes)} primaries: " if self.is_cluster else ""
        return f"{self._facts[0].engine} {self.server_version} at {kind}{place}{self._origin}"

    @property
    def durability(self) -> str:
        """What the store promises: memory, everysec, always or unknown, and "replicated(n)"; of several the weakest."""
        return weakest(self._facts)

    @property
    def server_version(self) -> str:
        """The version of the server (of a cluster's first node) when the site was opened."""
        return self._facts[0].version

    @property
    def is_cluster(self) -> bool:
        """Whether shards may live on several servers."""
        return self._topology.is_cluster

    @property
    def nodes(self) -> list[str]:
        """The places of all primaries, for people."""
        return [node.where for node in self._topology.primaries()]

    def shard_node(self, shard: int) -> str:
        """The place of the primary that serves a shard now, for people; "" while nobody does."""
        endpoint = self._topology.endpoint(shard)
        return endpoint.where if endpoint else ""

    def boot_line(self) -> str:
        """One line: where we are connected, and how durable that is."""
        disk, _, replicated = self.durability.partition(", ")
        promise = _PROMISES[disk] + ("; refused unless that many replicas keep up" if replicated else "")
        return f"connected to {self.where}; durability: {self.durability} ({promise})"

    def run(self, steps: Steps[R]) -> R:
        """Run an operation; blocks. From any thread."""
        return self._sync.run(self._open(steps))

    async def arun(self, steps: Steps[R]) -> R:
        """Run an operation on the running event loop."""
        return await self._async.run(self._open(steps))

    def mend_with(self, mending: Mending) -> None:
        """Have shards that lost their data or hold a stranger's keys mended by that; then the call goes on."""
        self._courier.mend_with(mending)

    def epoch_of_server(self, shard: int) -> str:
        """Identifies the data of a shard's server: changes when the server restarted, failed over or was swapped."""
        return self._sync.run(self._epoch(shard))

    async def aepoch_of_server(self, shard: int) -> str:
        """The same, on the running event loop."""
        return await self._async.run(self._epoch(shard))

    def on_close(self, action: Callable[[], object]) -> None:
        """Run that when the site is closed: an embedded server is left then."""
        self._on_close.append(action)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return bool(self._courier.closed)

    def check_open(self) -> None:
        """Raise the error of a site that was closed."""
        if self._courier.closed:
            raise ServerUnavailable(self._courier.closed)

    def close(self) -> None:
        """Close all connections; what still runs or waits on them ends with ServerUnavailable."""
        self._shut()
        self._sync.close()
        self._async.close()
        actions, self._on_close = self._on_close, []
        for action in actions:
            action()

    async def aclose(self) -> None:
        """Close all connections; those of the running event loop, and the waits on it, before this returns."""
        self._shut()
        try:
            await self._async.close_here(HURRY)
        finally:
            self.close()

    def _shut(self) -> None:
        if not self._courier.closed:
            self._courier.close(f"this connection to {self.where} has been closed: open a new one")

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Site:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _open(self, steps: Steps[R]) -> Moves[R]:
        if self._courier.closed:
            steps.close()
            self.check_open()
        return self._courier.operate(steps)

    def _epoch(self, shard: int) -> Moves[str]:
        return epoch_of((yield from self._courier.ask(shard, "INFO", "everything")))

    def start_over_after_fork(self) -> None:
        """In a forked child: no socket, lock or channel of the parent may be used, nor its server be stopped."""
        _inherited.append((self._async.abandon(), self._on_close))
        self._on_close = []
        self._sync.start_over()
        self._courier.forget_channels()


_sites: WeakSet[Site] = WeakSet()
_inherited: list[Any] = []


def _after_fork() -> None:
    for site in list(_sites):
        site.start_over_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
