"""Named places where a process can be made to die at once, so that tests can see what a crash there leaves behind.

`HEADRACE_CRASH_AT=finish-sent:2` kills this process with SIGKILL when it passes the point `finish-sent` for
the second time; without a number, the first time. The variable is read once, at import.
"""

from __future__ import annotations

import os
import signal
import threading

from headrace.errors import OptionError

VARIABLE = "HEADRACE_CRASH_AT"


def parse(value: str) -> tuple[str, int]:
    """`name:n` as (name, n); a bare name means the first time."""
    name, _, times = value.partition(":")
    if not name or not (times or "1").isdecimal() or int(times or "1") < 1:
        raise OptionError(f"{VARIABLE}={value!r} is not a crash point: write name:n with n from 1, e.g. finish-sent:2")
    return name, int(times or "1")


_AT: tuple[str, int] | None = parse(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
_lock = threading.Lock()
_passed = 0


def _pass(*words: str) -> None:
    """Counts a pass of the armed point; SIGKILL lets nothing run after it, no `finally` and no atexit."""
    global _passed  # noqa: PLW0603 - one count per process is the meaning of the switch
    if _AT is None or "-".join(words) != _AT[0]:
        return
    with _lock:
        _passed += 1
        reached = _passed == _AT[1]
    if reached:
        os.kill(os.getpid(), signal.SIGKILL)


def _stay(*_words: str) -> None:
    """No point is armed: passing one costs an empty call."""


crash_point = _stay if _AT is None else _pass
"""Marks a place in the code by its name (words are joined by dashes); does nothing unless the variable names it.

Every call of a server function passes `<function>-send` and `<function>-replied`: `enqueue-send`, `claim-replied`.
"""
