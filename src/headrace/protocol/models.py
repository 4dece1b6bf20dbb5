"""Models of pydantic and their like, known by their methods alone: nothing of pydantic is imported."""

from __future__ import annotations

import json
from functools import lru_cache
from inspect import signature
from typing import Any


def is_model(value: object) -> bool:
    """Whether a value can turn itself into plain values."""
    return callable(getattr(type(value), "model_dump", None))


def dump(value: Any) -> Any:
    """A model as plain values, as JSON would have them: what validates it again everywhere."""
    try:
        return value.model_dump(mode="json")
    except RecursionError:
        raise
    except Exception as error:
        hint = "; bytes need ser_json_bytes='base64' and val_json_bytes='base64' in its model_config"
        says = f"{type(value).__qualname__}.model_dump() raised {type(error).__name__}: {error}"
        raise ValueError(says + (hint if "utf-8" in str(error) else "")) from None


def check_model(kind: Any) -> None:
    """Refuse a class that plain values cannot be turned into."""
    if not callable(getattr(kind, "model_validate", None)):
        raise TypeError(f"{kind.__qualname__} is no dataclass, msgspec struct, pydantic model or type of JSON")


def validate(kind: type, value: object) -> Any:
    """Plain values as a model of that class; what is wrong with them is a ValueError.

    Values that JSON has are validated as JSON, the form that `dump` made: strict models and encoded bytes need it.
    """
    check_model(kind)
    model: Any = kind
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return model.model_validate(value, **_names(kind))
    return model.model_validate_json(text, **_names(kind))


@lru_cache(1024)
def _names(kind: Any) -> dict[str, bool]:
    """A model writes its fields by name, and may read them by alias only: where it can, it reads both."""
    known = signature(kind.model_validate).parameters
    return {"by_alias": True, "by_name": True} if "by_name" in known else {}
