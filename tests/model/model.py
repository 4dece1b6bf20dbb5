"""The engine in plain Python: what each transition has to do to jobs, twins, runs, sessions and lanes.

Where the server may choose (whose turn it is, how long a backoff is) the model takes over what it chose after
checking that it was allowed to; everything else has to be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

from tests.model.jobs import (
    AT_ONCE,
    Counts,
    Data,
    Job,
    Lane,
    Place,
    Run,
    Session,
    Span,
    Twin,
    chain,
    merged_time,
)
from tests.tools.shard import START, Ask


@dataclass(slots=True)
class Outcome:
    """How a generation of a job ended."""

    status: str
    gen: int
    free_at: int
    body: str


class Model:
    """A shard."""

    def __init__(self) -> None:
        self.now = START
        self.jobs: dict[str, Job] = {}
        self.runs: dict[str, Run] = {}
        self.sessions: dict[str, Session] = {}
        self.lanes: dict[str, Lane] = {}
        self.task_rules: dict[str, dict[str, int]] = {}
        self.task_timers: dict[str, int] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.events: Counter[tuple[str, str, int]] = Counter()
        """(kind as in the history, job, attempt) since the machine last compared them."""
        self.seen = 0
        self.grace: dict[int, int] = {}
        """Lease -> when a silence of more than half of it ended."""
        self._arrival = 0
        self._at_once = False

    # Lanes ------------------------------------------------------------------------------------------------

    def lane(self, path: str) -> Lane:
        """The settings of a node; those of a new one when nobody set any."""
        return self.lanes.setdefault(path, Lane())

    def task_stopped(self, task: str | None) -> float | None:
        """Until when rules stop a task; None when none does."""
        untils = [until or inf for until in self.task_rules.get(task or "", {}).values()]
        return max([until for until in untils if until > self.now], default=None)

    def used(self, path: str) -> int:
        """Units of live claims under a node."""
        found: set[tuple[str, int]] = set()
        for run in self.runs.values():
            if path in chain(run.path):
                found.update((run.claim if run.group else run.key, unit) for unit in range(run.units))
        return len(found)

    def moments(self) -> Iterator[int]:
        """When time will do something: schedules, deadlines, rates, rules."""
        yield from (job.at[0] for job in self.jobs.values() if job.status == "due")
        yield from (run.deadline for run in self.runs.values() if run.deadline)
        yield from (session.deadline for session in self.sessions.values() if not session.dead)
        for lane in self.lanes.values():
            yield from (at + lane.rate[1] for at, _ in lane.starts if lane.rate)
            yield from (until for until in (lane.not_before, *lane.rules.values()) if until)
        yield from self.task_timers.values()
        yield from (job.at[0] + job.option("d") for job in self.jobs.values() if job.status == "failed")

    # Places -----------------------------------------------------------------------------------------------

    def next_place(self, queue: str, prio: int, i: int = 0) -> Place:
        """Where a job that becomes ready now stands in its lane."""
        lane = self.lane(queue)
        if lane.aging:
            x = (self.now - lane.birth + (100 - prio) * lane.aging) * 256 + min(i, 255)
            return x * 128 + 100 - prio, 0, 0
        self._arrival += not self._at_once
        return 100 - prio, self._arrival, 0

    @contextmanager
    def at_once(self) -> Generator[None]:
        """Jobs that are put in line here have no order among themselves but the one that the server chooses."""
        self._arrival += 1
        self._at_once = True
        yield
        self._at_once = False

    def put(self, job: Job, at: Span, place: Place | None = None, i: int = 0) -> None:
        """Ready, or scheduled when its time is to come. Both bounds of a time are on the same side of now."""
        job.at = at
        if at[0] > self.now:
            job.status = "due"
        else:
            job.status, job.at = "ready", AT_ONCE
            job.place = place or self.next_place(job.queue, job.data.prio, i)

    def store(self, key: str, data: Data, status: str, body: str) -> None:
        """Keep how a generation ended."""
        keep, unique = data.option("k"), data.option("u")
        if keep == 0 and unique == 0:
            return
        old = self.outcomes.get(key)
        if old and old.gen != data.gen:
            self.outcomes[f"{key}\n{old.gen}"] = old
        free_at = 0 if status == "f" or not unique else -1 if unique == -1 else self.now + unique
        self.outcomes[key] = Outcome(status, data.gen, free_at, body)

    def forget(self, key: str) -> None:
        """The job is over."""
        twin = self.jobs.pop(key).twin
        if twin:
            queue, _, id = key.partition("/")
            self.jobs[key] = job = Job(queue, id, twin.data)
            self.put(job, (twin.at, twin.at))

    # Enqueue ----------------------------------------------------------------------------------------------

    def enqueue(self, queue: str, asks: Sequence[Ask], if_exists: str, gens: Iterable[int]) -> str | None:
        """The letters, or None when the call has to be refused. `gens` are what the server answered."""
        fresh: set[str] = set()
        for ask in asks:
            job = self.jobs.get(f"{queue}/{ask.id}")
            there = self._taken(queue, ask.id) or (job and job.status != "failed") or ask.id in fresh
            if if_exists == "e" and there:
                return None
            fresh.add(ask.id)
        letters = ""
        for i, (ask, gen) in enumerate(zip(asks, gens, strict=False)):
            letters += self._enqueue(queue, ask, if_exists, gen, i)
        return letters

    def _taken(self, queue: str, id: str) -> bool:
        ended = self.outcomes.get(f"{queue}/{id}")
        return ended is not None and f"{queue}/{id}" not in self.jobs and not 0 <= ended.free_at <= self.now

    def _enqueue(self, queue: str, ask: Ask, if_exists: str, gen: int, i: int) -> str:
        key = f"{queue}/{ask.id}"
        job = self.jobs.get(key)
        if self._taken(queue, ask.id) or (job and job.status != "failed" and if_exists == "i"):
            expected, letter = job.data.gen if job else 0, "i"
        elif job and job.status == "running":
            expected, letter = self._hold(job, ask, gen), "h"
        elif job and job.status != "failed":
            self._update(job, ask)
            expected, letter = job.data.gen, "u"
        else:
            self._make_way(key, job)
            data = self._data(ask, gen)
            self.jobs[key] = job = Job(queue, ask.id, data)
            at = self.time_of(ask)
            self.put(job, (at, at), i=i)
            expected, letter = gen, "a"
        assert gen == expected, f"{key}: {letter} has generation {expected}, the server says {gen}"
        return letter

    def _make_way(self, key: str, dead: Job | None) -> None:
        """The id goes to a new job: what was known of earlier ones stays with their generations."""
        if dead:
            self.outcomes[f"{key}\n{dead.data.gen}"] = Outcome("f", dead.data.gen, 0, dead.reason)
        if latest := self.outcomes.pop(key, None):
            self.outcomes[f"{key}\n{latest.gen}"] = latest

    def time_of(self, ask: Ask) -> int:
        """When a job that is enqueued now is due."""
        return self.now + ask.delay if ask.delay else ask.at

    def _data(self, ask: Ask, gen: int) -> Data:
        return Data(ask.lane, ask.prio, ask.payload, dict(ask.options), gen, self.now)

    def _hold(self, job: Job, ask: Ask, gen: int) -> int:
        new, at = self._data(ask, gen), self.time_of(ask)
        twin = job.twin
        if not twin:
            job.twin = Twin(new, at, ask.update_data, ask.update_run_at, ask.resets, ask.letters)
            return gen
        merge(twin.data, new, ask.update_data, ask.letters)
        twin.at = merged_time(twin.at, at, ask.update_run_at)
        modes = {twin.update_run_at, ask.update_run_at}
        twin.update_run_at = 1 if 1 in modes else ask.update_run_at or twin.update_run_at
        twin.update_data |= ask.update_data
        twin.resets |= ask.resets
        twin.letters += ask.letters
        return twin.data.gen

    def _update(self, job: Job, ask: Ask) -> None:
        before, task = (job.data.lane, job.data.prio), job.option("n")
        at = merged_time(job.at[0] if job.status == "due" else 0, self.time_of(ask), ask.update_run_at)
        merge(job.data, self._data(ask, 0), ask.update_data, ask.letters)
        if ask.resets:
            job.counts, job.error = Counts(), False
        stays = job.status == "ready" or (job.status == "parked" and task == job.option("n"))
        if stays and at <= self.now and before == (job.data.lane, job.data.prio):
            return
        self.put(job, (at, at))

    # The end of a run --------------------------------------------------------------------------------------

    def take_down(self, key: str) -> tuple[Run, Job]:
        """The run is no more; what becomes of the job is up to the caller."""
        return self.runs.pop(key), self.jobs[key]

    def event(self, kind: str, run: Run) -> None:
        """An attempt ended."""
        self.events[kind, run.key, run.attempt] += 1

    def return_start(self, run: Run) -> None:
        """A start that came to nothing gives its entry in the rate logs back."""
        name = f"{run.claim} {run.key.partition('/')[2]}"
        for path in chain(run.path):
            lane = self.lane(path)
            lane.starts = [start for start in lane.starts if start[1] != name]

    def complete(self, run: Run, job: Job, body: str) -> str:
        """Done."""
        self.event("d", run)
        self.store(run.key, job.data, "d", body)
        self.forget(run.key)
        return "C"

    def _cancelled(self, run: Run, job: Job) -> str:
        self.event("c", run)
        self.store(run.key, job.data, "c", job.counts.c or "")
        self.forget(run.key)
        return "X"

    def ended_badly(self, run: Run, job: Job, field: str, at: Span | None = None, error: str = "") -> str:
        """A failure ('f'; 'F' for good), stall ('s') or timeout ('o'): against its budget, then back or failed."""
        if job.counts.c:
            return self._cancelled(run, job)
        budget = 0 if field == "F" else job.option(field)
        field = field.lower()
        n = getattr(job.counts, field) + 1
        setattr(job.counts, field, n)
        self.event(field, run)
        if budget != -1 and n > budget:
            job.counts.a = run.attempt
            self._bury(run.key, job, error)
            return "F"
        job.error = True
        at = at or (AT_ONCE if field == "s" else self._backoff(job, n))
        self._back(run, job, at, run.place if field == "s" else None)
        return "R"

    def _backoff(self, job: Job, n: int) -> Span:
        low, high = job.option("b"), job.option("x")
        wait = low * 2 ** min(n - 1, 40)
        wait = wait if high == -1 else min(wait, high)
        return self.now + int(max(low, wait * 0.75)), self.now + int(max(low, wait))

    def _bury(self, key: str, job: Job, error: str) -> None:
        handler = self.lane(job.queue).failure_options
        if handler is not None:
            self._enqueue_failure(job, handler)
        if job.option("d") == 0 or job.twin:
            self.store(key, job.data, "f", error)
            self.forget(key)
        else:
            job.status, job.error, job.at, job.reason = "failed", True, (self.now, self.now), error

    def _enqueue_failure(self, job: Job, options: dict[str, Any]) -> None:
        """The job of the failure handler: it takes the place of one that waits or failed, and stands beside a run."""
        queue, id = job.queue + "-fail", job.id
        if (old := self.jobs.get(f"{queue}/{id}")) and old.status == "running":
            id = f"{id}:{job.data.gen}"
        elif old and old.status == "failed":
            self.outcomes[f"{queue}/{id}\n{old.data.gen}"] = Outcome("f", old.data.gen, 0, old.reason)
        data = Data("", 50, None, dict(options), -1, self.now)
        failure = self.jobs[f"{queue}/{id}"] = Job(queue, id, data)
        self.put(failure, AT_ONCE)

    def _back(self, run: Run, job: Job, at: Span, place: Place | None) -> None:
        job.counts.a = run.attempt
        at, same = self._absorb(job, at)
        self.put(job, at, place if same else None)

    def _absorb(self, job: Job, at: Span) -> tuple[Span, bool]:
        """The held twin is laid over a job that goes on. Answers when that is due, and whether there was none."""
        twin, job.twin = job.twin, None
        if not twin:
            return at, True
        older, newer = sorted((job.data.gen, twin.data.gen))
        source, target = (older, newer) if twin.update_data else (newer, older)
        self.outcomes[f"{job.key}\n{source}"] = Outcome("m", target, 0, "")
        merge(job.data, twin.data, twin.update_data, twin.letters)
        if twin.update_data:
            job.data.gen = twin.data.gen
        if twin.resets:
            job.counts.f = job.counts.s = job.counts.o = 0
            job.error = False
        how = twin.update_run_at
        return (merged_time(at[0], twin.at, how), merged_time(at[1], twin.at, how)), False

    def released(self, run: Run, job: Job, at: Span) -> str:
        """Given back: nothing counted, its place kept."""
        if job.counts.c:
            return self._cancelled(run, job)
        self.return_start(run)
        self.event("l", run)
        run.attempt -= 1
        self._back(run, job, at, run.place)
        return "L"

    def parked(self, run: Run, job: Job) -> str:
        """It waits with its task for somebody who knows that."""
        if job.counts.c:
            return self._cancelled(run, job)
        self.return_start(run)
        job.counts.a = run.attempt - 1
        at, same = self._absorb(job, AT_ONCE)
        self.put(job, at, run.place if same else None)
        if job.status == "ready":
            job.status = "parked"
        return "P"

    def finish(self, key: str, claim: str, op: str, body: str) -> str:
        """One claim ends; its letter."""
        if key not in self.runs or self.runs[key].claim != claim:
            return "-"
        run, job = self.take_down(key)
        if op == "c":
            return self.complete(run, job, body)
        if op == "p":
            return self.parked(run, job)
        if op == "a":
            return self.ended_badly(run, job, "s")
        at, delay, error = body.split(" ", 2)
        when = self.now + int(delay) if int(delay) >= 0 else int(at) if int(at) >= 0 else None
        span = None if when is None else (when, when)
        if op == "l":
            return self.released(run, job, span or AT_ONCE)
        return self.ended_badly(run, job, {"t": "o", "f": "F"}.get(op, "f"), span, error)

    # Cancel, dead letters ------------------------------------------------------------------------------------

    def cancel(self, queue: str, id: str, running_too: bool, by: str) -> str:
        """Its letter."""
        key = f"{queue}/{id}"
        job = self.jobs.get(key)
        letter = "-"
        if job and job.twin:
            self.store(key, job.twin.data, "c", by)
            self.events["c", key, 0] += 1
            job.twin = None
            letter = "h"
        if job and job.status == "running" and running_too:
            job.counts.a = max(job.counts.a, self.runs[key].attempt - 1)
            job.counts.c = by
            return "b" if letter == "h" else "m"
        if job and job.status in ("ready", "due", "parked"):
            self.store(key, job.data, "c", by)
            self.events["c", key, 0] += 1
            del self.jobs[key]
            return "w"
        return letter

    def replay(self, queue: str, what: str, limit: int, ids: Sequence[str]) -> int:
        """How many dead letters were put back or dropped."""
        dead = [job for job in self.jobs.values() if job.queue == queue and job.status == "failed"]
        dead.sort(key=lambda job: (job.at, job.id))
        order = {job.id: job for job in dead[: len(dead) if ids else limit]}
        chosen = [order[id] for id in dict.fromkeys(ids or order) if id in order]
        for job in chosen:
            if what == "drop":
                del self.jobs[job.key]
            else:
                job.counts, job.error = Counts(), False
                self.put(job, AT_ONCE)
        return len(chosen)


def merge(old: Data, new: Data, update_data: int, letters: str) -> None:
    """Lay new data over old, as the flags say."""
    if "p" in letters:
        old.prio = new.prio
    if "l" in letters:
        old.lane = new.lane
    for letter in set(letters) - {"p", "l"}:
        old.options.pop(letter, None)
        if letter in new.options:
            old.options[letter] = new.options[letter]
    if update_data:
        old.payload = new.payload
