"""Reads msgpack as Lua's cmsgpack writes it: its strings are raw bytes, which strict decoders refuse."""

from __future__ import annotations

import struct
from typing import Any


def unpack(blob: bytes) -> Any:
    """The value; strings keep foreign bytes as surrogates."""
    value, end = _read(blob, 0)
    if end != len(blob):
        raise ValueError(f"{len(blob) - end} bytes left over")
    return value


_FIXED = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_SIGNED = {0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZES = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}
_MANY = {0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}


def _read(blob: bytes, at: int) -> tuple[Any, int]:
    kind = blob[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 256, at
    if kind < 0x90:
        return _map(blob, at, kind & 15)
    if kind < 0xA0:
        return _array(blob, at, kind & 15)
    if kind < 0xC0:
        return _string(blob, at, kind & 31)
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if fixed := _FIXED.get(kind) or _SIGNED.get(kind):
        return struct.unpack_from(fixed, blob, at)[0], at + struct.calcsize(fixed)
    form = _SIZES.get(kind) or _MANY[kind]
    size = struct.unpack_from(form, blob, at)[0]
    at += struct.calcsize(form)
    return _string(blob, at, size) if kind in _SIZES else (_array if kind < 0xDE else _map)(blob, at, size)


def _string(blob: bytes, at: int, size: int) -> tuple[str, int]:
    return blob[at : at + size].decode("utf-8", "surrogateescape"), at + size


def _array(blob: bytes, at: int, size: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    for _ in range(size):
        item, at = _read(blob, at)
        items.append(item)
    return items, at


def _map(blob: bytes, at: int, size: int) -> tuple[dict[Any, Any], int]:
    flat, at = _array(blob, at, 2 * size)
    return dict(zip(flat[::2], flat[1::2], strict=True)), at
