"""What is true of any shard between two calls, whatever was called: each key is checked against the others, both ways.

Truth is what the functions write first: records, places, runs, twins, settings. Everything else follows from it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.model.index import index_problems, settings
from tests.model.jobs import chain, path_of
from tests.model.state import State, node_settings, record
from tests.tools.luapack import unpack
from tests.tools.shard import text

PREFIXES = {*"cefghijnprstwz", "ss", "wl"}
SINGLES = {
    *(
        "chores",
        "clock",
        "dead",
        "dl",
        "due",
        "grace",
        "hist",
        "kc",
        "leases",
        "marks",
        "meta",
        "parked",
        "pr",
        "rules",
        "run",
    ),
    *("sessions", "timers", "waiters", "watch"),
}


def problems(state: State) -> list[str]:
    """Everything that is wrong with a shard, in words."""
    checks = (_keys, _places, _runs, _sessions, _counters, _children, _lanes, _beside, index_problems)
    return [problem for check in checks for problem in check(state)]


def places(state: State) -> dict[str, list[str]]:
    """Where each job stands: names of keys, by job."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, jobs in state.named("z:", "zsets").items():
        for id in jobs:
            found[f"{path.partition('/')[0]}/{id}"].append("z:" + path)
    for key in state.zset("due"):
        found[key].append("due")
    for key in state.runs:
        found[key].append("run")
    for queue, jobs in state.named("f:", "zsets").items():
        for id in jobs:
            found[f"{queue}/{id}"].append("f:" + queue)
    for name, jobs in state.named("p:", "zsets").items():
        for id in jobs:
            found[f"{name.partition('/')[0]}/{id}"].append("p:" + name)
    return found


