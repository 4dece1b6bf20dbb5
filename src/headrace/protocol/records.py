"""Records and counts of jobs, as the server keeps them (see `server/lua/shared/20_record.lua`)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import msgspec

_HEADER: Final = struct.Struct(">BB6s6sB")
_OPTIONS: Final = struct.Struct(">H")


@dataclass(slots=True)
class Record:
    """A job as it was enqueued: times in milliseconds, options by their letters, the payload undecoded."""

    priority: int
    queued: int
    generation: int
    lane: str
    payload: bytes
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def parse_record(raw: bytes) -> Record:
    """Read a record's header, options and payload."""
    flags, priority, queued, generation, length = _HEADER.unpack_from(raw)
    at = _HEADER.size + length
    lane = raw[_HEADER.size : at].decode() if length else ""
    options: dict[str, Any] = {}
    if flags & 1:
        (size,) = _OPTIONS.unpack_from(raw, at)
        options = cast("dict[str, Any]", msgspec.msgpack.decode(raw[at + 2 : at + 2 + size]))
        at += 2 + size
    return Record(priority, int.from_bytes(queued, "big"), int.from_bytes(generation, "big"), lane, raw[at:], options)


class Counts(NamedTuple):
    """How often a job was started and how its attempts ended; each bad end has a budget of its own."""

    attempts: int = 0
    failures: int = 0
    stalls: int = 0
    timeouts: int = 0


def parse_counts(raw: bytes | str) -> Counts:
    """Read "attempts failures stalls timeouts"; nothing stands for a first attempt."""
    if not raw:
        return Counts(1)
    a, f, s, o = raw.split()
    return Counts(int(a), int(f), int(s), int(o))
