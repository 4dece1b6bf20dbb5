"""Payloads: one codec byte, then bytes. Raw bytes stay as they are, everything else is MessagePack.

0 raw bytes   1 MessagePack   2 an error made by the server (MessagePack)   3 a failure job
Integers of more than 64 bits travel as extension 1: their bytes, big-endian, in two's complement. Never pickle.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar, cast

import msgspec
import msgspec.inspect

from headrace.errors import OptionError, PayloadError
from headrace.protocol import models
from headrace.protocol.shapes import LEAVES, MAX_DEPTH, ordered, too_deep
from headrace.protocol.texts import shown

T = TypeVar("T")

MAX_BYTES: Final = 1 << 20
NOTHING: Final = b""


def _plain(value: Any) -> Any:
    """Turn what msgspec does not know (pydantic models and their like) into plain values."""
    if models.is_model(value):
        plain = models.dump(value)
        if too_deep(plain):
            raise RecursionError
        return plain
    raise NotImplementedError(f"it holds a value of type {type(value).__qualname__!r}")


def _big(code: int, data: memoryview) -> Any:
    """An integer of more than 64 bits."""
    if code == _BIG:
        return int.from_bytes(data, "big", signed=True)
    return msgspec.msgpack.Ext(code, bytes(data))


_BIG: Final = 1
_KEPT: Final = (bytes, bytearray, memoryview, datetime)
_encode: Final = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_decode: Final = msgspec.msgpack.Decoder(ext_hook=_big).decode


def encode(value: Any, limit: int = MAX_BYTES, what: str = "data") -> bytes:
    """The payload of a value, or a `PayloadError` that says what is wrong with it."""
    if isinstance(value, bytes | bytearray | memoryview):
        payload = b"\x00" + bytes(cast("bytes", value))
    elif value is None:
        return b"\x01\xc0"
    else:
        payload = _encoded(value, what)
    if len(payload) > limit + 1:
        raise PayloadError(
            f"{what} takes {len(payload) - 1:,} bytes, the limit is {limit:,}: store it elsewhere and pass a reference"
        )
    return payload


def _packed(value: Any) -> bytes:
    try:
        return _encode(value)
    except OverflowError:
        return _encode(_with_extensions(msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=_plain)))


def _encoded(value: Any, what: str) -> bytes:
    try:
        if type(value) not in LEAVES and too_deep(value):
            raise RecursionError
        return b"\x01" + _packed(value)
    except UnicodeEncodeError as error:
        raise PayloadError(f"{what} holds text that is not valid Unicode: {error.reason}") from None
    except (OverflowError, ValueError) as error:
        raise PayloadError(f"{what} cannot be encoded: {error}") from None
    except (TypeError, NotImplementedError) as error:
        raise PayloadError(
            f"{what} cannot be encoded: {str(error) or type(value).__name__}. Pass JSON-like values, bytes, "
            "dataclasses, msgspec structs, pydantic models, datetime, Decimal or UUID"
        ) from None
    except RecursionError:
        raise PayloadError(f"{what} is nested deeper than {MAX_DEPTH} levels, or contains itself") from None
    except Exception as error:  # code of its own runs while it is encoded
        raise PayloadError(
            f"{what} cannot be encoded: a {type(value).__qualname__} raised {type(error).__name__}: {error}"
        ) from error


def _with_extensions(value: Any) -> Any:
    """The same plain value, with integers of more than 64 bits in a form that MessagePack can hold."""
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 64:
            return value
        return msgspec.msgpack.Ext(_BIG, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, dict):
        known = cast("dict[Any, Any]", value)
        return {key: _with_extensions(item) for key, item in known.items()}
    if isinstance(value, list | tuple):
        return [_with_extensions(item) for item in cast("list[Any]", value)]
    return value


def canonical(value: Any, payload: bytes) -> bytes:
    """The payload of the same value in the one order that equal data share; `payload` is what `encode` made of it."""
    if payload[0] == 0 or type(value) in LEAVES:
        return payload
    try:
        return encode(ordered(value), sys.maxsize)
    except Exception as error:  # code of its own runs once more
        raise PayloadError(f"no id can be made of the data: {type(error).__name__}: {error}") from error


def check_kind(kind: Any, where: str) -> None:
    """Refuse a type that no payload can be converted to."""
    try:
        msgspec.msgpack.Decoder(kind, dec_hook=models.validate)
        if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
            models.check_model(kind)
    except Exception as error:  # whatever comes of looking at a broken annotation
        raise OptionError(
            f"{where}: data_type={shown(kind)} cannot be used ({error}): give a class or a type such as "
            "list[Order], not its name, and see that all names in its annotations can be found"
        ) from None


def decode(payload: bytes, kind: Any = None) -> Any:
    """The value of a payload; with `kind`, validated and converted to that type."""
    if not payload:
        return None
    codec, body = payload[0], payload[1:]
    try:
        if codec == 0:
            return body if kind is None else msgspec.convert(body, kind, dec_hook=models.validate)
        if codec in (1, 2):
            return _decode(body) if kind is None else _typed(body, kind)
        if codec == 3:
            return parse_failure(body)
    except PayloadError:
        raise
    except Exception as error:  # validators of the type run here, and may raise anything
        shape = f" as {shown(kind)}" if kind is not None else ""
        why = str(error) if isinstance(error, msgspec.MsgspecError) else f"{type(error).__name__}: {error}"
        raise PayloadError(f"the payload cannot be read{shape}: {why}") from None
    raise PayloadError(f"the payload has codec {codec}, which this version does not know")


def _typed(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(body, type=kind, ext_hook=_big, dec_hook=models.validate)
    except msgspec.ValidationError:
        value = _decode(body)  # a big integer is an integer only after decoding
        try:
            return msgspec.convert(value, kind, dec_hook=models.validate)
        except msgspec.ValidationError:
            pass
        raise


@dataclass(frozen=True, slots=True)
class FailedJob:
    """What a failure handler gets: the failed job's data, who it was, and its last error."""

    queue: str
    id: str
    lane: str
    attempts: int
    failures: int
    stalls: int
    timeouts: int
    priority: int
    data: Any
    error: Any


def parse_failure(body: bytes) -> FailedJob:
    """Take apart the payload that the server writes for a failure job."""
    (size,) = struct.unpack_from(">I", body)
    error, at = body[4 : 4 + size], 4 + size
    (size,) = struct.unpack_from(">I", body, at)
    info = cast("dict[str, Any]", _decode(body[at + 4 : at + 4 + size]))
    return FailedJob(data=decode(body[at + 4 + size :]), error=decode(error), **info)