def twins(state: State) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Queue, id and content of each held twin."""
    for queue, held in state.named("h:", "hashes").items():
        for id, blob in held.items():
            yield queue, id, unpack(blob)


def _keys(state: State) -> Iterator[str]:
    for name in (*state.strings, *state.hashes, *state.sets, *state.zsets):
        prefix, colon, _ = name.partition(":")
        if name.startswith("!") or (prefix not in PREFIXES if colon else name not in SINGLES):
            yield f"a key that nobody knows: {name}"


def _places(state: State) -> Iterator[str]:
    found = places(state)
    for key, job in state.records.items():
        queue, _, _ = key.partition("/")
        path = path_of(queue, job.lane)
        right = {"z:" + path, "due", "run", "f:" + queue, f"p:{queue}/{job.options.get('n', '')}"}
        if len(found[key]) != 1 or found[key][0] not in right:
            yield f"job {key} of lane {path} stands in {found[key]}"
        elif found[key][0].startswith("z:"):
            score = state.zset("z:" + path)[key.partition("/")[2]]
            aging = node_settings(state, queue).get("ag")
            level = score % 128 if aging else score // 1e13
            if 100 - level != job.prio:
                yield f"job {key} of priority {job.prio} stands in {path} as {100 - level}"
    for key in found.keys() - state.records.keys():
        yield f"{found[key]} names {key}, which has no record"


def _runs(state: State) -> Iterator[str]:
    units: Counter[str] = Counter()
    members: Counter[str] = Counter()
    deadlines: dict[str, float] = {}
    for key, run in state.runs.items():
        if not run["group"] or not members[run["claim"]]:
            units.update(dict.fromkeys(chain(run["path"]), run["units"]))
        members[run["claim"]] += run["group"]
        if run["deadline"]:
            deadlines[key] = run["deadline"]
        elif run["session"] not in state.zset("dl"):
            yield f"run {key} of session {run['session']!r} would never end: nothing has a deadline"
        queue = key.partition("/")[0]
        if key in state.records and path_of(queue, state.records[key].lane) != run["path"]:
            yield f"run {key} is of lane {run['path']}, its job of {state.records[key].lane!r}"
    found = {path: int(n.get("x", 0)) for path, n in state.named("n:", "hashes").items()}
    yield from _same("units of live claims (x)", units, {path: n for path, n in found.items() if n})
    yield from _same("members left (kc)", +members, {claim: int(n) for claim, n in state.hash("kc").items()})
    found = {key: int(at) for key, at in state.zset("dl").items() if "/" in key}
    yield from _same("deadlines of jobs (dl)", deadlines, found)
    for key, session in state.hash("marks").items():
        if key not in state.runs or state.runs[key]["session"] != text(session):
            yield f"{key} is marked as a job of {session!r}, which does not run it"


def _sessions(state: State) -> Iterator[str]:
    alive = {session for session, fields in state.named("ss:", "hashes").items() if "dead" not in fields}
    if alive != state.set("sessions"):
        yield f"sessions alive: {alive}, in the set: {state.set('sessions')}"
    timed = {key for key in state.zset("dl") if "/" not in key}
    if alive != timed:
        yield f"sessions alive: {alive}, with a deadline: {timed}"
    if int(state.hash("meta").get("trules", 0)) != len(state.hash("rules")):
        yield "meta counts other task rules than there are"


def _counters(state: State) -> Iterator[str]:
    truth: dict[str, Counter[str]] = defaultdict(Counter)

    def add(levels: list[str], field: str) -> None:
        for level in levels:
            truth[level][field] += 1

    for path, jobs in state.named("z:", "zsets").items():
        for _ in jobs:
            add(chain(path)[:-1], "r")
    for key, where in places(state).items():
        if key in state.records and where[0] != "run" and not where[0].startswith("z:"):
            path = path_of(key.partition("/")[0], state.records[key].lane)
            add(chain(path), {"due": "d"}.get(where[0], where[0][0]))
    for queue, id, twin in twins(state):
        add(chain(path_of(queue, _lane_of_twin(twin))), "h")
        if f"{queue}/{id}" not in state.runs:
            yield f"{queue}/{id} has a held twin but does not run"
    jobs_of = Counter(level for run in state.runs.values() for level in chain(run["path"]))
    for path in truth.keys() | state.named("n:", "hashes").keys():
        counted = state.number(path, "x") + state.number(path, "m")
        if counted != jobs_of[path]:
            yield f"{path} counts {counted} running jobs, in truth {jobs_of[path]}"
        stored = {field: state.number(path, field) for field in "rdhfp"}
        right = {field: truth[path][field] for field in "rdhfp"}
        if stored != right:
            yield f"counters of {path}: {stored}, in truth {right}"


def _lane_of_twin(twin: dict[str, object]) -> str:
    return record(str(twin["rec"]).encode("utf-8", "surrogateescape")).lane


def _children(state: State) -> Iterator[str]:
    nodes = state.named("n:", "hashes").keys() | {
        path for kind in ("zsets", "sets") for prefix in ("z:", "i:") for path in state.named(prefix, kind)
    }
    for path in nodes - {""}:
        if "e" not in state.hash("n:" + path):
            yield f"{path} is used but was never made"
        parent, _, seg = path.rpartition("/")
        if seg not in state.set("c:" + parent):
            yield f"{path} is not among the children of {parent!r}"
    for parent, children in state.named("c:", "sets").items():
        if parent and state.number(parent, "k") != len(children):
            yield f"{parent} counts {state.number(parent, 'k')} children, has {children}"
    for path, fields in state.named("n:", "hashes").items():
        if int(fields.get("k", 0)) and not state.set("c:" + path):
            yield f"{path} counts children that are not there"


def _lanes(state: State) -> Iterator[str]:
    for path, starts in state.named("g:", "zsets").items():
        if "rn" not in node_settings(state, path):
            yield f"starts of {path} are kept, which has no rate: {starts}"
    for path, fields in state.named("n:", "hashes").items():
        busy = any(int(fields.get(field, 0)) for field in "rdhfpkx")
        busy = busy or state.zset("z:" + path)
        kept = node_settings(state, path).get("keep") == 1 or _ruled(state, path)
        if "/" in path and not busy and not kept and "i:" + path not in state.zset("chores"):
            yield f"lane {path} is empty and nobody will forget it"


def _ruled(state: State, path: str) -> bool:
    """A lane that is paused or blocked without an end is not forgotten."""
    return math.inf in settings(state, path).untils


def _beside(state: State) -> Iterator[str]:
    found = places(state)
    for prefix in ("t:", "e:"):
        for queue, fields in state.named(prefix, "hashes").items():
            for id in fields:
                if f"{queue}/{id}" not in state.records:
                    yield f"{prefix}{queue} keeps {id}, which is no job"
    for key in state.hash("pr").keys() - state.runs.keys():
        yield f"pr keeps {key}, which does not run"
    parked = set(state.named("p:", "zsets"))
    if parked != state.set("parked"):
        yield f"tasks with parked jobs: {parked}, in the set: {state.set('parked')}"
    for key, where in found.items():
        keep = state.records[key].options.get("d", 1) if key in state.records else -1
        if where[0].startswith("f:") and keep != -1 and "f:" + key not in state.zset("chores"):
            yield f"dead letter {key} will never expire"
    for chore in state.zset("chores"):
        if chore.startswith("f:") and not any(where.startswith("f:") for where in found[chore[2:]]):
            yield f"a chore is left of a dead letter that is gone: {chore}"


def _same(what: str, right: object, stored: object) -> Iterator[str]:
    if dict(right) != dict(stored):  # type: ignore[call-overload]
        yield f"{what}: {dict(stored)}, in truth {dict(right)}"  # type: ignore[call-overload]
