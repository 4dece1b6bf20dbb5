"""Every public operation, each with what it answers on a server that is full, and on one that lost everything.

`missing()` compares the table with the classes themselves, so that an operation which is added is not forgotten here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from typing import Any, Final, TypeAlias

from headrace import Claim, ClaimLost, Headrace, Job, JobNotFound, Lane, Queue, QueueFull, ResultTimeout
from headrace.queues.lane import TaskRules
from tests.queues.awaited import awaited, plain

CLASSES: Final = (Headrace, Queue, Lane, TaskRules, Job, Claim)
#: what asks no server, or ends the connection
LOCAL: Final = {
    "Headrace.at_site", "Headrace.close", "Headrace.queue", "Headrace.task_rules", "Queue.job", "Queue.lane",
    "Claim.end",
}  # fmt: skip


@dataclass(slots=True)
class Ground:
    """A queue with a running job, a waiting one, and a dead letter, in one lane."""

    app: Headrace
    loop: asyncio.Runner | None
    q: Queue
    lane: Lane
    rules: TaskRules
    claim: Claim
    runs: Job
    dead: Job

    def first_lease(self) -> Claim:
        """The first of an endless iterator, whose job is there already or comes in a moment."""
        real: Queue = plain(self.q)
        late = Timer(0.2, self._enqueue_late)
        late.start()
        try:
            return next(real.leases(30)) if self.loop is None else self.loop.run(_first(real.aleases(30)))
        finally:
            late.join()

    def _enqueue_late(self) -> None:
        with suppress(QueueFull):
            plain(self.q).enqueue("late", id="w")


async def _first(claims: AsyncIterator[Claim]) -> Claim:
    return await anext(claims)


def ground(app: Headrace, loop: asyncio.Runner | None) -> Ground:
    """The same for every operation; with a loop, each is awaited on it."""
    shown = app if loop is None else awaited(app, loop)
    q = shown.queue("q")
    dead = q.enqueue("dead", id="f", lane="l")
    q.lease(30)[0].fail("bad")
    runs = q.enqueue("runs", id="x", lane="l")
    (claim,) = q.lease(30)
    q.enqueue("waits", id="w", lane="l")
    return Ground(shown, loop, q, q.lane("l"), shown.task_rules("t"), claim, runs, dead)


Expected: TypeAlias = Callable[[Any], bool] | type[Exception]
Operation: TypeAlias = tuple[Callable[[Ground], Any], Expected, Expected]


def same(value: object) -> Callable[[Any], bool]:
    """The answer is that value."""
    return lambda answer: answer == value and type(answer) is type(value)


def ids(*names: str) -> Callable[[Any], bool]:
    """The answer is a list of jobs or claims with these ids."""
    return lambda answer: [one.id for one in answer] == list(names)


def _ruled(name: str, of: Callable[[Ground], Any]) -> dict[str, Operation]:
    return {
        f"{name}.pause": (lambda g: of(g).pause("why"), same(True), same(True)),
        f"{name}.resume": (lambda g: of(g).resume(), same(False), same(False)),
        f"{name}.block": (lambda g: of(g).block("why"), same(True), same(True)),
        f"{name}.unblock": (lambda g: of(g).unblock(), same(False), same(False)),
    }


def _lane(name: str, of: Callable[[Ground], Any], lanes: list[str]) -> dict[str, Operation]:
    return {
        **_ruled(name, of),
        f"{name}.set": (lambda g: of(g).set(cap=5), same(None), same(None)),
        f"{name}.forget": (lambda g: of(g).forget(), same(None), same(None)),
        f"{name}.counts": (lambda g: of(g).counts(), lambda c: c.running == 1, lambda c: c.running == 0),
        f"{name}.jobs": (lambda g: list(of(g).jobs()), ids("w"), ids()),
        f"{name}.lanes": (lambda g: of(g).lanes(), same(lanes), same([])),
    }


#: operation -> how it is called; what it answers where the server is full; and where it lost everything
OPERATIONS: Final[dict[str, Operation]] = {
    "Headrace.lane": (lambda g: g.app.lane("new", queue="q", cap=3).path, same("q/new"), same("q/new")),
    "Headrace.failure_jobs": (lambda g: g.app.failure_jobs("q"), same(None), same(None)),
    "Headrace.queue_names": (lambda g: g.app.queue_names(), same(["q"]), same([])),
    "Headrace.counts": (lambda g: g.app.counts(), lambda all: all["q"].running == 1, same({})),
    "Headrace.audit": (lambda g: g.app.audit(repair=True), same([]), same([])),
    "Headrace.history": (lambda g: g.app.history(), ids("f"), ids()),
    "Headrace.events": (lambda g: list(g.app.events()), lambda pages: len(pages) == 1, same([])),
    "Headrace.set_history": (lambda g: g.app.set_history(max_events=1000), same(None), same(None)),
    **_lane("Queue", lambda g: g.q, ["l"]),
    "Queue.enqueue": (lambda g: g.q.enqueue("new").outcome, QueueFull, same("added")),
    "Queue.enqueue_many": (lambda g: g.q.enqueue_many([1, 2], ids=["a", "b"]), QueueFull, ids("a", "b")),
    "Queue.cancel": (lambda g: g.q.cancel("w"), same(True), same(False)),
    "Queue.lease": (lambda g: g.q.lease(30), ids("w"), ids()),
    "Queue.leases": (lambda g: g.first_lease().id, same("w"), same("w")),
    "Queue.complete_many": (lambda g: g.q.complete_many([g.claim]), same([True]), same([False])),
    "Queue.retry_failed": (lambda g: g.q.retry_failed(), same(1), same(0)),
    "Queue.drop_failed": (lambda g: g.q.drop_failed(), same(1), same(0)),
    **_lane("Lane", lambda g: g.lane, []),
    **_ruled("TaskRules", lambda g: g.rules),
    "Job.status": (lambda g: g.runs.status(), same("running"), same(None)),
    "Job.info": (lambda g: g.runs.info(), lambda info: info.data == "runs", JobNotFound),
    "Job.explain": (lambda g: g.runs.explain().status, same("running"), same("")),
    "Job.progress": (lambda g: g.runs.progress(), same(None), same(None)),
    "Job.result": (lambda g: g.runs.result(timeout=0.1), ResultTimeout, JobNotFound),
    "Job.cancel": (lambda g: g.runs.cancel(running=True), same(True), same(False)),
    "Job.retry": (lambda g: g.dead.retry(), same(True), same(False)),
    "Claim.complete": (lambda g: g.claim.complete("result"), same(True), same(False)),
    "Claim.retry": (lambda g: g.claim.retry("again", delay=0), same("waiting"), ClaimLost),
    "Claim.fail": (lambda g: g.claim.fail("bad"), same("failed"), ClaimLost),
    "Claim.release": (lambda g: g.claim.release(), same("waiting"), ClaimLost),
    "Claim.abandon": (lambda g: g.claim.abandon(), same("waiting"), ClaimLost),
    "Claim.extend": (lambda g: g.claim.extend(60), same(True), ClaimLost),
    "Claim.report": (lambda g: g.claim.report(0.5, "half"), same(True), ClaimLost),
}  # fmt: skip


def public() -> Iterator[str]:
    """The methods of all public classes; an asynchronous twin goes by its plain name."""
    for kind in CLASSES:
        names = {name for name, _ in inspect.getmembers(kind, inspect.isroutine) if not name.startswith("_")}
        twins = {"a" + name for name in names} & names
        assert all(_awaits(getattr(kind, name)) for name in twins), twins
        yield from (f"{kind.__name__}.{name}" for name in names - twins)


def _awaits(method: Any) -> bool:
    found = inspect.unwrap(method)
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(found)


def missing() -> set[str]:
    """What is public and not in the table, or in the table and not public."""
    return set(public()) ^ (set(OPERATIONS) | LOCAL)
