"""Where each shard lives: one server, the primary that the Sentinels name, or the nodes of a cluster.

`refresh` is a generator of moves, so both transports find their way by the same text. What was found is swapped in
as a whole: other threads and loops see the old map or the new one.
"""

from __future__ import annotations

import random
from binascii import crc_hqx
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any, Final, Protocol, cast

from headrace.server.address import Address
from headrace.server.endpoint import Endpoint
from headrace.server.moves import Lost, Moves, Send, pack, trouble
from headrace.server.search import Trouble, trouble_of

SLOTS: Final = 16384


class Topology(Protocol):
    """Where the shards are. `version` grows with each change, so that many who failed at once look once."""

    version: int
    is_cluster: bool
    #: what the last search met at each address that did not lead on
    troubles: Mapping[str, Trouble]

    def endpoint(self, shard: int) -> Endpoint | None:
        """The primary of a shard, or None while nobody serves it."""
        ...

    def primaries(self) -> list[Endpoint]:
        """All primaries known."""
        ...

    def refresh(self, seen: int, failed: Endpoint | None = None) -> Moves[None]:
        """Look again, unless somebody has since `seen`; `failed` is asked last."""
        ...


class Single:
    """One server. `revive` starts it again, for one that is ours to start."""

    is_cluster = False

    def __init__(self, endpoint: Endpoint, revive: Callable[[], None] | None = None) -> None:
        self.version = 0
        self.troubles: Mapping[str, Trouble] = {}
        self._endpoint = endpoint
        self._revive = revive
        self._reviver: Thread | None = None

    def endpoint(self, shard: int) -> Endpoint | None:
        """The one server, for every shard."""
        return self._endpoint

    def primaries(self) -> list[Endpoint]:
        """The one server."""
        return [self._endpoint]

    def refresh(self, seen: int, failed: Endpoint | None = None) -> Moves[None]:
        """There is nowhere else to look; a server of ours is started again beside, while the caller goes on trying."""
        if failed and self._revive and not (self._reviver and self._reviver.is_alive()):
            self._reviver = Thread(target=self._revive, name="headrace-revive", daemon=True)
            self._reviver.start()
        yield from ()


class Sentinel:
    """The primary of a service, as its Sentinels name it."""

    is_cluster = False

    def __init__(self, address: Address) -> None:
        self.version = 0
        self.troubles: Mapping[str, Trouble] = {}
        self._service = address.service
        self._way_in = address.way_in
        self._sentinels = list(address.seeds)
        self._known: dict[tuple[str, int], Endpoint] = {}
        self._primary: Endpoint | None = None

    def endpoint(self, shard: int) -> Endpoint | None:
        """The primary, for every shard."""
        return self._primary

    def primaries(self) -> list[Endpoint]:
        """The primary, when a Sentinel has named it."""
        return [self._primary] if self._primary else []

    def refresh(self, seen: int, failed: Endpoint | None = None) -> Moves[None]:
        """Ask one Sentinel after the other; the first that answers is asked first the next time."""
        if self.version != seen:
            return
        met: dict[str, Trouble] = {}
        for sentinel in list(self._sentinels):
            reply = yield Send(sentinel, pack("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service))
            if trouble(reply) or not reply:
                unknown = Trouble(f"this Sentinel knows no service {self._service!r}", True)
                met[sentinel.where] = trouble_of(reply, "it is no Sentinel", unknown)
                continue
            place = (_text(reply[0]), int(reply[1]))
            if place not in self._known:
                self._known[place] = self._way_in.at(*place)
            if self._primary is not self._known[place]:
                self._primary = self._known[place]
                self.version += 1
            self.troubles = {}
            self._sentinels = [sentinel, *(s for s in self._sentinels if s is not sentinel)]
            return
        self.troubles = met


class Cluster:
    """The nodes of a cluster and their slots."""

    is_cluster = True

    def __init__(self, seeds: list[Endpoint], namespace: str) -> None:
        self.version = 0
        self.troubles: Mapping[str, Trouble] = {}
        self._namespace = namespace
        self._seeds = seeds
        self._known = {seed.place: seed for seed in seeds}
        self._slots: list[Endpoint | None] = [None] * SLOTS
        self._shards: dict[int, int] = {}

    def endpoint(self, shard: int) -> Endpoint | None:
        """The node that owns the slot of a shard."""
        slot = self._shards.get(shard)
        if slot is None:
            slot = self._shards[shard] = slot_of(self._namespace, shard)
        return self._slots[slot]

    def primaries(self) -> list[Endpoint]:
        """All nodes that own slots."""
        return list(dict.fromkeys(node for node in self._slots if node is not None))

    def refresh(self, seen: int, failed: Endpoint | None = None) -> Moves[None]:
        """Ask the nodes known, and then the seeds, for the map of slots, until one answers."""
        if self.version != seen:
            return
        known = self.primaries()
        random.shuffle(known)
        asked = [node for node in dict.fromkeys([*known, *self._seeds]) if node is not failed]
        met: dict[str, Trouble] = {}
        for node in [*asked, *([failed] if failed else [])]:
            reply = yield Send(node, pack("CLUSTER", "SLOTS"))
            if not isinstance(reply, Lost) and not trouble(reply) and reply:
                self._slots = self._read(reply, node)
                self.version += 1
                self.troubles = {}
                return
            no_slots = Trouble("its cluster has no slots assigned", False)
            met[node.where] = trouble_of(reply, "it is not in cluster mode", no_slots)
        self.troubles = met

    def _read(self, reply: Any, asked: Endpoint) -> list[Endpoint | None]:
        slots: list[Endpoint | None] = [None] * SLOTS
        for first, last, primary, *_ in cast("list[Any]", reply):
            # A node that does not know its own address leaves it out: it is where we asked.
            host = _text(primary[0] or b"")
            place = (host if host not in {"", "?"} else asked.place[0], int(primary[1]))
            if place not in self._known:
                self._known[place] = asked.at(*place)
            slots[int(first) : int(last) + 1] = [self._known[place]] * (int(last) - int(first) + 1)
        return slots


def slot_of(namespace: str, shard: int) -> int:
    """The hash slot of a shard's keys: that of their tag."""
    return crc_hqx(f"{namespace}:{shard}".encode(), 0) % SLOTS


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
