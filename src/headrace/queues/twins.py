"""One operation, two names: `plain` runs its steps with blocking sockets, `twin` with awaits. No body twice."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from headrace.protocol.steps import Steps
from headrace.queues.engine import OnEngine

S = TypeVar("S", bound=OnEngine)
P = ParamSpec("P")
R = TypeVar("R")


def plain(operation: Callable[Concatenate[S, P], Steps[R]]) -> Callable[Concatenate[S, P], R]:
    """The synchronous method of an operation."""

    @wraps(operation)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.engine.run(operation(self, *args, **kwargs))

    _rename(method, operation.__name__.removeprefix("_"))
    return method


def twin(
    operation: Callable[Concatenate[S, P], Steps[R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The asynchronous method of an operation."""

    @wraps(operation)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.engine.arun(operation(self, *args, **kwargs))

    _rename(method, "a" + operation.__name__.removeprefix("_"))
    return method


def _rename(method: Callable[..., Any], name: str) -> None:
    method.__name__ = name
    method.__qualname__ = method.__qualname__.rsplit(".", 1)[0] + "." + name
