"""The model against all that the server holds: every field of every job, twin, run, session and outcome.

Where the server had a choice the model adopts it here.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from tests.model.invariants import places
from tests.model.jobs import Data, Job
from tests.model.model import Model
from tests.model.state import Record, State, events, record
from tests.tools.luapack import unpack


def compare(model: Model, state: State) -> None:
    """Raises AssertionError at the first difference."""
    assert model.jobs.keys() == state.records.keys(), "jobs"
    stand = places(state)
    for key, job in model.jobs.items():
        _place(model, job, stand[key][0], state)
        _data(key, job.data, state.records[key])
        _beside(job, state)
    _order(model, state)
    _runs(model, state)
    _sessions(model, state)
    _starts(model, state)
    _forgotten(model, state)
    outcomes = {key: f"{o.status} {o.gen} {o.free_at} {o.body}".strip() for key, o in model.outcomes.items()}
    assert {key: _outcome(blob) for key, blob in state.named("r:", "strings").items()} == outcomes, "outcomes"


def _place(model: Model, job: Job, stands: str, state: State) -> None:
    if job.status == "ready" and stands.startswith("p:") and model.task_stopped(job.option("n")):
        job.status = "parked"  # a claim came across it
    right = {"ready": "z:" + job.path, "due": "due", "running": "run", "failed": "f:" + job.queue}
    parking = f"p:{job.queue}/{job.option('n') or ''}"
    assert stands == right.get(job.status, parking), f"{job.key}: {job.status}, stands in {stands}"
    at = state.zset("due").get(job.key, state.zset("f:" + job.queue).get(job.id, 0))
    assert job.at[0] <= at <= job.at[1], f"{job.key}: {job.status} at {at}, should be within {job.at}"
    job.at = (int(at), int(at))


def _data(key: str, data: Data, found: Record) -> None:
    data.gen = found.gen if data.gen == -1 else data.gen
    payload = found.payload if data.payload is None else data.payload
    right = Record(data.prio, data.queued, data.gen, data.lane, data.options, payload)
    assert found == right, f"{key}: {found}, should be {right}"


def _beside(job: Job, state: State) -> None:
    blob = state.hash("t:" + job.queue).get(job.id)
    c = job.counts
    right = {"a": c.a, "f": c.f, "s": c.s, "o": c.o} | ({"c": c.c} if c.c else {}) if c.kept else None
    found = unpack(blob) if blob else None
    assert found == right, f"{job.key} has counts {found}, should have {right}"
    assert job.error == (job.id in state.hash("e:" + job.queue)), f"{job.key}: last error kept: {not job.error}"
    held = state.hash("h:" + job.queue).get(job.id)
    assert (held is None) == (job.twin is None), f"{job.key}: twin held: {held}"
    if held and job.twin:
        twin: dict[str, Any] = unpack(held)
        _data(f"twin of {job.key}", job.twin.data, record(twin["rec"].encode("utf-8", "surrogateescape")))
        flags = (twin["at"], twin["d"], twin["a"], twin["c"], set(twin["letters"]))
        t = job.twin
        assert flags == (t.at, t.update_data, t.update_run_at, t.resets, set(t.letters)), f"twin of {job.key}: {flags}"


def _order(model: Model, state: State) -> None:
    for path, scores in state.named("z:", "zsets").items():
        queue = path.partition("/")[0]
        jobs = [model.jobs[f"{queue}/{id}"] for id in scores]
        for before, after in pairwise(jobs):
            in_order = (before.place, "") <= (after.place, "")
            assert in_order, f"{path}: {before.key} {before.place} stands before {after.key} {after.place}"
        for i, job in enumerate(jobs):
            job.place = (job.place[0], job.place[1], i if _tied(job, jobs) else job.place[2])


def _tied(job: Job, jobs: list[Job]) -> bool:
    return sum(one.place[:2] == job.place[:2] for one in jobs) > 1


def _runs(model: Model, state: State) -> None:
    names = ("claim", "session", "path", "attempt", "deadline", "kind", "units")
    right = {key: tuple(getattr(run, name) for name in names) for key, run in model.runs.items()}
    found = {key: tuple(run[name] for name in names) for key, run in state.runs.items()}
    assert found == right, f"runs: {found}, should be {right}"


def _sessions(model: Model, state: State) -> None:
    right = {name: session.deadline for name, session in model.sessions.items() if not session.dead}
    found = {name: at for name, at in state.zset("dl").items() if "/" not in name}
    assert found == right, f"deadlines of sessions: {found}, should be {right}"


def _starts(model: Model, state: State) -> None:
    for path, lane in model.lanes.items():
        if lane.rate:
            right = sorted(start for start in lane.starts if start[0] > model.now - lane.rate[1])
            log = state.zset("g:" + path).items()
            found = sorted((int(at), name) for name, at in log if at > model.now - lane.rate[1])
            assert found == right, f"starts of {path}: {found}, should be {right}"


def _forgotten(model: Model, state: State) -> None:
    """Lanes that the server no longer knows: nothing may have depended on them."""
    for path, lane in list(model.lanes.items()):
        if "e" not in state.hash("n:" + path):
            assert not lane.keep, f"{path} was forgotten, which was set up by hand"
            assert not lane.stopped(model.now), f"{path} was forgotten while it is stopped"
            del model.lanes[path]


def _outcome(blob: bytes) -> str:
    status, gen, _, free_at, body = blob.decode("utf-8", "surrogateescape").split(" ", 4)
    return f"{status} {gen} {free_at} {'' if body.startswith(chr(2)) else body}".strip()


def new_events(state: State, entries: int) -> Counter[tuple[str, str, int]]:
    """What the history says since its first `entries` entries: kind, job, attempt."""
    found: Counter[tuple[str, str, int]] = Counter()
    for _, fields in state.history[entries:]:
        found.update(events(fields[5]))
    return found
