"""How long to go on trying, and what to say when that was in vain."""

from __future__ import annotations

import random

from headrace import clock
from headrace.errors import ServerUnavailable, ServerUnfit
from headrace.server.endpoint import Endpoint
from headrace.server.moves import Lost


class Patience:
    """The pauses between tries: none before the first, then growing with jitter, until the time is up."""

    def __init__(self, seconds: float) -> None:
        self._until = clock.monotonic() + seconds
        self._next = 0.0

    def pause(self) -> float | None:
        """How long to wait before the next try, or None to give up."""
        if clock.monotonic() >= self._until:
            return None
        pause = self._next * random.uniform(0.5, 1.0)
        self._next = min(max(2 * self._next, 0.02), 0.5)
        return pause


def unavailable(lost: Lost, what: str = "") -> ServerUnavailable:
    """The error for a server that did not answer `what`; without it, for one that never answered anything."""
    who = f"the server at {lost.endpoint.where}" if lost.endpoint else "the cluster"
    advice = "see that it runs and can be reached from here"
    if not what:  # later on, the way in is known to be right
        tls = lost.endpoint is not None and lost.endpoint.kind == "tls"
        wish = "that it speaks TLS" if tls else "whether it wants TLS (rediss://)"
        advice += f", {wish}, and that the URL (HEADRACE_URL) is right"
    asked = f" to {what}" if what else ""
    error = ServerUnavailable(f"no answer from {who}{asked} ({lost.error}): {advice}")
    error.__cause__ = lost.error
    return error


def foreign(endpoint: Endpoint, error: Exception) -> ServerUnfit:
    """The error for a server that speaks another language than Redis."""
    return ServerUnfit(
        f"what listens at {endpoint.where} is no Redis or Valkey server ({error}): check host and port of the URL "
        "(HEADRACE_URL); a web server or another database may have that port"
    )
