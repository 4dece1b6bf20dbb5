"""What help() and errors say of a method: its public name, and what it answers."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest

from headrace import Claim, Headrace, Job, Lane, Queue
from headrace.queues.lane import TaskRules

METHODS = [
    (kind, name)
    for kind in (Headrace, Queue, Lane, TaskRules, Job, Claim)
    for name in dir(kind)
    if not name.startswith("_") and inspect.isfunction(getattr(kind, name))
]


@pytest.mark.parametrize(("kind", "name"), METHODS, ids=lambda value: getattr(value, "__name__", value))
def test_a_method_tells_its_own_name_and_answer(kind: type, name: str) -> None:
    method = getattr(kind, name)
    assert method.__name__ == name
    assert method.__qualname__.endswith(f".{name}")
    assert "Steps" not in str(inspect.signature(method))
    assert method.__doc__


def test_signatures_of_both_twins() -> None:
    says = "(self, seconds: 'Duration', n: 'int' = 1, wait: 'Duration | None' = 0) -> 'list[Claim[Data]]'"
    signatures = [str(inspect.signature(method)) for method in (Queue.lease, Queue.alease)]
    assert signatures == [says, says]
    assert (inspect.iscoroutinefunction(Queue.lease), inspect.iscoroutinefunction(Queue.alease)) == (False, True)
    (claim,) = typing.get_args(typing.get_type_hints(Queue.lease)["return"])
    assert typing.get_origin(claim) is Claim


async def test_a_misspelt_argument_names_the_method_that_was_called(valkey: Any, namespace: str) -> None:
    with Headrace(valkey.url, namespace=namespace) as app:
        q: Any = app.queue("q")
        with pytest.raises(TypeError, match=r"^Queue\.lease\(\) got an unexpected keyword argument 'wiat'"):
            q.lease(30, wiat=5)
        with pytest.raises(TypeError, match=r"^Queue\.alease\(\) got an unexpected keyword argument 'wiat'"):
            await q.alease(30, wiat=5)
