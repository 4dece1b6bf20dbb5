"""Errors of attempts: how an exception is stored, and how it is shown again."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from headrace.errors import PayloadError
from headrace.protocol import codec

_MAX_TEXT = 4_000
_MAX_BYTES = 64_000


@dataclass(frozen=True, slots=True)
class Failure:
    """What was recorded of an attempt's error."""

    type: str = ""
    message: str = ""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type or "no error was given"


def error_payload(error: object) -> bytes:
    """Store an exception, a text, or any value; whatever it is, that never fails."""
    if error is None:
        return codec.encode({"type": "", "message": ""})
    if isinstance(error, str):
        return codec.encode({"type": "Error", "message": _clean(error[:_MAX_TEXT])})
    record: dict[str, Any] = {"type": _clean(type(error).__name__), "message": ""}
    if isinstance(error, BaseException):
        record["message"] = _text(str, error)
        if error.__traceback__ is not None:
            record["traceback"] = _text(_trace, error)
        fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    else:
        record["message"] = _text(repr, error)
        fields = {"value": error}
    try:
        return codec.encode(record | {"fields": fields} if fields else record, _MAX_BYTES, "error")
    except PayloadError:
        return codec.encode(record)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-8))[-_MAX_TEXT:]


def _text(show: Callable[[Any], str], error: object) -> str:
    try:
        return _clean(show(error)[:_MAX_TEXT])
    except Exception as worse:  # its own code runs here, and may be as broken as what it tells about
        return f"(its text cannot be had: {type(worse).__name__})"


def _clean(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def read_failure(payload: bytes) -> Failure:
    """Show a stored error again; what cannot be read is shown as it is."""
    if not payload:
        return Failure()
    try:
        value = codec.decode(payload)
    except PayloadError as error:
        return Failure("PayloadError", str(error))
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        return Failure(
            str(known.get("type", "")),
            str(known.get("message", "")),
            msgspec.convert(known.get("fields", {}), dict[str, Any]),
            str(known.get("traceback", "")),
        )
    return Failure("Error", str(value))
