"""The deep clean: walk a shard part by part, page by page, and mend what a stranger's hand broke.

Each call is short and keeps the queue going; `audit.lua` says what each part finds. Counters are compared with
a count of all records, which is only trusted when nothing changed in the meantime.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeAlias, cast

import msgspec

from headrace.errors import NoShard
from headrace.protocol import keys
from headrace.protocol.booting import boot
from headrace.protocol.steps import Arg, Call, Command, Steps

Counters: TypeAlias = dict[str, int]
Findings: TypeAlias = list[str]


class _Auditor:
    """One audit of one shard."""

    def __init__(self, shard: int, repair: bool) -> None:
        self.shard = shard
        self.repair = repair
        self.findings: Findings = []
        self.nodes: list[bytes] = []

    def page(self, part: str, path: str, cursor: str, *more: Arg) -> Steps[list[Any]]:
        """One call of a part."""
        call = Call("audit", self.shard, (part, path, cursor, int(self.repair), *more), readonly=True)
        return cast("list[Any]", (yield call))

    def note(self, reply: list[Any]) -> None:
        """Keep what a call found."""
        self.findings += [text.decode(errors="replace") for text in reply[1:]]

    def part(self, part: str, path: str = "") -> Steps[int]:
        """All pages of a part; answers how much was found."""
        cursor, before = "", len(self.findings)
        while True:
            reply = yield from self.page(part, path, cursor)
            self.note(reply)
            cursor = reply[0].decode()
            if not cursor:
                return len(self.findings) - before

    def children(self, path: str) -> Steps[list[str]]:
        """The full paths of a node's children."""
        found: list[str] = []
        cursor = ""
        while True:
            call = Call("inspect", self.shard, (path, "lanes", cursor, 200), readonly=True)
            reply = cast("list[bytes]", (yield call))
            found += [name.decode() if not path else f"{path}/{name.decode()}" for name in reply[1:]]
            cursor = reply[0].decode()
            if not cursor:
                return found

    def tree(self, path: str) -> Generator[Any, Any, list[str]]:
        """A node and everything below it, deepest first."""
        paths: list[str] = []
        for child in (yield from self.children(path)):
            paths += yield from self.tree(child)
        return [*paths, path]

    def queue(self, queue: str) -> Steps[None]:
        """Everything about one queue."""
        yield from self.part("jobs", queue)
        yield from self.part("letters", queue)
        yield from self.part("held", queue)
        paths = yield from self.tree(queue)
        for path in paths:
            yield from self.part("lane", path)
            yield from self.part("children", path)
        for _ in range(3):
            if (yield from self.counters(queue, paths)):
                return

    def tally(self, queue: str) -> Steps[dict[str, Counters]]:
        """Count all records of a queue by where they stand."""
        sums: dict[str, Counters] = {}
        for which in ("j", "h", "run"):
            cursor = ""
            while True:
                reply = yield from self.page("tally", queue, cursor, which)
                page = cast("dict[str, Counters] | list[Any]", msgspec.msgpack.decode(reply[1]))
                for path, counts in page.items() if isinstance(page, dict) else ():
                    sums.setdefault(path, {})
                    for field, n in counts.items():
                        sums[path][field] = sums[path].get(field, 0) + n
                cursor = reply[0].decode()
                if not cursor:
                    break
        return sums

    def totals(self, path: str) -> Steps[Counters]:
        """The counters of a node as they are, and the shard's sequence: jobs that come and go move it."""
        reply = yield from self.page("totals", path, "")
        return cast("Counters", msgspec.msgpack.decode(reply[1]))

    def counters(self, queue: str, paths: list[str]) -> Steps[bool]:
        """Compare counters with a tally; True when the queue was quiet meanwhile, so that the answer counts.

        Equal counters alone do not say so: three jobs may have ended and three others started. A job that starts
        or is enqueued moves the sequence, and none gets back to where it was without that.
        """
        before = yield from self.totals(queue)
        sums = yield from self.tally(queue)
        olds: dict[str, Counters] = {}
        for path in paths:
            olds[path] = yield from self.totals(path)
        after = yield from self.totals(queue)
        counted = sum(sums.get(queue, {}).get(field, 0) for field in "zdfpy")
        if before != after or counted != after["records"]:
            return False
        for path, totals in olds.items():
            old = {field: n for field, n in totals.items() if field not in ("records", "seq")}
            new = {field: round(sums.get(path, {}).get(field, 0)) for field in old}
            if new == old:
                continue
            if not self.repair:
                self.findings.append(f"{path} counted {old}, there are {new}")
                continue
            packed = (msgspec.msgpack.encode(old), msgspec.msgpack.encode(new), msgspec.msgpack.encode(before))
            reply = yield from self.page("fix", path, "", *packed)
            if len(reply) == 1:
                return False
            self.note(reply)
        return True


def audit(namespace: str, shard: int, repair: bool) -> Steps[Findings]:
    """Audit one shard; answers what was found, in words."""
    auditor = _Auditor(shard, repair)
    yield from _types(auditor, namespace)
    if auditor.findings and not repair:
        return auditor.findings  # what lies behind such a key cannot be read until it is moved away
    yield from _pages(auditor, "known", auditor.nodes)
    yield from auditor.part("runs")
    yield from auditor.part("clocks")
    yield from auditor.part("parked")
    for queue in (yield from auditor.children("")):
        yield from auditor.queue(queue)
    yield from auditor.part("children", "")
    return auditor.findings


_KINDS = "zincjtehfgpw"  # the first letters of keys that carry a name: see `check_type` in audit.lua


def _types(auditor: _Auditor, namespace: str) -> Steps[None]:
    """Look at every key of the shard, also of queues that are not known yet."""
    yield from auditor.part("types")
    start = keys.tag(namespace, auditor.shard)
    cursor = "0"
    while True:
        words = ("SCAN", cursor, "MATCH", _glob(start) + f"[{_KINDS}]:*", "COUNT", "1000")
        reply = cast("list[Any]", (yield Command(auditor.shard, words)))
        names = [cast("bytes", key)[len(start.encode()) :] for key in reply[1]]
        auditor.nodes += [name[2:] for name in names if name[:2] in (b"n:", b"j:") and len(name) > 2]
        yield from _pages(auditor, "types", names)
        cursor = reply[0].decode()
        if cursor == "0":
            return


def _pages(auditor: _Auditor, part: str, names: list[bytes]) -> Steps[None]:
    for i in range(0, len(names), 200):
        auditor.note((yield from auditor.page(part, "", "", *names[i : i + 200])))


def _glob(text: str) -> str:
    return "".join("\\" + c if c in "*?[]\\" else c for c in text)


def quarantine(namespace: str, shards: int) -> Steps[Findings]:
    """Move keys of a foreign type out of the way, then mend what they left."""
    findings: Findings = []
    auditors = [_Auditor(shard, repair=True) for shard in range(shards)]
    for auditor in auditors:
        with suppress(NoShard):  # a shard that lost its data holds no foreign meta either
            auditor.note((yield from auditor.page("types", "", "")))
    yield from boot(shards)  # where it was meta that had to go: all of them first, since boot looks at every shard
    for auditor in auditors:
        yield from _types(auditor, namespace)
        if auditor.findings:
            findings += auditor.findings
            findings += yield from audit(namespace, auditor.shard, repair=True)
    return findings
