"""Names of keys: built here and nowhere else in Python. All keys of a shard share one hash tag.

The Lua library builds the others from the same tag; `server/lua/shared` lists them file by file.
"""

from __future__ import annotations


def tag(namespace: str, shard: int) -> str:
    """What every key of a shard starts with."""
    return "{" + namespace + ":" + str(shard) + "}"


def meta(namespace: str, shard: int) -> str:
    """The one declared key of each call: format, shard count and epoch of the shard, made only by `init`."""
    return tag(namespace, shard) + "meta"


def wake_list(namespace: str, shard: int, waiter: str) -> str:
    """The list on which one waiter blocks; a token in it says "look again"."""
    return tag(namespace, shard) + "wl:" + waiter


def done_channel(namespace: str, shard: int, queue: str, id: str) -> str:
    """The pub/sub channel on which the end of a watched job is published."""
    return tag(namespace, shard) + "done:" + queue + "/" + id


def history(namespace: str, shard: int) -> str:
    """The stream of history events."""
    return tag(namespace, shard) + "hist"
