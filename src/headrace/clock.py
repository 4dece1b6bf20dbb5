"""The only place that reads a clock. The server's time decides; these serve waiting, ids and logs."""

from __future__ import annotations

import time


def monotonic() -> float:
    """Seconds that never run backwards: for timeouts and waiting."""
    return time.monotonic()


def wall() -> float:
    """Epoch seconds of this machine: for generated ids and for `delay` shown to people, never for deadlines."""
    return time.time()
