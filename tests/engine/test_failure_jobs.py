"""The job of the failure handler: made by whatever lets a job fail, in the same call (E20)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.model.invariants import problems
from tests.model.state import State
from tests.tools.luapack import unpack
from tests.tools.shard import Ask, Shard

ONCE = {"f": 0, "s": 0, "o": 0}


@pytest.fixture
def watched(shard: Shard) -> Shard:
    """A shard whose queue "q" has a failure handler."""
    shard.lane("q", fh={"f": 3})
    return shard


def fail(shard: Shard, id: str, op: str = "f") -> None:
    (job,) = shard.take(1, "q")
    assert job.id == id
    assert shard.end(job, op) == "F"


def contents(payload: bytes) -> tuple[bytes, dict[str, Any], bytes]:
    """Error, what is known of the job, and its data."""
    body = payload
    (size,) = struct.unpack_from(">I", body)
    error, body = body[4 : 4 + size], body[4 + size :]
    (size,) = struct.unpack_from(">I", body)
    return error, unpack(body[4 : 4 + size]), body[4 + size :]


def test_it_carries_error_counts_and_data(watched: Shard) -> None:
    watched.enqueue("q", [Ask("1", payload="the data", lane="x", prio=70)])
    fail(watched, "1")
    (job,) = watched.take(1, "q-fail")
    assert job.id == "1"
    head, codec, payload = job.record.partition(b"\x03\x00\x00\x00\x05error")
    assert (head[0], codec[:1]) == (1, b"\x03")
    error, info, data = contents(codec[1:] + payload)
    assert (error, data) == (b"error", b"\x01the data")
    assert (info["queue"], info["lane"], info["priority"], info["failures"], info["attempts"]) == ("q", "x", 70, 1, 1)
    assert State(watched).records["q-fail/1"].options == {"f": 3}


@pytest.mark.parametrize("how", ["fail", "retry", "timeout", "abandon", "lease"])
def test_every_way_to_fail_makes_one(watched: Shard, how: str) -> None:
    watched.enqueue("q", [Ask("1", options=ONCE)])
    if how == "lease":
        watched.take(1, "q", lease=1_000)
        watched.advance(1_000)
        watched.take(1, "nothing")
    else:
        fail_op = {"fail": "f", "retry": "r", "timeout": "t", "abandon": "a"}[how]
        (job,) = watched.take(1, "q")
        assert watched.end(job, fail_op, "-1 -1 error" if fail_op in "rft" else "") == "F"
    assert watched.counts("q", "q-fail") == [(0, 0, 0, 0, 1, 0), (0, 1, 0, 0, 0, 0)]


def test_none_is_made_without_a_handler(watched: Shard) -> None:
    watched.lane("q", fh="-")
    watched.enqueue("q", [Ask("1")])
    fail(watched, "1")
    assert watched.counts("q-fail") == [(0, 0, 0, 0, 0, 0)]


def test_one_that_waits_or_failed_is_replaced(watched: Shard) -> None:
    for end in ("waits", "fails", "waits"):
        watched.enqueue("q", [Ask("1", payload=end)])
        fail(watched, "1")
        state = State(watched)
        assert list(state.hash("j:q-fail")) == ["1"]
        assert watched.counts("q-fail") == [(0, 1, 0, 0, 0, 0)]
        assert not state.hash("e:q-fail"), "the error of one that failed before is not that of the new one"
        if end == "fails":
            (job,) = watched.take(1, "q-fail")
            assert watched.end(job, "f") == "F"


def test_one_that_runs_is_left_alone_and_further_ones_stand_beside_it(watched: Shard) -> None:
    """The third was written over the second, which ran."""
    watched.enqueue("q", [Ask("1")])
    fail(watched, "1")
    (running,) = watched.take(1, "q-fail")
    for _ in range(2):
        watched.replay("q")
        fail(watched, "1")
    assert watched.counts("q-fail") == [(0, 1, 0, 1, 0, 0)]
    (second,) = watched.take(5, "q-fail")
    watched.replay("q")
    fail(watched, "1")
    (third,) = watched.take(5, "q-fail")
    assert len({running.id, second.id, third.id}) == 3
    assert [watched.end(job) for job in (running, second, third)] == ["C", "C", "C"]
    assert not problems(State(watched))
