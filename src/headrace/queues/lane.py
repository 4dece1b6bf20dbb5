"""Lanes at run time: settings, rules, counts, pages of jobs. A queue is the outermost lane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Unpack, get_args

from headrace.errors import OptionError
from headrace.protocol import looking, ruling
from headrace.protocol.looking import Listed, Ref
from headrace.protocol.names import check_lane, check_task
from headrace.protocol.routing import check_route
from headrace.protocol.ruling import Rule
from headrace.protocol.steps import Steps
from headrace.protocol.texts import check_note, shown
from headrace.protocol.times import Time, to_ms
from headrace.queues.engine import Engine
from headrace.queues.job import Job
from headrace.queues.settings import Counts, LaneSettings, lane_letters, read_counts
from headrace.queues.twins import plain, twin

STATUSES = get_args(Listed)


class Ruled:
    """What can be paused by anyone and blocked by an operator; a block wins over any pause."""

    def __init__(self, engine: Engine, kind: str, name: str, shards: Sequence[int]) -> None:
        self.engine = engine
        self._kind = kind
        self._name = name
        #: the shards in which jobs of it may be
        self.shards = shards

    def _rule(self, which: str, on: bool, who: str = "", why: str = "", until: Time | None = None) -> Steps[bool]:
        until_ms = 0 if until is None else to_ms(until, "until")
        rule = Rule(self._kind, self._name, which, check_note(who, "who"), check_note(why, "why"), until_ms)
        return (yield from ruling.set_rule(rule, on, self.shards))

    def _pause(self, why: str = "", *, who: str = "", until: Time | None = None) -> Steps[bool]:
        """Start nothing here until `resume`; running jobs go on, new ones wait."""
        return (yield from self._rule("pa", True, who, why, until))

    def _resume(self) -> Steps[bool]:
        """Take a pause back; a block stays. False when there was none."""
        return (yield from self._rule("pa", False))

    def _block(self, why: str = "", *, who: str = "", until: Time | None = None) -> Steps[bool]:
        """Start nothing here until `unblock`: the operator's rule, which no `resume` takes back."""
        return (yield from self._rule("bl", True, who, why, until))

    def _unblock(self) -> Steps[bool]:
        """Take a block back; a pause stays. False when there was none."""
        return (yield from self._rule("bl", False))

    pause, apause = plain(_pause), twin(_pause)
    resume, aresume = plain(_resume), twin(_resume)
    block, ablock = plain(_block), twin(_block)
    unblock, aunblock = plain(_unblock), twin(_unblock)


class TaskRules(Ruled):
    """Pause and block of one task, in whatever queue its jobs are."""

    def __init__(self, engine: Engine, task: str) -> None:
        super().__init__(engine, "task", check_task(task), range(engine.ring.shards))
        self.task = task


class Lane(Ruled):
    """A part of a queue with its own cap, rate, priority and fair turn; made when it is first used or set."""

    def __init__(self, engine: Engine, queue: str, lane: str = "", route: str | None = None) -> None:
        below = check_lane(lane)
        self.path = f"{queue}/{below}" if below else queue
        shards = engine.ring.of_path(below, check_route(route) or (below.split("/", 1)[0] if below else None))
        super().__init__(engine, "path", self.path, shards)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def _set(self, **settings: Unpack[LaneSettings]) -> Steps[None]:
        """Change settings; those not named stay as they are, None takes one back."""
        letters = lane_letters(settings, f"lane {self.path!r}")
        if letters:
            yield from ruling.set_lane(self.path, letters, self.shards)

    def _forget(self) -> Steps[None]:
        """Take all settings back; the lane goes away by itself once it is empty."""
        yield from ruling.set_lane(self.path, {"forget": True}, self.shards)

    def _counts(self) -> Steps[Counts]:
        """How many jobs stand where, in this lane and below; O(1)."""
        (tally,) = yield from looking.counts([self.path], self.shards)
        return read_counts(tally)

    set, aset = plain(_set), twin(_set)
    forget, aforget = plain(_forget), twin(_forget)
    counts, acounts = plain(_counts), twin(_counts)

    def jobs(self, status: Listed = "ready", page: int = 100) -> Iterator[Job]:
        """Go through the jobs of a status, page by page; what changes meanwhile may or may not be seen."""
        for shard in self._check(status, page):
            cursor: str | None = ""
            while cursor is not None:
                jobs, cursor = self.engine.run(self._page(status, shard, cursor, page))
                yield from jobs

    async def ajobs(self, status: Listed = "ready", page: int = 100) -> AsyncIterator[Job]:
        """The asynchronous `jobs`."""
        for shard in self._check(status, page):
            cursor: str | None = ""
            while cursor is not None:
                jobs, cursor = await self.engine.arun(self._page(status, shard, cursor, page))
                for job in jobs:
                    yield job

    def _page(self, status: str, shard: int, cursor: str, n: int) -> Steps[tuple[list[Job], str | None]]:
        cursor, rows = yield from looking.page(self.path, status, cursor, n, shard)
        queue = self.path.split("/", 1)[0]
        jobs = [Job(self.engine, Ref(queue, row.id, row.record.generation, shard)) for row in rows]
        return jobs, cursor or None

    def _check(self, status: str, page: int) -> Sequence[int]:
        if type(page) is not int or not 1 <= page <= 1000:
            raise OptionError(f"page={shown(page)}: expected a whole number from 1 to 1,000")
        if status not in STATUSES:
            raise OptionError(
                f"status={shown(status)}: expected one of {', '.join(STATUSES)} (ended jobs: see the history)"
            )
        return self.shards

    def _lanes(self) -> Steps[list[str]]:
        """The names of the lanes directly below."""
        names: dict[str, None] = {}
        for shard in self.shards:
            cursor = ""
            while True:
                cursor, found = yield from looking.lanes_page(self.path, cursor, 200, shard)
                names |= dict.fromkeys(found)
                if not cursor:
                    break
        return sorted(names)

    lanes, alanes = plain(_lanes), twin(_lanes)
