"""Sessions: a worker process as a shard knows it. One heartbeat renews all its claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from headrace.protocol.steps import Call, Channel, Steps


@dataclass(frozen=True, slots=True)
class Profile:
    """What a session says of itself: its lease, what it serves, and text for people."""

    lease_ms: int
    queues: Sequence[str] = ("*",)
    tasks: Sequence[str] = ()
    info: dict[str, str] = field(default_factory=dict[str, str])


def open_session(channel: Channel, shard: int, profile: Profile) -> Steps[None]:
    """Open a session under the channel's id: jobs of its tasks that were parked come back."""
    serves = msgspec.msgpack.encode({"queues": list(profile.queues), "tasks": list(profile.tasks)})
    args = ("open", profile.lease_ms, serves, msgspec.json.encode(profile.info))
    yield Call("session", shard, args, numbered=True, channel=channel)


def close_session(channel: Channel, shard: int) -> Steps[int]:
    """Hand all jobs of a session back, uncounted, and close it."""
    moved = 0
    while True:
        call = Call("session", shard, ("close", 0, b"", b""), numbered=True, channel=channel)
        step, more = cast("list[int]", (yield call))
        moved += step
        if not more:
            return moved


def heartbeat(session: str, shard: int) -> Steps[list[str] | None]:
    """Renew a session's lease: the jobs it is to cancel, or None when it is dead and everything it had is lost."""
    reply = cast("list[bytes | int]", (yield Call("heartbeat", shard, (session,), readonly=True)))
    if not reply[0]:
        return None
    return [cast("bytes", key).decode() for key in reply[1:]]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A live session as a shard knows it. Times are milliseconds of the server."""

    id: str
    since_ms: int
    deadline_ms: int
    profile: Profile


def live_sessions(shard: int) -> Steps[list[SessionInfo]]:
    """All live sessions of a shard."""
    found: list[SessionInfo] = []
    cursor = ""
    while True:
        reply = cast("list[bytes]", (yield Call("sessions", shard, (cursor, 100), readonly=True)))
        for i in range(1, len(reply), 6):
            id, since, deadline, lease, serves, info = reply[i : i + 6]
            what = cast("dict[str, list[str] | dict[str, str]]", msgspec.msgpack.decode(serves))
            profile = Profile(
                int(lease), tuple(what["queues"]), tuple(what["tasks"]), msgspec.json.decode(info, type=dict[str, str])
            )
            found.append(SessionInfo(id.decode(), int(since), int(float(deadline)), profile))
        cursor = reply[0].decode()
        if not cursor:
            return found
