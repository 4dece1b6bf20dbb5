"""The indexes of eligible children: each holds exactly those that may start something, at their level."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.state import State, node_settings

BAND, AGED, STEP = 1e13, 1e9, 32768


@dataclass(slots=True)
class Settings:
    """What a node's hash says about it."""

    cap: int | None
    rate: tuple[int, int] | None
    prio: int | None
    not_before: int
    untils: list[float]
    aging: int
    """Of its queue; 0 for none."""


def settings(state: State, path: str) -> Settings:
    """The settings of a node, rules included."""
    s = node_settings(state, path)
    rules = [s[name]["until_"] or math.inf for name in ("pa", "bl") if name in s]
    rate = (s["rn"], s["rw"]) if "rn" in s else None
    aging = node_settings(state, path.partition("/")[0]).get("ag", 0)
    return Settings(s.get("c"), rate, s.get("p"), s.get("nb", 0), rules, aging)


def barrier(state: State, path: str) -> float:
    """Until when a node may start nothing: 0 when it may now, infinity when time alone changes nothing."""
    s = settings(state, path)
    untils = [until for until in s.untils if until > state.now]
    if untils:
        return max(untils)
    if s.cap is not None and state.number(path, "x") >= s.cap:
        return math.inf
    if s.not_before > state.now:
        return s.not_before
    if s.rate:
        n, window = s.rate
        starts = sorted(at for at in state.zset("g:" + path).values() if at > state.now - window)
        if len(starts) >= n:
            return starts[len(starts) - n] + window
    return 0


def index_problems(state: State) -> Iterator[str]:
    """Compares each index with what it follows from."""
    for path in _nodes(state):
        yield from _entry(state, path)
    for parent, index in state.named("i:", "zsets").items():
        for seg in index:
            if seg and seg not in state.set("c:" + parent):
                yield f"the index of {parent!r} holds {seg}, which is no child"
        own = state.zset("z:" + parent)
        if parent and (bool(own) != ("" in index)):
            yield f"the index of {parent} has {list(index)}, its own jobs are {list(own)}"
        if "" in index and own:
            band = AGED if settings(state, parent).aging else BAND
            if index[""] // band != job_level(state, parent, next(iter(own.values()))):
                yield f"own jobs of {parent} stand at level {index[''] // band}: {own}"


def _entry(state: State, path: str) -> Iterator[str]:
    """Whether a node stands where it belongs; time may have opened what a timer is due to put in."""
    parent, _, seg = path.rpartition("/")
    index, entries = state.zset("i:" + parent), _entries(state, path)
    until = barrier(state, path)
    timer = state.zset("timers").get(path, math.inf)
    if seg in index:
        if not entries:
            yield f"{path} has nothing to start but stands in the index"
        elif until:
            yield f"{path} may start nothing until {until} but stands in the index"
        else:
            yield from _level(state, path, parent, index[seg])
    elif entries and not until and timer > state.now:
        yield f"{path} may start {entries} but is not in the index"
    elif entries and state.now < until < timer and until < math.inf:
        yield f"{path} opens at {until}, its timer is at {timer}"


def _nodes(state: State) -> set[str]:
    return {f"{parent}/{seg}" if parent else seg for parent, segs in state.named("c:", "sets").items() for seg in segs}


def _entries(state: State, path: str) -> dict[str, float]:
    return state.zset(("i:" if state.number(path, "k") else "z:") + path)


def job_level(state: State, path: str, score: float) -> float:
    """The level that a job's score stands for."""
    aging = settings(state, path).aging
    return min(score // STEP // aging, 8999999) if aging else score // BAND


def _level(state: State, path: str, parent: str, score: float) -> Iterator[str]:
    s = settings(state, path)
    stands = score // (AGED if s.aging and parent else BAND)
    right: float
    if s.prio is not None and not (s.aging and parent):
        right = 100 - s.prio
    elif not s.aging or parent:
        first = next(iter(_entries(state, path).values()))
        is_index = state.number(path, "k") > 0
        right = first // (AGED if s.aging else BAND) if is_index else job_level(state, path, first)
        if s.prio is not None:
            right = max(0, right + _head(state, path) - s.prio)
    else:
        right = 100 - _head(state, path)
    if stands != right:
        yield f"{path} stands in the index of {parent!r} at level {stands}, should at {right}"


def _head(state: State, path: str) -> int:
    """The priority of the job that goes first under a node of an aging queue."""
    while state.number(path, "k"):
        seg = next(iter(state.zset("i:" + path)))
        if not seg:
            break
        path = f"{path}/{seg}"
    return 100 - int(next(iter(state.zset("z:" + path).values())) % 128)
