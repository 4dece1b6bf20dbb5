"""All keys of a shard, read at one moment and made readable."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.tools.luapack import unpack
from tests.tools.shard import Shard, text

HEADER = struct.Struct(">BB6s6sB")
CLAIM = 27
COMMON = ("session", "path", "started", "deadline", "kind", "group", "units", "uncapped")
OWN = struct.Struct(">dI6s6sI")


@dataclass(slots=True)
class Record:
    """A job's record, taken apart."""

    prio: int
    queued: int
    gen: int
    lane: str
    options: dict[str, Any]
    payload: str


def record(blob: bytes) -> Record:
    """Reads the header, the options, and the payload behind its codec byte."""
    flags, prio, queued, gen, lane_size = HEADER.unpack_from(blob)
    at = HEADER.size + lane_size
    lane = text(blob[HEADER.size : at])
    options: dict[str, Any] = {}
    if flags:
        size = int.from_bytes(blob[at : at + 2], "big")
        options = unpack(blob[at + 2 : at + 2 + size])
        at += 2 + size
    return Record(prio, int.from_bytes(queued, "big"), int.from_bytes(gen, "big"), lane, options, text(blob[at + 1 :]))


def run(blob: bytes) -> dict[str, Any]:
    """Reads the entry of a run: the claim, what a turn has in common, the job's own numbers."""
    size = int.from_bytes(blob[CLAIM : CLAIM + 2], "big")
    at = CLAIM + 2 + size
    score, attempt, _, gen, _ = OWN.unpack_from(blob, at)
    common: dict[str, Any] = dict(zip(COMMON, _common(blob[CLAIM + 2 : at]), strict=True))
    return common | {"claim": text(blob[:CLAIM]), "score": score, "attempt": attempt, "gen": int.from_bytes(gen, "big")}


def _common(blob: bytes) -> tuple[Any, ...]:
    session, rest = text(blob[1 : 1 + blob[0]]), blob[1 + blob[0] :]
    size = 2 + int.from_bytes(rest[:2], "big")
    started, deadline, kind, group, units, uncapped = struct.unpack(">6s6scBI6s", rest[size:])
    times = [int.from_bytes(time, "big") for time in (started, deadline)]
    version = int.from_bytes(uncapped, "big", signed=True)
    return session, text(rest[2:size]), *times, text(kind).strip("-"), group, units, version


def events(blob: bytes) -> Iterator[tuple[str, str, int]]:
    """Reads the events of one call: kind, job, attempt."""
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return blob[at - size : at]

    while at < len(blob):
        kind = text(take(1))
        key = text(take(int.from_bytes(take(2), "big")))
        entry = run(take(int.from_bytes(take(2), "big")))
        take(10)
        take(take(1)[0])
        yield kind, key, entry["attempt"]


class State:
    """The keys by kind and name. Hashes map names to bytes, sets are sets, sorted sets map members to scores."""

    def __init__(self, shard: Shard) -> None:
        self.now = shard.now
        self.strings: dict[str, bytes] = {}
        self.hashes: dict[str, dict[str, bytes]] = {}
        self.sets: dict[str, set[str]] = {}
        self.zsets: dict[str, dict[str, float]] = {}
        self.history: list[Any] = []
        for name, kind, content in shard.dump():
            self._read(text(name), text(kind), content)
        self.records = {
            f"{name[2:]}/{id}": record(blob)
            for name, jobs in self.hashes.items()
            if name.startswith("j:")
            for id, blob in jobs.items()
        }
        self.runs = {key: run(blob) for key, blob in self.hash("run").items()}

    def _read(self, name: str, kind: str, content: Any) -> None:
        if kind == "string":
            self.strings[name] = content
        elif kind == "hash":
            self.hashes[name] = {text(content[i]): content[i + 1] for i in range(0, len(content), 2)}
        elif kind == "set":
            self.sets[name] = {text(member) for member in content}
        elif kind == "zset":
            self.zsets[name] = {text(content[i]): float(content[i + 1]) for i in range(0, len(content), 2)}
        elif kind == "stream":
            self.history = content

    def hash(self, name: str) -> dict[str, bytes]:
        """A hash, empty when there is none."""
        return self.hashes.get(name, {})

    def set(self, name: str) -> set[str]:
        """A set, empty when there is none."""
        return self.sets.get(name, set())

    def zset(self, name: str) -> dict[str, float]:
        """A sorted set in its order, empty when there is none."""
        return self.zsets.get(name, {})

    def named(self, prefix: str, kind: str) -> dict[str, Any]:
        """All keys of a kind (hashes, sets, zsets, strings) whose name starts so: {rest of the name: content}."""
        found: dict[str, Any] = getattr(self, kind)
        return {name[len(prefix) :]: content for name, content in found.items() if name.startswith(prefix)}

    def number(self, path: str, field: str, otherwise: int = 0) -> int:
        """A number in a node's hash."""
        return int(self.hash("n:" + path).get(field, otherwise))


def node_settings(state: State, path: str) -> dict[str, Any]:
    """The settings of a node by their short names, rules included."""
    packed = state.hash("n:" + path).get("s")
    return unpack(packed) if packed else {}
