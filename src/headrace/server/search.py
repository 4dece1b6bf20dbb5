"""The search for a primary: what each address said that did not lead to one, and the error that tells it all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redis import exceptions

from headrace.errors import ServerUnavailable
from headrace.server import refusals
from headrace.server.moves import Garbled, Lost, Refusal
from headrace.server.refusals import Remedy


class Trouble(NamedTuple):
    """Why an address did not lead on; a `definite` no will be the same in a moment."""

    reason: str
    definite: bool


def trouble_of(reply: object, stranger: str, nothing: Trouble) -> Trouble:
    """Why a reply does not lead on: `stranger` for who does not know the question, `nothing` for an empty answer."""
    if isinstance(reply, Lost) and isinstance(reply.error, Garbled):
        return Trouble(f"it is no Redis or Valkey server ({reply.error})", True)
    if isinstance(reply, Lost):
        # Who refuses at the very start is a wrong address more often than a late one; who is slow may yet answer.
        slow = isinstance(reply.error, TimeoutError | exceptions.TimeoutError)
        return Trouble(str(reply.final or reply.error), not reply.sent and not slow)
    if isinstance(reply, Refusal):
        text = refusals.plain(reply.text)
        strange = "unknown command" in text.lower() or "cluster support disabled" in text
        return Trouble(f"{stranger} ({text})" if strange else text, refusals.remedy(text) is Remedy.NONE)
    return nothing


def hopeless(troubles: Mapping[str, Trouble]) -> bool:
    """Whether every address has said a definite no."""
    return bool(troubles) and all(trouble.definite for trouble in troubles.values())


def not_found(troubles: Mapping[str, Trouble], seconds: float) -> ServerUnavailable:
    """The error when no address led to a primary; `seconds` is how long they were asked, 0 for once."""
    tried = "; ".join(f"{where}: {trouble.reason}" for where, trouble in troubles.items())
    within = f" within {seconds:g} s" if seconds else ""
    return ServerUnavailable(
        f"none of the addresses that the URL names has led to a primary{within} ({tried}): see that they run and can "
        "be reached from here, and that the URL (HEADRACE_URL) is right, the service's name of a Sentinel URL included"
    )
