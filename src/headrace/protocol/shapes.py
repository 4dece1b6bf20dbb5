"""The shape of a value before it is encoded: how deep it is, and its form that does not depend on any order."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from headrace.protocol import models

MAX_DEPTH: Final = 200
_MANY: Final[tuple[type, ...]] = (list, tuple, set, frozenset)
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
    """What a value holds: fields, values, items."""
    fields = _fields(cast("Any", type(value)))
    if fields:
        return [getattr(value, name, None) for name in fields]
    if isinstance(value, dict):
        return dict[Any, Any].values(cast("dict[Any, Any]", value))
    return cast("Iterable[Any]", value) if isinstance(value, _MANY) else ()


@lru_cache(1024)
def _fields(kind: Any) -> Mapping[str, str]:
    """The fields of a struct, dataclass or attrs class and the names they are sent by; nothing for other types."""
    if issubclass(kind, msgspec.Struct):
        return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    fields: Iterable[Any] = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return {field.name: field.name for field in (*fields, *getattr(kind, "__attrs_attrs__", ()))}


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
        return _settled(models.dump(value), value)
    fields = _fields(cast("Any", type(value)))
    if not fields:
        return value
    unset = msgspec.UNSET
    named = {sent: getattr(value, name, unset) for name, sent in fields.items()}
    config = value.__struct_config__ if isinstance(value, msgspec.Struct) else None
    if config is not None and config.tag_field is not None:
        named[config.tag_field] = config.tag
    return ordered({name: item for name, item in named.items() if item is not unset})


def _settled(dumped: Any, model: Any) -> Any:
    """What a model dumped, in one order: a look at the model itself tells which of the lists were sets."""
    if getattr(cast("Any", type(model)), "__pydantic_root_model__", False):
        model = model.root
    if isinstance(dumped, dict):
        known = cast("dict[str, Any]", dumped)
        if isinstance(model, dict):
            parts = cast("dict[Any, Any]", model).values()
        else:
            parts = [getattr(model, name, None) for name in known]
        if len(parts) == len(known):
            return ordered(
                {name: _settled(item, part) for (name, item), part in zip(known.items(), parts, strict=True)}
            )
    if isinstance(dumped, list) and isinstance(model, _MANY):
        items, parts = cast("list[Any]", dumped), cast("Collection[Any]", model)
        if len(items) == len(parts):
            settled = map(_settled, items, parts)
            return sorted(settled, key=_bytes) if isinstance(model, set | frozenset) else list(settled)
    return ordered(dumped)


def _bytes(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value, enc_hook=repr)
    except OverflowError:  # an integer of more than 64 bits
        return repr(value).encode()
