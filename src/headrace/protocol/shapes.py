"""The shape of a value before it is encoded: how deep it is, and its form that does not depend on any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from headrace.protocol import models

MAX_DEPTH: Final = 200
#: Types that hold nothing: a look at them ends there.
LEAVES: Final = frozenset({str, int, float, bool, bytes, type(None), datetime})


def too_deep(value: object) -> bool:
    """Whether a value is nested deeper than allowed, or contains itself."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        nested: list[Any] = []
        for item in level:
            kind: object = cast("object", type(item))
            inside: Iterable[Any] = item.values() if kind is dict else item if kind is list else _inside(item)
            nested += [one for one in inside if type(one) not in LEAVES]
        if not nested:
            return False
        # One of each: what is shared, or contains itself several times, would double with every level.
        level = list({id(item): item for item in nested}.values()) if len(nested) > 1 else nested
    return True


def _inside(value: Any) -> Iterable[Any]:
    """What a value holds: items, values, fields."""
    if isinstance(value, dict):
        return dict[Any, Any].values(cast("dict[Any, Any]", value))
    if isinstance(value, list | tuple | set | frozenset):
        return cast("Iterable[Any]", value)
    return [getattr(value, name, None) for name in _fields(cast("Any", type(value)))]


def _fields(kind: Any) -> Mapping[str, str]:
    """The fields of a struct, dataclass or attrs class and the names they are sent by; nothing for other types."""
    if issubclass(kind, msgspec.Struct):
        return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    names = getattr(kind, "__dataclass_fields__", None)
    if names is None:
        names = [field.name for field in getattr(kind, "__attrs_attrs__", ())]
    return {name: name for name in names}


def ordered(value: Any) -> Any:
    """The same value with keys, sets and fields in one order, however it was built: equal data, equal bytes."""
    if type(value) in LEAVES:
        return value
    if isinstance(value, dict):
        known = cast("dict[Any, Any]", value)
        return {key: ordered(known[key]) for key in sorted(known, key=_bytes)}
    if isinstance(value, set | frozenset):
        return sorted((ordered(item) for item in cast("set[Any]", value)), key=_bytes)
    if isinstance(value, list | tuple):
        return [ordered(item) for item in cast("list[Any]", value)]
    if models.is_model(value):
        return ordered(models.dump_unordered(value))
    fields = _fields(cast("Any", type(value)))
    if not fields:
        return value
    unset = msgspec.UNSET
    named = {sent: getattr(value, name, unset) for name, sent in fields.items()}
    config = value.__struct_config__ if isinstance(value, msgspec.Struct) else None
    if config is not None and config.tag_field is not None:
        named[config.tag_field] = config.tag
    return ordered({name: item for name, item in named.items() if item is not unset})


def _bytes(value: Any) -> bytes:
    return msgspec.msgpack.encode(value, enc_hook=repr)
