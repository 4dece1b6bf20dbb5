"""Looks at a server before anything is built on it: is it new enough, will it keep our keys, how durable is it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, cast

from headrace.errors import ProtocolError, ServerUnfit
from headrace.server import refusals
from headrace.server.endpoint import Endpoint
from headrace.server.moves import Garbled, Lost, Moves, Pause, Refusal, Send, pack
from headrace.server.patience import Patience, foreign, unavailable
from headrace.server.refusals import Remedy
from headrace.server.search import hopeless, not_found
from headrace.server.topology import Single, Topology

_NEEDED: Final = {"Redis": (7, 0), "Valkey": (7, 2)}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says of itself."""

    engine: str
    version: str
    is_cluster: bool
    is_primary: bool
    eviction: str
    durability: str
    replicas: int = 0


def epoch_of(info: bytes) -> str:
    """From INFO; changes when the server lost or swapped its data: after a restart, a failover, a full resync."""
    fields = _fields(info)
    return f"{fields.get('run_id', '')}:{fields.get('master_replid', '')}"


def _look(endpoint: Endpoint, retry_for: float) -> Moves[Facts]:
    info = _fields((yield from _ask(endpoint, retry_for, "INFO", "everything")))
    if "redis_version" not in info:
        raise ProtocolError(f"the server at {endpoint.where} gave an INFO without a version")
    engine = "Valkey" if info.get("server_name") == "valkey" or "valkey_version" in info else "Redis"
    durability, replicas = yield from _durability(endpoint, info)
    return Facts(
        engine=engine,
        version=info.get("valkey_version", info["redis_version"]) if engine == "Valkey" else info["redis_version"],
        is_cluster=info.get("cluster_enabled") == "1",
        is_primary=info.get("role", "master") == "master",
        eviction=info.get("maxmemory_policy", "noeviction"),
        durability=durability,
        replicas=replicas,
    )


def examine(endpoint: Endpoint, retry_for: float) -> Moves[Facts]:
    """The facts of a server that is fit; raises ServerUnfit naming what to mend."""
    facts = yield from _look(endpoint, retry_for)
    who = f"the server at {endpoint.where} ({facts.engine} {facts.version})"
    if tuple(int(n) for n in re.findall(r"\d+", facts.version)[:2]) < _NEEDED[facts.engine]:
        raise ServerUnfit(f"{who} is too old: Redis 7.0 or Valkey 7.2 is needed")
    if facts.eviction != "noeviction":
        raise ServerUnfit(
            f"{who} may evict keys (maxmemory-policy {facts.eviction}), and jobs with them: "
            "run CONFIG SET maxmemory-policy noeviction, and set it in the server's configuration"
        )
    reply = yield Send(endpoint, pack("FUNCTION", "STATS"))
    # Who may not look at functions may still be allowed to call them: the first call tells.
    if isinstance(reply, Refusal) and refusals.code_of(reply.text) != "NOPERM":
        raise refusals.error_of(reply.text, endpoint.where, "FUNCTION")
    return facts


def survey(topology: Topology, retry_for: float) -> Moves[list[Facts]]:
    """Find all primaries and examine each."""
    patience = Patience(retry_for)
    while True:
        yield from topology.refresh(topology.version)
        found: list[Facts] = []
        for endpoint in topology.primaries():
            found.append((yield from examine(endpoint, retry_for)))
        if found and all(facts.is_primary or facts.is_cluster for facts in found):
            return found
        # A failover may be under way, but whoever gave one server's URL named the wrong one.
        lost = not found and hopeless(topology.troubles)
        pause = None if isinstance(topology, Single) or lost else patience.pause()
        if pause is None and found:
            raise ServerUnfit(
                f"the server at {topology.primaries()[0].where} is a replica and takes no writes: "
                "connect to its primary, or through its Sentinels"
            )
        if pause is None:
            raise not_found(topology.troubles, 0 if lost else retry_for)
        yield Pause(pause)


def weakest(facts: list[Facts]) -> str:
    """The durability that holds for every shard: the least durable server's, and the fewest replicas asked for."""
    order = ["unknown", "memory", "everysec", "always"]
    level = min((fact.durability for fact in facts), key=order.index)
    replicas = min(fact.replicas for fact in facts)
    return f"{level}, replicated({replicas})" if replicas else level


def _durability(endpoint: Endpoint, info: dict[str, str]) -> Moves[tuple[str, int]]:
    """How writes reach the disk, and how many replicas must keep up for the server to take them."""
    reply = yield Send(endpoint, pack("CONFIG", "GET", "appendfsync", "min-replicas-to-write"))
    if not isinstance(reply, list):
        return "memory" if info.get("aof_enabled") == "0" else "unknown", 0
    words = [word.decode() for word in cast("list[bytes]", reply)]
    config = dict(zip(words[::2], words[1::2], strict=True))
    replicas = int(config.get("min-replicas-to-write", "0"))
    if info.get("aof_enabled") != "1":
        return "memory", replicas
    # "no" leaves it to the operating system when to write: that promises no more than memory does.
    return {"always": "always", "everysec": "everysec"}.get(config.get("appendfsync", ""), "memory"), replicas


def _ask(endpoint: Endpoint, retry_for: float, *words: str) -> Moves[bytes]:
    patience = Patience(retry_for)
    while True:
        reply = yield Send(endpoint, pack(*words))
        if isinstance(reply, bytes):
            return reply
        if isinstance(reply, Lost) and (reply.final or not reply.sent):
            raise reply.final or unavailable(reply)  # nothing listens there: waiting would only hide it
        if isinstance(reply, Lost) and isinstance(reply.error, Garbled):
            raise foreign(endpoint, reply.error)
        pause = patience.pause()
        if isinstance(reply, Refusal) and (pause is None or refusals.remedy(reply.text) is Remedy.NONE):
            raise refusals.error_of(reply.text, endpoint.where, words[0])
        if isinstance(reply, Lost) and pause is None:
            raise unavailable(reply)
        yield Pause(pause or 0.0)


def _fields(info: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}
