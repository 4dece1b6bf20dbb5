"""Booting: make the shards of a namespace, or find out how many there are."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, cast

from headrace.errors import OptionError
from headrace.protocol.names import MAX_SHARDS
from headrace.protocol.steps import Call, Steps
from headrace.protocol.texts import shown


@dataclass(frozen=True, slots=True)
class Ground:
    """What the server holds: its data format, the number of shards, each shard's epoch, and whether it was made now."""

    format: int
    shards: int
    epochs: tuple[str, ...]
    made: bool


def boot(shards: int | None) -> Steps[Ground]:
    """Initialise what is not there yet; None takes the number of shards that the server has (1 when new)."""
    if shards is not None and (type(shards) is not int or not 1 <= shards <= MAX_SHARDS):
        raise OptionError(f"shards={shown(shards)}: expected a whole number from 1 to {MAX_SHARDS}")
    first = cast("list[Any]", (yield Call("init", 0, (shards or 0, secrets.token_hex(8)), readonly=True)))
    format, count, epoch, made = int(first[0]), int(first[1]), first[2].decode(), bool(first[3])
    rest = [Call("init", i, (count, secrets.token_hex(8)), readonly=True) for i in range(1, count)]
    replies = cast("list[list[Any]]", (yield rest)) if rest else []
    epochs = (epoch, *(reply[2].decode() for reply in replies))
    return Ground(format, count, epochs, made or any(reply[3] for reply in replies))
