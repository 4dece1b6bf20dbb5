"""What time does to the model: schedules, deadlines, dead sessions, expired dead letters; and sessions themselves."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tests.model.jobs import AT_ONCE, Session
from tests.model.model import Model


def housekeep(model: Model) -> None:
    """What each claim and heartbeat does first."""
    _promote(model)
    for task in [task for task, at in model.task_timers.items() if at <= model.now]:
        rules_changed(model, task)
    _reap(model)
    _expire(model)


def _promote(model: Model) -> None:
    due = [job for job in model.jobs.values() if job.status == "due" and job.at[0] <= model.now]
    for i, job in enumerate(sorted(due, key=lambda job: (job.at[0], job.key))):
        model.put(job, AT_ONCE, i=i)


def _reap(model: Model) -> None:
    forgive(model)
    late = [key for key, run in model.runs.items() if 0 < run.deadline <= model.now]
    for session in model.sessions.values():
        if session.deadline <= model.now and not session.dead:
            ends = forgiven(model, session.lease) if not session.forgiven else None
            session.forgiven = session.forgiven or ends is not None
            session.deadline = ends or session.deadline
            session.dead = session.deadline <= model.now
    _stall(model, late)
    dead = {name for name, session in model.sessions.items() if session.dead}
    _stall(model, [key for key, run in model.runs.items() if run.session in dead])
    _forget_leases(model)


def _leases(model: Model) -> set[int]:
    return {session.lease for session in model.sessions.values() if not session.dead}


def _forget_leases(model: Model) -> None:
    """What was noted of a lease goes with the last session that has it."""
    model.grace = {lease: woke for lease, woke in model.grace.items() if lease in _leases(model)}


def forgive(model: Model) -> None:
    """A silence of half a lease may have been the server's: noted for that lease."""
    silence = model.now - model.seen
    if model.seen and silence >= 10:
        model.grace |= dict.fromkeys((lease for lease in _leases(model) if silence > lease / 2), model.now)


def forgiven(model: Model, lease: int) -> int | None:
    """Until when a late session may come back."""
    ends = model.grace.get(lease, -lease) + lease
    return ends if model.now < ends else None


def _stall(model: Model, keys: list[str]) -> None:
    with model.at_once():
        for key in keys:
            run, job = model.take_down(key)
            dead = run.session in model.sessions and model.sessions[run.session].dead
            model.ended_badly(run, job, "o" if run.kind == "t" and not dead else "s")


def _expire(model: Model) -> None:
    for key, job in list(model.jobs.items()):
        keep = job.option("d")
        if job.status == "failed" and keep != -1 and job.at[0] + keep <= model.now:
            del model.jobs[key]


def unpark(model: Model, tasks: Sequence[str], queues: Sequence[str] = ("*",)) -> None:
    """Jobs of these queues that wait with these tasks come back, unless a rule stops the task."""
    for task in tasks:
        if model.task_stopped(task) is None:
            for job in model.jobs.values():
                mine = queues[0] == "*" or job.queue in queues
                if job.status == "parked" and mine and (job.option("n") or "") == task:
                    job.status = "ready"


def rules_changed(model: Model, task: str) -> None:
    """What is parked with a task comes back when no rule stops it; a timer sees to it when one stops it for a while."""
    ends = model.task_stopped(task)
    model.task_timers.pop(task, None)
    if ends is None:
        unpark(model, [task])
    elif ends < inf:
        model.task_timers[task] = int(ends)


def open_session(model: Model, name: str, lease: int, tasks: tuple[str, ...]) -> None:
    """A new session."""
    model.sessions[name] = Session(lease, model.now + lease, tasks)
    unpark(model, tasks)
    model.seen = model.now


def close(model: Model, name: str) -> int:
    """Its jobs go back; how many."""
    keys = [key for key, run in model.runs.items() if run.session == name]
    with model.at_once():
        for key in keys:
            run, job = model.take_down(key)
            model.released(run, job, AT_ONCE)
    model.sessions.pop(name, None)
    _forget_leases(model)
    model.seen = model.now
    return len(keys)


def heartbeat(model: Model, name: str) -> tuple[bool, list[str]]:
    """Whether it lives, and the jobs that are to be cancelled."""
    session = model.sessions.get(name)
    if not session or session.dead:
        return False, []
    forgive(model)
    silent = model.now - model.seen > session.lease / 2
    late = session.deadline <= model.now and not forgiven(model, session.lease) and not silent
    if not late:
        session.deadline = model.now + session.lease
        session.forgiven = False
    housekeep(model)
    model.seen = model.now
    if late:
        return False, []
    unpark(model, session.tasks)
    marked = [key for key, run in model.runs.items() if run.session == name and model.jobs[key].counts.c]
    return True, sorted(marked)
