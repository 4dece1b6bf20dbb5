"""Versions of the function library on a server: several live side by side, until no live session names them (E22)."""

from __future__ import annotations

from typing import Any, Final, cast

from headrace.protocol.sessions import live_sessions
from headrace.protocol.steps import Command, Steps

PREFIX: Final = "headrace_"


def _names(reply: list[Any]) -> list[str]:
    """The libraries of a FUNCTION LIST, whose entries are flat lists or maps with the protocol's version."""
    names: list[str] = []
    for entry in reply:
        pairs = cast(
            "dict[bytes, Any]", entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2], strict=True))
        )
        names.append(cast("bytes", pairs[b"library_name"]).decode())
    return names


def prune_libraries(current: str, shards: int) -> Steps[list[str]]:
    """Delete versions of the library that are not the current one and that no live session names.

    An older producer that still calls one of them loads it again by itself.
    """
    used = {current}
    for shard in range(shards):
        used |= {session.profile.info.get("library", "") for session in (yield from live_sessions(shard))}
    removed: list[str] = []
    for shard in range(shards):
        reply = cast("list[Any]", (yield Command(shard, ("FUNCTION", "LIST", "LIBRARYNAME", PREFIX + "*"))))
        for name in _names(reply):
            if name not in used:
                yield Command(shard, ("FUNCTION", "DELETE", name))
                removed.append(name)
    return removed
