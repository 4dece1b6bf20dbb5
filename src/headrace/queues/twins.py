"""One operation, two names: `plain` runs its steps with blocking sockets, `twin` with awaits. No body twice."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from headrace.protocol.steps import Steps
from headrace.queues.engine import OnEngine

S = TypeVar("S", bound=OnEngine)
P = ParamSpec("P")
R = TypeVar("R")


def plain(operation: Callable[Concatenate[S, P], Steps[R]]) -> Callable[Concatenate[S, P], R]:
    """The synchronous method of an operation."""
    named = _named(operation, "")

    @wraps(named)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.engine.run(named(self, *args, **kwargs))

    return method


def twin(
    operation: Callable[Concatenate[S, P], Steps[R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The asynchronous method of an operation."""
    named = _named(operation, "a")

    @wraps(named)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.engine.arun(named(self, *args, **kwargs))

    return method


def _named(operation: Callable[P, Steps[R]], prefix: str) -> Callable[P, Steps[R]]:
    """The operation under the name that people call, and with what they get: for help() and errors of its arguments."""
    body = cast("FunctionType", operation)
    name = prefix + body.__name__.removeprefix("_")
    named = FunctionType(body.__code__, body.__globals__, name, body.__defaults__, body.__closure__)
    named.__qualname__ = body.__qualname__.rpartition(".")[0] + "." + name
    named.__kwdefaults__ = body.__kwdefaults__
    named.__doc__, named.__module__ = body.__doc__, body.__module__
    answer = str(body.__annotations__["return"])
    named.__annotations__ = body.__annotations__ | {"return": answer.removeprefix("Steps[").removesuffix("]")}
    return cast("Callable[P, Steps[R]]", named)
