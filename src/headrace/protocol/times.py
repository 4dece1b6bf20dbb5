"""Times and durations as people give them, in the milliseconds of the engine."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TypeAlias

from headrace.errors import OptionError
from headrace.protocol.texts import shown

Time: TypeAlias = datetime | float | int
Duration: TypeAlias = timedelta | float | int
_LATEST_MS = 253_402_300_800_000  # the year 10000: beyond it, a mistake of units


def to_ms(value: object, name: str) -> int:
    """A moment: a datetime (naive ones are local time) or epoch seconds."""
    if isinstance(value, datetime):
        try:
            ms = value.timestamp() * 1000
        except (OverflowError, ValueError, OSError):  # local time at the edge of what the system's clock can say
            ms = -1.0
    else:
        ms = _number(value, name, "a datetime or epoch seconds") * 1000
    if not 0 <= ms < _LATEST_MS:
        raise OptionError(
            f"{name}={shown(value)} is no moment between 1970 and the year 10000 (epoch seconds are expected)"
        )
    return round(ms)


def duration_ms(value: object, name: str) -> int:
    """A duration: a timedelta or seconds, never negative."""
    if isinstance(value, timedelta):
        ms = value.total_seconds() * 1000
    else:
        ms = _number(value, name, "seconds or a timedelta") * 1000
    if not 0 <= ms < _LATEST_MS:
        raise OptionError(f"{name}={shown(value)} must be between 0 seconds and 8,000 years")
    return math.ceil(ms)


def _number(value: object, name: str, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{name}={shown(value)}: expected {expected}, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise OptionError(f"{name} is far too large: expected {expected}") from None
    if not math.isfinite(number):
        raise OptionError(f"{name}={shown(value)} is not finite: expected {expected}")
    return number
