"""The whole public interface through its asynchronous twins, shown under the plain names.

A test is written once, with plain calls; on some places it runs through this, so that each operation is exercised
in both forms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar, cast

from headrace import Claim, Headrace, Job, Lane, Queue
from headrace.queues.lane import TaskRules

T = TypeVar("T")
_OBJECTS = (Headrace, Queue, Lane, TaskRules, Job, Claim)


class _Awaited:
    """Stands for one object: `x.name(...)` awaits `x.aname(...)` on a loop where there is such a twin."""

    def __init__(self, real: Any, loop: asyncio.Runner) -> None:
        self.__dict__.update(real=real, loop=loop)

    def __getattr__(self, name: str) -> Any:
        twin = getattr(self.real, "a" + name, None)
        if twin is None or name.startswith("_"):
            return self._shown(getattr(self.real, name))

        def call(*args: Any, **kwargs: Any) -> Any:
            made = twin(*map(plain, args), **kwargs)
            return self._shown(
                self.loop.run(_all(cast("AsyncIterator[Any]", made)) if isinstance(made, AsyncIterator) else made)
            )

        return call

    def __eq__(self, other: object) -> bool:
        return self.real == plain(other)

    def __hash__(self) -> int:
        return hash(self.real)

    def __repr__(self) -> str:
        return f"awaited {self.real!r}"

    def _shown(self, value: Any) -> Any:
        if isinstance(value, _OBJECTS):
            return _Awaited(value, self.loop)
        if isinstance(value, list):
            return [self._shown(item) for item in cast("list[Any]", value)]
        if callable(value) and getattr(value, "__self__", None) is self.real:
            return lambda *args, **kwargs: self._shown(value(*map(plain, args), **kwargs))  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType, reportUnknownArgumentType]
        return value


async def _all(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]


def plain(value: Any) -> Any:
    """The object itself, awaited or not; lists of them item by item."""
    if isinstance(value, list) and value and isinstance(value[0], _Awaited):
        return [plain(item) for item in cast("list[Any]", value)]
    return value.real if isinstance(value, _Awaited) else cast(Any, value)


def awaited(app: Headrace, loop: asyncio.Runner) -> Headrace:
    """The app with every operation awaited on `loop`."""
    return cast(Headrace, _Awaited(app, loop))
