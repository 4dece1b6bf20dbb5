"""Texts that people give: one check for names and notes alike, so that none of them breaks a call half-way."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InvalidInput, NameInvalid, OptionError

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
MAX_BYTES: Final = 256
MAX_NOTE: Final = 1000


def check_text(value: object, what: str, wrong: type[InvalidInput] = NameInvalid) -> str:
    """What names something: 1 to 256 bytes without control characters."""
    text, size = _unicode(value, what, wrong)
    if not 0 < size <= MAX_BYTES:
        raise wrong(f"{what} must have 1 to {MAX_BYTES} bytes, {text[:40]!r} has {size:,}")
    if _CONTROL.search(text):
        raise wrong(f"{what} {text!r} contains control characters")
    return text


def check_note(value: object, what: str, most: int = MAX_NOTE) -> str:
    """What people say to people (who, why): any text, "" too, but no book."""
    text, _ = _unicode(value, what, OptionError)
    if len(text) > most:
        raise OptionError(f"{what} may have {most:,} characters, {text[:40]!r}... has {len(text):,}")
    return text


def _unicode(value: object, what: str, wrong: type[InvalidInput]) -> tuple[str, int]:
    """A text that can be sent, and how many bytes it has then."""
    if not isinstance(value, str):
        raise wrong(f"{what} must be a string, not {type(value).__name__}: {shown(value)}")
    try:
        return value, len(value.encode())
    except UnicodeEncodeError as error:
        raise wrong(f"{what} {shown(value)} is not valid Unicode text: {error.reason}") from None


def shown(value: object, most: int = 60) -> str:
    """A value as an error shows it: never long, and never an error of its own."""
    try:
        text = repr(value)
    except Exception as error:  # its own code runs here: a broken one is told about, not run into
        return f"(its repr() raised {type(error).__name__})"
    return text if len(text) <= most else f"{text[:most]}..."
