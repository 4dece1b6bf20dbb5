"""The held twin of a running job: what it becomes, for each way in which the run may end (E19)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.model.state import State
from tests.tools.shard import Ask, Claimed, Shard


def running_with_twin(shard: Shard, twin: Ask, **options: Any) -> Claimed:
    """A job "1" that failed once before, runs, and has a twin."""
    shard.enqueue("q", [Ask("1", payload="old", options={"b": 0, "x": 0, **options})])
    (job,) = shard.take(1)
    assert shard.end(job, "r") == "R"
    (job,) = shard.take(1)
    assert shard.enqueue("q", [twin])[0] == "h"
    return job


def only(shard: Shard, queue: str = "q") -> Claimed:
    """The one job that may run."""
    jobs = shard.take(5, queue)
    assert len(jobs) == 1
    return jobs[0]


def payload(job: Claimed) -> str:
    return job.record.rpartition(b"\x01")[2].decode()


ENDS = {"c": "C", "f": "F"}


@pytest.mark.parametrize("op", ENDS)
def test_when_the_run_ends_the_job_the_twin_becomes_the_next(shard: Shard, op: str) -> None:
    job = running_with_twin(shard, Ask("1", payload="new", prio=70, options={"f": 5}))
    assert shard.counts("q") == [(0, 0, 1, 1, 0, 0)]
    assert shard.end(job, op, "the result" if op == "c" else None) == ENDS[op]
    twin = only(shard)
    assert (payload(twin), twin.counts) == ("new", (1, 0, 0, 0))
    outcome = State(shard).named("r:", "strings")["q/1"]
    assert outcome.startswith(b"d 1 " if op == "c" else b"f 1 ")
    assert shard.counts("q") == [(0, 0, 0, 1, 0, 0)]


def test_a_cancelled_run_makes_way_for_its_twin(shard: Shard) -> None:
    job = running_with_twin(shard, Ask("1", payload="other"))
    shard.enqueue("q", [Ask("1", payload="new")])
    assert shard.cancel("q", ["1"], running=True) == "b"
    assert shard.enqueue("q", [Ask("1", payload="newest")])[0] == "h"
    assert shard.end(job, "r") == "X"
    assert payload(only(shard)) == "newest"


@pytest.mark.parametrize(("op", "update", "resets"), list(product(["r", "t", "a", "l", "reap"], [0, 1], [None, 0, 1])))
def test_when_the_job_goes_on_the_twin_is_laid_over_it(shard: Shard, op: str, update: int, resets: int | None) -> None:
    """Its data by update_data, its counts by reset_counts (which follows update_data)."""
    twin = Ask("1", payload="new", update_data=update, reset_counts=resets)
    job = running_with_twin(shard, twin)
    if op == "reap":
        shard.advance(30_000)
    else:
        shard.end(job, op, "-1 -1 " if op in "rtl" else "")
    again = only(shard)
    assert payload(again) == ("new" if update else "old")
    failures, stalls, timeouts = again.counts[1:]
    ended = {"r": (2, 0, 0), "t": (1, 0, 1), "a": (1, 1, 0), "reap": (1, 1, 0)}.get(op, (1, 0, 0))
    assert (failures, stalls, timeouts) == ((0, 0, 0) if twin.resets else ended)
    assert shard.counts("q") == [(0, 0, 0, 1, 0, 0)]


@pytest.mark.parametrize("update", [0, 1])
def test_whoever_waits_for_either_generation_finds_the_job_that_went_on(shard: Shard, update: int) -> None:
    job = running_with_twin(shard, Ask("1", payload="new", update_data=update))
    shard.end(job, "r")
    goes_on = State(shard).records["q/1"].gen
    assert (goes_on == int.from_bytes(job.record[8:14])) is not bool(update)
    pointers = {key: text for key, text in State(shard).named("r:", "strings").items() if text.startswith(b"m")}
    assert len(pointers) == 1
    (pointer,) = pointers.values()
    assert pointer.split()[1] == str(goes_on).encode()


TIMES = {0: 7_000, 1: 90_000, 2: 90_000, 3: 7_000}


@pytest.mark.parametrize(("how", "due"), TIMES.items())
def test_the_time_of_a_retry_and_of_the_twin_are_merged(shard: Shard, how: int, due: int) -> None:
    job = running_with_twin(shard, Ask("1", delay=90_000, update_run_at=how))
    assert shard.end(job, "r", "-1 7000 error") == "R"
    assert State(shard).zset("due") == {"q/1": shard.now + due}


@pytest.mark.parametrize("how", [0, 1, 2, 3])
def test_a_release_without_a_time_and_a_twin_with_one(shard: Shard, how: int) -> None:
    """Comparing with a time that was not given stopped the call half way."""
    job = running_with_twin(shard, Ask("1", delay=90_000, update_run_at=how))
    assert shard.end(job, "l") == "L"
    due = State(shard).zset("due")
    assert due == ({"q/1": shard.now + 90_000} if how in (1, 2) else {})
    assert shard.counts("q")[0][:2] == ((1, 0) if due else (0, 1))


def test_twins_merge_into_one(shard: Shard) -> None:
    job = running_with_twin(shard, Ask("1", payload="a", delay=50_000, lane="x"))
    first = State(shard).hash("h:q")["1"]
    shard.enqueue("q", [Ask("1", payload="b", delay=20_000, update_run_at=2, prio=90, letters="p")])
    shard.enqueue("q", [Ask("1", payload="c", update_data=0, update_run_at=3, delay=70_000, lane="y", letters="l")])
    assert shard.counts("q", "q/x", "q/y") == [(0, 0, 1, 1, 0, 0), (0, 0, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)]
    assert State(shard).hash("h:q")["1"] != first
    shard.end(job)
    assert State(shard).zset("due") == {"q/1": shard.now + 50_000}
    record = State(shard).records["q/1"]
    assert (record.payload, record.prio, record.lane) == ("b", 90, "y")


def test_a_merge_forgets_no_flag_of_the_first(shard: Shard) -> None:
    job = running_with_twin(shard, Ask("1", payload="new", reset_counts=1, options={"f": 3}, letters="f"))
    shard.enqueue("q", [Ask("1", update_data=0, update_run_at=0, reset_counts=0)])
    assert shard.end(job, "r") == "R"
    (again,) = shard.take(1)
    assert (payload(again), again.counts) == ("new", (3, 0, 0, 0))
    assert State(shard).records["q/1"].options["f"] == 3


def test_a_twin_that_any_merge_made_due_at_its_time_stays_so(shard: Shard) -> None:
    job = running_with_twin(shard, Ask("1", delay=9_000, update_run_at=1))
    shard.enqueue("q", [Ask("1", delay=5_000, update_run_at=2)])
    assert shard.end(job, "r", "-1 20000 error") == "R"
    assert State(shard).zset("due") == {"q/1": shard.now + 9_000}


def test_the_lane_of_a_twin_that_went_elsewhere_is_forgotten(shard: Shard) -> None:
    job = running_with_twin(shard, Ask("1", lane="x"))
    shard.enqueue("q", [Ask("1", lane="y", letters="l")])
    assert shard.end(job, "r") == "R"
    assert State(shard).records["q/1"].lane == "y"
    shard.take(1)
    shard.advance(61_000)
    shard.take(1)
    assert State(shard).set("c:q") == {"y"}


def test_a_held_twin_can_be_cancelled_alone(shard: Shard) -> None:
    job = running_with_twin(shard, Ask("1", payload="new"))
    assert shard.cancel("q", ["1"]) == "h"
    assert shard.cancel("q", ["1"]) == "-"
    assert shard.end(job) == "C"
    assert shard.take(1) == []


def test_if_exists_looks_at_the_running_one(shard: Shard) -> None:
    running_with_twin(shard, Ask("1", payload="new"))
    assert shard.enqueue("q", [Ask("1", payload="ignored")], "i")[0] == "i"
    assert len(State(shard).hash("h:q")) == 1


def test_an_id_named_twice_in_one_call_is_one_job(shard: Shard) -> None:
    """It was added twice, and counted twice."""
    asks = [Ask("1", payload="a"), Ask("2"), Ask("1", payload="b", lane="x", letters="l"), Ask("1", payload="c")]
    letters, gens = shard.enqueue("q", asks)
    assert (letters, gens[0], gens[2]) == ("aauu", gens[3], gens[0])
    assert shard.counts("q", "q/x") == [(0, 2, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0)]
    assert State(shard).records["q/1"].payload == "c"


def test_an_id_named_twice_while_it_runs_is_one_twin(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")])
    shard.take(1)
    assert shard.enqueue("q", [Ask("1", payload="a"), Ask("1", payload="b")])[0] == "hh"
    assert shard.counts("q") == [(0, 0, 1, 1, 0, 0)]
