"""Names of queues, lanes and jobs: what is allowed, and how ids are generated.

A generated id has 16 characters that sort by time and carry their shard:
7 of milliseconds, 2 of the shard, 7 of a counter that starts at random in each process.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from typing import Final

from headrace import clock
from headrace.errors import NameInvalid
from headrace.protocol.texts import MAX_BYTES, check_text, shown

_ALPHABET: Final = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_GENERATED: Final = re.compile(r"[-0-9A-Z_a-z]{16}\Z")
_VALUE: Final = {c: i for i, c in enumerate(_ALPHABET)}
FAILURE_SUFFIX: Final = "-fail"
MAX_SHARDS: Final = 4096


def check_name(name: object, what: str) -> str:
    """A queue's name, or one level of a lane: text without slashes, control characters, or outer blanks."""
    name = check_text(name, what)
    if "/" in name:
        raise NameInvalid(f"{what} {name!r} contains a slash: slashes separate the levels of lanes")
    if name != name.strip() or name == "*":
        raise NameInvalid(f"{what} {name!r} must not be '*' nor begin or end with a blank")
    return name


def check_lane(lane: object) -> str:
    """A lane below its queue: one level ("tenant-7") or two ("tenant-7/nightly"); '' is the queue itself."""
    if lane is None or lane == "":
        return ""
    if not isinstance(lane, str):
        raise NameInvalid(f"lane must be a string, not {type(lane).__name__}: {shown(lane)}")
    levels = lane.split("/")
    if len(levels) > 2:
        raise NameInvalid(f"lane {lane!r} has {len(levels)} levels: at most two are allowed below a queue")
    for level in levels:
        check_name(level, f"level of lane {lane!r}" if len(levels) > 1 else "lane")
    if len(lane.encode()) > 255:
        raise NameInvalid(f"lane {lane[:40]!r}... is longer than 255 bytes")
    return lane


def check_namespace(namespace: object) -> str:
    """The first part of every key: no braces, which say what belongs to one hash slot."""
    name = check_text(namespace, "namespace")
    if set(name) & set("{}"):
        raise NameInvalid(f"namespace {namespace!r} must not contain braces: they mark what shares a hash slot")
    return name


def check_id(id: object) -> str:
    """A job's id: any text of 1..256 bytes without control characters."""
    return check_text(id, "id")


def check_task(task: object, what: str = "task") -> str:
    """A task's name: any text of 1..256 bytes without control characters."""
    return check_text(task, what)


def failure_queue(queue: str) -> str:
    """The queue into which the server writes a job about each failure of a queue."""
    name = check_name(queue, "queue") + FAILURE_SUFFIX
    if len(name.encode()) > MAX_BYTES:
        raise NameInvalid(
            f"queue {queue[:40]!r}... can have no failure jobs: they go into the queue of that name and "
            f"{FAILURE_SUFFIX!r}, which would be longer than {MAX_BYTES} bytes"
        )
    return name


def content_id(payload: bytes) -> str:
    """The id of a job whose content is its id: equal data, equal id."""
    return "c-" + hashlib.blake2b(payload, digest_size=15).hexdigest()


class _Sequence:
    """The counter behind generated ids: random at the start, and again in a child after a fork."""

    __slots__ = ("next", "pid")

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.next = secrets.randbits(42)


_sequence = _Sequence()


def _digits(number: int, length: int) -> str:
    chars = [""] * length
    for i in range(length - 1, -1, -1):
        chars[i] = _ALPHABET[number & 63]
        number >>= 6
    return "".join(chars)


_stamps: dict[int, tuple[int, str]] = {}
_LAST: Final = 1 << 42
_PAIRS: Final = [a + b for a in _ALPHABET for b in _ALPHABET]


def new_id(shard: int) -> str:
    """A fresh id: sorts after earlier ones of this process, and says its shard."""
    return _spelt(_stamp(shard), _numbers(1))


def new_ids(shard: int, count: int) -> list[str]:
    """As many fresh ids of one moment."""
    stamp, first = _stamp(shard), _numbers(count)
    return [_spelt(stamp, n) for n in range(first, first + count)]


def _stamp(shard: int) -> str:
    ms = int(clock.wall() * 1000)
    stamp = _stamps.get(shard)
    if stamp is None or stamp[0] != ms:
        stamp = _stamps[shard] = (ms, _digits(ms, 7) + _digits(shard, 2))
    return stamp[1]


def _numbers(count: int) -> int:
    """The first of as many numbers in a row; the counter begins anew rather than in the middle of them."""
    first = _sequence.next if _sequence.next + count <= _LAST else 0
    _sequence.next = first + count
    return first


def _spelt(stamp: str, n: int) -> str:
    return stamp + _PAIRS[n >> 30] + _PAIRS[(n >> 18) & 4095] + _PAIRS[(n >> 6) & 4095] + _ALPHABET[n & 63]


def shard_in(id: str) -> int | None:
    """The shard that an id of the generated form carries; None for any other form."""
    if _GENERATED.match(id) is None:
        return None
    return _VALUE[id[7]] * 64 + _VALUE[id[8]]


def after_fork() -> None:
    """A child process counts from another place than its parent."""
    _sequence.__init__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
