"""Checks of what is given as many: one value taken for many, and lists that do not fit, are seen before any call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import Any, cast

from headrace.errors import InvalidInput
from headrace.protocol.names import check_id
from headrace.protocol.texts import shown


def check_many(data: object, ids: object, queue: str) -> None:
    """Data and ids of `enqueue_many`: iterables, and of one length where they have one."""
    given: list[tuple[str, object]] = [("data", data), ("ids", ids if ids is not None else ())]
    for name, value in given:
        if _single(value) or not _iterable(value):
            raise InvalidInput(
                f"enqueue_many into {queue!r}: {name} is a {type(value).__name__}, expected a list or other iterable "
                "with a value for each job; enqueue() adds a single one"
            )
    if isinstance(data, Sized) and isinstance(ids, Sized) and len(data) != len(ids):
        more = "more jobs than ids" if len(data) > len(ids) else "more ids than jobs"
        n, m = max(len(data), len(ids)), min(len(data), len(ids))
        raise InvalidInput(f"enqueue_many into {queue!r}: there are {more}: {n} and {m}; nothing was sent")


def listed(value: Any, name: str, of: str) -> list[Any]:
    """A list of what was given: any iterable, but no text or mapping."""
    if _single(value) or not _iterable(value):
        raise InvalidInput(f"{name}={shown(value)}: expected a list of {of}")
    return list(cast("Iterable[Any]", value))


def listed_ids(value: object) -> list[str]:
    """Ids of jobs."""
    return [check_id(id) for id in listed(value, "ids", "ids")]


def _single(value: object) -> bool:
    """Whether it would be gone through by its letters, bytes or keys."""
    return isinstance(value, str | bytes | bytearray | memoryview | Mapping)


def _iterable(value: object) -> bool:
    try:
        iter(cast("Iterable[object]", value))
    except TypeError:
        return False
    return True
