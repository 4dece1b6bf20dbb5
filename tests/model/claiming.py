"""Whether the jobs that a claim got are the ones it had to get: allowed, in order, and as many as there were."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from tests.model.jobs import Job, Run, chain
from tests.model.model import Model
from tests.tools.shard import Claimed, Claims, Want

Level = tuple[float, float]
"""The bounds of a level where the model leaves open whose turn it is; equal but for aging queues."""


@dataclass(slots=True)
class Walk:
    """One claim on its way through the tree of lanes."""

    model: Model
    want: Want

    def runnable(self, job: Job) -> bool:
        """Waits in a lane for somebody to run it."""
        return job.status == "ready" and not self.model.task_stopped(job.option("n"))

    def own(self, path: str) -> list[Job]:
        """The jobs of a lane itself, in the order in which they go."""
        found = [job for job in self.model.jobs.values() if job.path == path and self.runnable(job)]
        return sorted(found, key=lambda job: (job.place, job.id))

    def children(self, path: str) -> set[str]:
        """The children of a node under which something may run."""
        below = {level for job in self.model.jobs.values() if self.runnable(job) for level in chain(job.path)}
        return {child for child in below if child.rpartition("/")[0] == path}

    def open(self, path: str) -> bool:
        """Whether a node lets anything start now."""
        lane = self.model.lane(path)
        full = lane.cap is not None and self.model.used(path) >= lane.cap
        return not (full or lane.stopped(self.model.now) or lane.tokens(self.model.now) < 1)

    def job_level(self, job: Job) -> float:
        """Where its place in its lane puts that lane."""
        aging = self.model.lane(job.queue).aging
        return min(job.place[0] // 32768 // aging, 8999999) if aging else job.place[0]

    def fronts(self, path: str) -> list[Job]:
        """The jobs that may go first under a node: several when it is some lane's turn among equals."""
        entries: dict[str, Level] = {}
        for child in self.children(path):
            level = self.level(child)
            if level:
                entries[child] = level
        own = self.own(path)
        best = min([high for _, high in entries.values()] + [self.job_level(job) for job in own[:1]], default=inf)
        found = [job for job in own[:1] if self.job_level(job) <= best]
        for child, (low, _) in entries.items():
            if low <= best:
                found += self.fronts(child)
        return found

    def level(self, path: str) -> Level | None:
        """The level at which a node stands in its parent's index; None when nothing may start there."""
        fronts = self.fronts(path) if self.open(path) else []
        if not fronts:
            return None
        lane, aging = self.model.lane(path), self.model.lane(path.partition("/")[0]).aging
        if lane.prio is not None:
            return 100 - lane.prio, 100 - lane.prio
        if aging and "/" not in path:
            prios = [100 - job.data.prio for job in fronts]
            return min(prios), max(prios)
        levels = [self.level(child) for child in self.children(path)]
        found = [level for level in levels if level] + [(self.job_level(job),) * 2 for job in self.own(path)[:1]]
        return min(low for low, _ in found), min(high for _, high in found)

    def served(self) -> set[str]:
        """The queues that may give something."""
        queues = self.children("")
        return queues if self.want.queues == ("*",) else queues & set(self.want.queues)

    def check_front(self, job: Job, queue_goes_on: bool) -> None:
        """The job goes before everything else that may start."""
        assert self.runnable(job), f"{job.key} is {job.status}, or its task is stopped"
        own = self.own(job.path)
        assert own[0].place >= job.place, f"{job.key} is not the first of {job.path}: {[one.key for one in own]}"
        path = job.path
        assert job.queue in self.served(), f"{job.key} is of no queue that the claim serves"
        for node in chain(path):
            assert self.open(node), f"{job.key} may not start: {node} is closed"
            parent = node.rpartition("/")[0]
            mine = self.level(node)
            assert mine is not None
            rivals = self.children(parent) if parent else set[str]() if queue_goes_on else self.served()
            best = min([level[1] for rival in rivals if (level := self.level(rival))], default=inf)
            if parent and (first := self.own(parent)):
                best = min(best, self.job_level(first[0]))
            assert mine[0] <= best, f"{job.key}: {node} stands at {mine}, something else at {best}"
        under = [level for child in self.children(path) if (level := self.level(child))]
        best = min([high for _, high in under], default=inf)
        assert self.job_level(job) <= best, f"{job.key} is at {self.job_level(job)}, a child of its lane at {best}"

    def plain(self, path: str) -> bool:
        """Whether nothing limits or prefers a lane: only there work is fetched ahead."""
        lanes = [self.model.lane(level) for level in chain(path)]
        return all(lane.cap is None and lane.rate is None and lane.prio is None for lane in lanes)


def claim(model: Model, session: str, want: Want, got: Claims) -> None:
    """Takes over what a claim got, after checking each job of it."""
    walk = Walk(model, want)
    group = want.members > 1 or want.units > 1
    assert len(got.jobs) <= (want.members if group else want.n + want.ahead)
    before = ""
    for i, one in enumerate(got.jobs):
        job = model.jobs.get(one.key)
        assert job is not None, f"{one.key} is no job"
        if not (group and i):
            # Jobs of an aging queue are taken turn by turn: within one, others wait even at a higher priority.
            walk.check_front(job, job.queue == before and bool(model.lane(job.queue).aging))
        else:
            assert job.place <= walk.own(job.path)[0].place, f"{one.key} is not the next of its lane"
            assert one.claim == got.jobs[0].claim
        if i >= want.n and not group:
            assert walk.plain(job.path), f"{one.key} was fetched ahead from a lane with a limit or a priority"
        before = job.queue
        _start(model, "" if want.lease else session, want, job, one)
    if len(got.jobs) < want.n and not group:
        left = [queue for queue in walk.served() if walk.level(queue)]
        assert not left, f"the claim left {left} of which jobs may start"


def set_deadline(model: Model, run: Run, lease: int) -> None:
    """A lease from now on, or 0 for the session's; the job's timeout stays in force."""
    timeout = model.jobs[run.key].option("t")
    deadlines: list[tuple[int, Literal["l", "t"]]] = [(model.now + lease, "l")] if lease else []
    if timeout != -1:
        deadlines.append((run.started + timeout + 5000, "t"))
    run.deadline, run.kind = min(deadlines, default=(0, ""))


def _start(model: Model, session: str, want: Want, job: Job, one: Claimed) -> None:
    assert job.at[0] <= model.now
    attempt = job.counts.a + 1
    counts = (attempt, job.counts.f, job.counts.s, job.counts.o)
    assert one.counts == counts, f"{one.key} comes with counts {one.counts}, should with {counts}"
    group = want.members > 1 or want.units > 1
    caps = [lane.cap for path in chain(job.path) if (lane := model.lane(path)).cap is not None]
    units = min([want.units, *caps])
    run = Run(one.key, one.claim, session, job.path, model.now, job.place, attempt, 0, "", group, units)
    set_deadline(model, run, want.lease)
    model.runs[one.key] = run
    job.status = "running"
    for path in chain(job.path):
        lane = model.lane(path)
        assert lane.cap is None or model.used(path) <= lane.cap, f"{path} runs more than its cap of {lane.cap}"
        if lane.rate:
            assert lane.tokens(model.now) >= 1, f"{path} starts more than its rate of {lane.rate}"
            lane.starts.append((model.now, f"{one.claim} {job.id}"))
