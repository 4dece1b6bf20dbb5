"""Settings at run time: lanes, rules, and what happens to many jobs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from headrace.protocol.steps import Call, Steps


def set_lane(path: str, settings: Mapping[str, Any], shards: Sequence[int]) -> Steps[None]:
    """Set up a queue, group or lane on each shard; see `lane.lua` for the letters."""
    packed = msgspec.msgpack.encode(settings)
    yield [Call("lane", shard, (path, packed), numbered=True) for shard in shards]


class Rule(NamedTuple):
    """A pause or a block: on what, by whom, why, and until when (0: until taken back)."""

    kind: str
    name: str
    which: str
    who: str = ""
    why: str = ""
    until_ms: int = 0


def set_rule(rule: Rule, on: bool, shards: Sequence[int]) -> Steps[bool]:
    """Set a rule or take it back; True when that changed anything."""
    args = (rule.kind, rule.name, rule.which, "set" if on else "clear", rule.who, rule.why, rule.until_ms)
    replies = cast("list[int]", (yield [Call("rules", shard, args, numbered=True) for shard in shards]))
    return any(replies)


def cancel(queue: str, ids: Sequence[str], running: bool, by: str, shard: int) -> Steps[str]:
    """Cancel jobs; a letter for each: w it waited, h its twin, m marked, b twin and mark, - nothing."""
    letters = ""
    while len(letters) < len(ids):
        args = (queue, int(running), by, *ids[len(letters) : len(letters) + 100])
        letters += cast("bytes", (yield Call("cancel", shard, args, numbered=True))).decode()
    return letters


def replay(queue: str, ids: Sequence[str] | None, what: str, shard: int, limit: int | None = None) -> Steps[int]:
    """Put dead letters back in line ("replay") or delete them ("drop"); without ids, all or the oldest `limit`."""
    done = at = 0
    if ids is not None:
        while at < len(ids):
            part = ids[at : at + 100]
            moved, left = yield from _replay(shard, (queue, what, 100, *part))
            done, at = done + moved, at + len(part) - left
        return done
    while limit is None or done < limit:
        n = 100 if limit is None else min(100, limit - done)
        moved, left = yield from _replay(shard, (queue, what, n))
        done += moved
        if moved < n and not left:
            break
    return done


def _replay(shard: int, args: tuple[str | int, ...]) -> Steps[list[int]]:
    """One call: how many were moved, and how many of those asked for are left over for the next call."""
    return cast("list[int]", (yield Call("replay", shard, args, numbered=True)))
