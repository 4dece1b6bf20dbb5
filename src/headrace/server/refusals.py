"""What an error reply of the server means: what to do about it, and which typed error it is.

Our functions answer `HR_<CODE> <text>`; everything else is the server's own. Servers wrap an error of a
function in noise that differs by version ("script: ..., on @user_function:12."): it is taken off here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from headrace.errors import (
    ClaimLost,
    ForeignKey,
    HeadraceError,
    InvalidInput,
    JobExists,
    NameInvalid,
    NoShard,
    OptionError,
    ProtocolError,
    QueueFull,
    ServerUnavailable,
    ServerUnfit,
    SettingConflict,
    ShardMismatch,
    UpgradeNeeded,
)


class Remedy(Enum):
    """What a transport does about an error reply."""

    NONE = auto()  # nothing: it is the answer
    LOAD = auto()  # the library is not on that server: load it and send again
    MOVE = auto()  # another server owns the shard now: look where, and send again
    LATER = auto()  # the server is busy with itself: send again in a moment
    MEND = auto()  # the shard has lost its data, or holds a stranger's key: have that put right and send again


_OURS: Final[dict[str, Callable[[str], HeadraceError]]] = {
    "NOSHARD": NoShard,
    "UPGRADE": UpgradeNeeded,
    "MISMATCH": ShardMismatch,
    "STALE": ProtocolError,
    "LOST": ClaimLost,
    "EXISTS": JobExists,
    "CONFLICT": SettingConflict,
    "BAD": InvalidInput,
    "NAME": NameInvalid,
    "OPTION": OptionError,
}
_MOVE: Final = frozenset({"MOVED", "ASK", "READONLY", "UNBLOCKED", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN"})
_LATER: Final = frozenset({"LOADING", "BUSY", "MISCONF", "NOREPLICAS"})
_MEND: Final = frozenset({"HR_NOSHARD", "WRONGTYPE"})
_SHUT: Final = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})
_ADVICE: Final = {
    "READONLY": "it is a replica: wait for the failover, or connect to its primary",
    "MASTERDOWN": "it is a replica without its primary: wait for the failover, or connect to the primary",
    "LOADING": "it is still reading its data: try again when it is done",
    "BUSY": "a script of somebody blocks it: see SLOWLOG, and SCRIPT KILL or FUNCTION KILL",
    "MISCONF": "it cannot write to its disk: see its log and free some space",
    "NOREPLICAS": "too few replicas are connected: see min-replicas-to-write and the replicas",
    "CLUSTERDOWN": "the cluster is not complete: see CLUSTER INFO",
    "TRYAGAIN": "the shard's slot is being moved key by key: finish that migration",
    "ASK": "the shard's slot is being moved key by key: finish that migration",
}
_NOISE: Final = re.compile(
    r"(?:\s*,?\s*(?:script: [^\s,]+, )?on @?\w*(?:user_function|user_script)\w*:\d+\.?\s*$)"
    r"|(?:\s+script: [^\s,]+,?.*$)"
)
_WRAPPED: Final = re.compile(
    r"^(?:ERR\s+)?(?:Error running (?:function|script)\b.*?:\s*)?(?:@?user_(?:function|script):\s*\d+:\s*)?"
)
_PERMISSION: Final = re.compile(r"'([\w|]+)' command")


def code_of(text: str) -> str:
    """The first word of an error reply, without the noise around errors of functions."""
    return plain(text).partition(" ")[0]


def plain(text: str) -> str:
    """An error reply without what servers wrap around errors of functions."""
    stripped = _NOISE.sub("", _WRAPPED.sub("", text)).strip()
    return stripped or text


def remedy(text: str) -> Remedy:
    """What to do about an error reply before it becomes an error."""
    code = code_of(text)
    if code in _MOVE:
        return Remedy.MOVE
    if code in _LATER:
        return Remedy.LATER
    if code in _MEND:
        return Remedy.MEND
    return Remedy.LOAD if "unction not found" in text else Remedy.NONE


def error_of(text: str, where: str, what: str) -> HeadraceError:
    """The typed error of an error reply; `where` is the server's place, `what` the function or command sent."""
    bare = plain(text)
    code, _, rest = bare.partition(" ")
    if code.startswith("HR_"):
        kind = _OURS.get(code.removeprefix("HR_"), ProtocolError)
        return kind(rest or code)
    if code == "OOM":
        return QueueFull(
            f"the server at {where} is out of memory (maxmemory) and refused {what}: it takes no new jobs until jobs "
            "finish or maxmemory is raised; finishing jobs still works"
        )
    if code == "WRONGTYPE":
        return ForeignKey(f"{what} met a key of ours that holds a foreign type at {where}: run audit(repair=True)")
    if code in _SHUT:
        return _shut_out(code, bare, where, what)
    if remedy(text) is Remedy.LOAD:
        return ProtocolError(f"the library was loaded at {where} and has no function {what}: please report this")
    if remedy(text) is not Remedy.NONE:
        advice = _ADVICE.get(code, "see the server's log")
        return ServerUnavailable(f"the server at {where} does not take {what} now ({bare}): {advice}")
    if "unknown command" in bare.lower():
        return ServerUnfit(f"the server at {where} does not know {what}: Redis 7.0 or Valkey 7.2 is needed ({bare})")
    return ProtocolError(f"{what} was answered by {where} with an error that this version does not know: {bare}")


def _shut_out(code: str, bare: str, where: str, what: str) -> ServerUnfit:
    if code == "NOPERM":
        match = _PERMISSION.search(bare)
        name = match[1].upper().replace("|", " ") if match else what
        return ServerUnfit(
            f"the user of this connection may not run {name} at {where} ({bare}): allow it with ACL SETUSER, "
            "as docs/guides/connecting.md lists"
        )
    if code == "NOAUTH":
        return ServerUnfit(f"the server at {where} asks for a password: put it into the URL, redis://user:password@...")
    return ServerUnfit(f"the server at {where} refused the user or password of this connection")
