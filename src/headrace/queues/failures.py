"""Errors of attempts: how an exception is stored, and how it is shown again."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from headrace.errors import PayloadError
from headrace.protocol import codec

_MAX_TEXT = 4_000


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
    """Store an exception, a text, or any value that can be encoded."""
    if error is None:
        return codec.encode({"type": "", "message": ""})
    if not isinstance(error, BaseException):
        if isinstance(error, str):
            return codec.encode({"type": "Error", "message": error[:_MAX_TEXT]})
        return codec.encode({"type": type(error).__name__, "message": "", "fields": {"value": error}})
    record: dict[str, Any] = {"type": type(error).__name__, "message": str(error)[:_MAX_TEXT]}
    if error.__traceback__ is not None:
        record["traceback"] = "".join(traceback.format_exception(error, limit=-8))[-_MAX_TEXT:]
    fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    try:
        return codec.encode(record | {"fields": fields} if fields else record, 64_000, "error")
    except PayloadError:
        return codec.encode(record)


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
