"""Names of keys: built here and nowhere else. All keys of a shard share one hash tag."""

from __future__ import annotations


def meta(namespace: str, shard: int) -> str:
    """The one declared key of each call: format, shard count and epoch of the shard, made only by `init`."""
    return "{" + namespace + ":" + str(shard) + "}meta"
