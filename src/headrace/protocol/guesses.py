"""What was probably meant: a guess for a name that does not exist, from its letters or from what others call it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from headrace.errors import OptionError
from headrace.protocol.texts import shown

#: Words of other queues: the options that do it here (the guess holds where one of them is allowed), and how.
_ELSEWHERE: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "retries": (("max_failures",), "max_failures says how many failures are tolerated"),
    "attempts": (("max_failures",), "max_failures says how many failures are tolerated, one less than attempts"),
    "countdown": (("delay",), "delay is in seconds, or a timedelta"),
    "eta": (("run_at",), "run_at is a datetime or epoch seconds"),
    "backoff": (("min_backoff",), "the pause before a retry grows from min_backoff to max_backoff"),
    "job_id": (("id",), "did you mean 'id'?"),
    "expires": (
        (),
        "a job waits until it is run or cancelled; keep_result and keep_failed say how long its end is kept",
    ),
    "queue": ((), "the queue is the object: app.queue(name).enqueue(...)"),
    "concurrency": (("cap",), "cap is the most that run at once"),
}
_SAME: Final = {
    "max_retries": "retries",
    "retry": "retries",
    "tries": "attempts",
    "max_attempts": "attempts",
    "max_tries": "attempts",
    "retry_delay": "backoff",
    "retry_backoff": "backoff",
    "default_retry_delay": "backoff",
    "task_id": "job_id",
    "ttl": "expires",
    "queue_name": "queue",
    "max_concurrency": "concurrency",
    "limit": "concurrency",
}


def check_names(given: Iterable[str], allowed: frozenset[str], where: str) -> None:
    """Refuse option names that do not exist, and say which one was probably meant."""
    for name in given:
        if name not in allowed:
            raise OptionError(f"{where} has no option {shown(name)}{_hint(str(name), allowed)}")


def _hint(name: str, allowed: frozenset[str]) -> str:
    options, says = _ELSEWHERE.get(_SAME.get(name, name), ((), ""))
    if says and (not options or not allowed.isdisjoint(options)):
        return f": {says}"
    close = difflib.get_close_matches(name, allowed, 1)
    if close:
        return f": did you mean {close[0]!r}?"
    usual = sorted(name for name in allowed if not name.startswith("update_"))
    more = ", and flags update_..." if len(usual) < len(allowed) else ""
    return f"; there are: {', '.join(usual)}{more}"
