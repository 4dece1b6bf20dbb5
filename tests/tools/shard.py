"""A thin typed wrapper over raw calls of the function library, with a clock that stands still until it is moved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import msgspec
import redis

from headrace.server.library import library

LIBRARY: Final = library(test_clock=True)
START: Final = 1_000_000
CODEC: Final = b"\x01"

#: Everything in a shard, read at one moment: {name without tag: content}. Streams and times to live are left out.
_DUMP: Final = """
local all, tag = {}, ARGV[1]
for _, key in ipairs(redis.call('KEYS', '*')) do
  local call, kind = redis.call, redis.call('TYPE', key).ok
  local content = kind == 'string' and call('GET', key) or kind == 'hash' and call('HGETALL', key)
    or kind == 'set' and call('SMEMBERS', key) or kind == 'zset' and call('ZRANGE', key, 0, -1, 'WITHSCORES')
    or kind == 'list' and call('LRANGE', key, 0, -1) or kind == 'stream' and call('XRANGE', key, '-', '+') or ''
  all[#all + 1] = { string.sub(key, 1, #tag) == tag and string.sub(key, #tag + 1) or '!' .. key, kind, content }
end
return all
"""


class Refused(Exception):
    """The function refused the call: a code of ours, and why."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


T = TypeVar("T")


def attempt(call: Callable[[], T]) -> T | Refused:
    """What a call answers, or why it was refused."""
    try:
        return call()
    except Refused as refused:
        return refused


def text(value: bytes) -> str:
    """Bytes of the server as text; payloads that are none stay readable."""
    return value.decode("utf-8", "surrogateescape")


def packed(value: object) -> bytes:
    """msgpack, as heads and settings travel."""
    return msgspec.msgpack.encode(value)


@dataclass(frozen=True, slots=True)
class Ask:
    """One job to enqueue."""

    id: str
    payload: str = "data"
    lane: str = ""
    prio: int = 50
    at: int = 0
    delay: int = 0
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    update_data: int = 1
    update_run_at: int = 1
    reset_counts: int | None = None
    letters: str = ""

    @property
    def resets(self) -> int:
        """reset_counts as the engine takes it: like update_data when not given."""
        return self.update_data if self.reset_counts is None else self.reset_counts

    def head(self) -> bytes:
        """Its options, packed."""
        flags = (self.update_data, self.update_run_at, self.resets, self.letters)
        return packed((self.lane, self.prio, self.at, self.delay, self.options, *flags))


@dataclass(frozen=True, slots=True)
class Claimed:
    """One job of a claim's reply."""

    key: str
    claim: str
    counts: tuple[int, int, int, int]
    record: bytes

    @property
    def queue(self) -> str:
        """Its queue."""
        return self.key.partition("/")[0]

    @property
    def id(self) -> str:
        """Its id."""
        return self.key.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Claims:
    """A claim's reply."""

    due: int
    level: int
    jobs: list[Claimed]

    @property
    def ids(self) -> list[str]:
        """Ids in the order in which they were taken."""
        return [job.id for job in self.jobs]


@dataclass(frozen=True, slots=True)
class Want:
    """What a claim asks for; a lease of 0 means the session's."""

    n: int = 1
    queues: tuple[str, ...] = ("*",)
    lease: int = 30_000
    ahead: int = 0
    wait: int = 0
    waiter: str = ""
    members: int = 1
    units: int = 1

    def arguments(self, nonce: str) -> list[str | int]:
        """From n on."""
        head = [self.n, self.ahead, self.lease, self.wait, self.waiter, nonce, self.members, self.units]
        return [*head, *self.queues]


@dataclass(frozen=True, slots=True)
class Finish:
    """How one claim ends; `body` is the result or, for r, f, t and l, "<at> <delay> <error>"."""

    key: str
    claim: str
    op: str = "c"
    body: str = ""


def claims_of(reply: Sequence[Any]) -> Claims:
    """A claim's reply, taken apart."""
    jobs: list[Claimed] = []
    for at in range(2, len(reply), 4):
        numbers = [int(number) for number in reply[at + 2].split()] or [1, 0, 0, 0]
        counts = (numbers[0], numbers[1], numbers[2], numbers[3])
        jobs.append(Claimed(text(reply[at]), text(reply[at + 1]), counts, reply[at + 3]))
    return Claims(reply[0], reply[1], jobs)


class Shard:
    """One shard on a server of the test's own. Calls of a channel are numbered here; `number` repeats one."""

    def __init__(self, client: redis.Redis, tag: str = "{test:0}") -> None:
        self.client = cast(Any, client)
        self.tag = tag
        self.now = START
        self.numbers: dict[str, int] = {}
        self.last: dict[str, tuple[str, int, tuple[str | int | bytes, ...], Any, int]] = {}
        """The last numbered call of each channel that was not refused: function, number, arguments, reply, when."""
        self.nonces = 0
        self._dump = self.client.register_script(_DUMP)

    def start(self) -> Shard:
        """An empty server, the library, a new shard."""
        self.client.flushdb()
        self.load()
        self.set_clock(START)
        self.call("init", 1, "epoch")
        return self

    def load(self) -> None:
        """Load the library, whether or not it is there."""
        self.client.function_load(LIBRARY.source, replace=True)

    def set_clock(self, now: int) -> None:
        """The server's time from now on, in milliseconds."""
        self.now = now
        self.client.set(self.tag + "clock", now)

    def advance(self, by: int) -> None:
        """Let time pass."""
        self.set_clock(self.now + by)

    def call(self, name: str, *arguments: str | int | bytes) -> Any:
        """One raw call; a typed refusal becomes `Refused`."""
        try:
            return self.client.fcall(LIBRARY.function(name), 1, self.tag + "meta", *arguments)
        except redis.ResponseError as error:
            refusal = re.match(r"HR_(\w+) (.*)", str(error), re.DOTALL)
            if refusal is None:
                raise
            raise Refused(refusal[1], refusal[2]) from None

    def numbered(self, name: str, channel: str, number: int | None, *arguments: str | int | bytes) -> Any:
        """A call that changes something: with the channel's next number, or again with an old one."""
        if number is None:
            number = self.numbers.get(channel, 0) + 1
            self.numbers[channel] = number
        self.last.pop(channel, None)
        reply = self.call(name, channel, number, *arguments)
        self.last[channel] = (name, number, arguments, reply, self.now)
        return reply

    def enqueue(
        self,
        queue: str,
        asks: Iterable[Ask],
        if_exists: str = "u",
        *,
        origin: str = "c",
        channel: str = "producer",
        number: int | None = None,
    ) -> tuple[str, list[int]]:
        """Letters and generations."""
        jobs: list[str | bytes] = []
        for ask in asks:
            jobs += [ask.id, ask.head(), CODEC + ask.payload.encode()]
        reply = self.numbered("enqueue", channel, number, queue, if_exists, origin, Ask("").head(), *jobs)
        return text(reply[0]), list(reply[1:])

    def claim(self, want: Want, channel: str = "hand", number: int | None = None) -> Claims:
        """Claim by hand (a lease of its own) or for the session that the channel is."""
        self.nonces += 1
        return claims_of(self.numbered("claim", channel, number, *want.arguments(f"{self.nonces:016d}")))

    def take(self, n: int = 1, *queues: str, channel: str = "hand", lease: int = 30_000) -> list[Claimed]:
        """Just the jobs of a claim by hand."""
        return self.claim(Want(n, queues or ("*",), lease), channel).jobs

    def finish(
        self, items: Sequence[Finish], want: Want | None = None, channel: str = "hand", number: int | None = None
    ) -> tuple[str, Claims | None]:
        """Letters, and what the next claim got when one was asked for."""
        self.nonces += 1
        flat = [part for item in items for part in (item.key, item.claim, item.op, item.body)]
        then = want.arguments(f"{self.nonces:016d}") if want else []
        reply = self.numbered("finish", channel, number, len(items), *flat, *then)
        return text(reply[0]), claims_of(reply[1:]) if len(reply) > 1 else None

    def end(self, job: Claimed, op: str = "c", body: str | None = None, channel: str = "hand") -> str:
        """Finish one claim; answers its letter."""
        given = body if body is not None else "" if op in "cpa" else "-1 -1 " if op == "l" else "-1 -1 error"
        return self.finish([Finish(job.key, job.claim, op, given)], None, channel)[0]

    def open(self, session: str, lease: int = 10_000, queues: Sequence[str] = ("*",), tasks: Sequence[str] = ()) -> Any:
        """Open a session."""
        serves = packed({"queues": queues, "tasks": tasks})
        return self.numbered("session", session, None, "open", lease, serves, "info")

    def close(self, session: str, number: int | None = None) -> list[int]:
        """Close a session; answers how many jobs went back, and 1 when there are more."""
        return self.numbered("session", session, number, "close", 0, "", "")

    def heartbeat(self, session: str) -> tuple[bool, list[str]]:
        """Whether it lives, and the jobs that are to be cancelled."""
        reply = self.call("heartbeat", session)
        return reply[0] == 1, sorted(text(key) for key in reply[1:])

    def cancel(
        self, queue: str, ids: Iterable[str], running: bool = False, by: str = "tester", number: int | None = None
    ) -> str:
        """Letters."""
        return text(self.numbered("cancel", "producer", number, queue, int(running), by, *ids))

    def lane(self, path: str, **settings: Any) -> int:
        """Settings of a queue, group or lane, by their short names."""
        return self.numbered("lane", "admin", None, path, packed(settings))

    def rule(self, kind: str, name: str, which: str, on: bool, until: int = 0) -> int:
        """Pause or block, or take that back."""
        return self.numbered(
            "rules", "admin", None, kind, name, which, "set" if on else "clear", "tester", "a test", until
        )

    def replay(self, queue: str, what: str = "replay", limit: int = 100, ids: Iterable[str] = ()) -> int:
        """Put dead letters back, or drop them."""
        return self.numbered("replay", "admin", None, queue, what, limit, *ids)[0]

    def counts(self, *paths: str) -> list[tuple[int, ...]]:
        """Six numbers a path: scheduled, ready, held, running, failed, parked."""
        flat = self.call("counts", *paths)
        return [tuple(flat[at : at + 6]) for at in range(0, len(flat), 6)]

    def dump(self) -> list[list[Any]]:
        """Every key on the server: name, type, content."""
        return self._dump(args=[self.tag])

    def commands(self) -> dict[str, int]:
        """How often each command ran since the last `CONFIG RESETSTAT`, those called by functions included."""
        info = self.client.info("commandstats")
        return {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in info.items()}
