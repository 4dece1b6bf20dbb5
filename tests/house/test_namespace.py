"""`import headrace` gives exactly what is promised, and all of it is explained."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import headrace


def public() -> dict[str, Any]:
    """The names that a user sees. A room's module lands there by being imported, and is no export."""
    return {
        name: value
        for name, value in vars(headrace).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }


def explained(name: str, value: Any) -> bool:
    """Whether a class or function has a docstring of its own (a dataclass writes its signature there)."""
    says = getattr(value, "__doc__", None) or ""
    return bool(says) and not says.startswith(f"{name}(")


def test_all_is_the_public_namespace() -> None:
    exported: list[str] = list(getattr(headrace, "__all__", []))
    assert sorted(exported) == sorted(public())
    assert len(set(exported)) == len(exported)


def test_public_classes_and_functions_are_explained() -> None:
    silent: list[str] = []
    for name, value in public().items():
        if (inspect.isclass(value) or inspect.isroutine(value)) and not explained(name, value):
            silent.append(name)
        if inspect.isclass(value):
            own = ((attr, member) for attr, member in vars(value).items() if not attr.startswith("_"))
            silent += [
                f"{name}.{attr}"
                for attr, member in own
                if (inspect.isroutine(member) or isinstance(member, property)) and not inspect.getdoc(member)
            ]
    assert not silent
