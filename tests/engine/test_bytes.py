"""What one call reads of records is bounded by bytes (E25): calls stay short where jobs are big, however they grew."""

from __future__ import annotations

import pytest

from tests.model.state import State, node_settings
from tests.tools.shard import Ask, Finish, Shard, Want

BIG = "x" * 400_000
FEW = 4  # of these in a call: one more than fit into 1 MiB, since the last is read before it is known to be too much


def fill(shard: Shard, n: int, queue: str = "q", **more: object) -> None:
    for i in range(n):
        shard.enqueue(queue, [Ask(f"{i:02}", BIG, **more)])  # pyright: ignore[reportArgumentType]


def taken(shard: Shard, queue: str = "q") -> int:
    return len(shard.take(100, queue))


def test_jobs_that_grew_by_an_update(shard: Shard) -> None:
    shard.enqueue("q", [Ask(f"{i:02}") for i in range(12)])
    fill(shard, 12)
    assert 0 < taken(shard) <= FEW


def test_twins_that_became_jobs(shard: Shard) -> None:
    shard.enqueue("q", [Ask(f"{i:02}") for i in range(12)])
    jobs = shard.take(12)
    fill(shard, 12)
    shard.finish([Finish(job.key, job.claim) for job in jobs])
    assert 0 < taken(shard) <= FEW


def test_failure_jobs(shard: Shard) -> None:
    shard.lane("q", fh={})
    fill(shard, 12)
    while jobs := shard.take(100, "q"):
        assert {shard.end(job, "f") for job in jobs} == {"F"}
    assert shard.counts("q-fail")[0][1] == 12
    assert 0 < taken(shard, "q-fail") <= FEW


def test_due_jobs(shard: Shard) -> None:
    fill(shard, 12, delay=1000)
    shard.advance(2000)
    assert len(shard.take(1)) == 1
    assert 12 - FEW <= shard.counts("q")[0][0] < 12
    done = 1
    while jobs := shard.take(1):
        done += len(jobs)
    assert done == 12


def test_leases_that_ran_out(shard: Shard) -> None:
    fill(shard, 12)
    while shard.take(100, lease=1000):
        pass
    shard.advance(2000)
    shard.take(1, "nothing-here")
    assert 12 - FEW <= shard.counts("q")[0][3] < 12
    for _ in range(12):
        shard.take(1, "nothing-here")
    assert shard.counts("q")[0][:4] == (0, 12, 0, 0)


def test_a_session_that_died_or_closes(shard: Shard) -> None:
    fill(shard, 12)
    for session in ("dies", "closes"):
        shard.open(session)
        for _ in range(2):
            shard.claim(Want(100, lease=0), session)
    assert 0 < shard.close("closes")[0] <= FEW
    while shard.close("closes")[1]:
        pass
    running = shard.counts("q")[0][3]
    shard.open("lives", lease=60_000)
    for step in (4_000, 4_000, 2_000):
        shard.advance(step)
        shard.heartbeat("lives")
    assert running - FEW <= shard.counts("q")[0][3] < running
    for _ in range(12):
        shard.take(1, "nothing-here")
    assert shard.counts("q")[0][:4] == (0, 12, 0, 0)


def test_dead_letters_that_are_run_again(shard: Shard) -> None:
    fill(shard, 12)
    while jobs := shard.take(100):
        for job in jobs:
            shard.end(job, "f")
    moved, left = shard.numbered("replay", "admin", None, "q", "replay", 100)
    assert 0 < moved <= FEW
    assert left == 12 - moved
    ids = [f"{i:02}" for i in range(12)]
    moved, left = shard.numbered("replay", "admin", None, "q", "drop", 100, *ids[moved:])
    assert 0 < moved <= FEW
    assert left == 12 - 2 * moved


def test_parked_jobs_that_come_back(shard: Shard) -> None:
    shard.rule("task", "T", "pa", True)
    fill(shard, 12, options={"n": "T"})
    for _ in range(12):
        shard.take(100)
    assert shard.counts("q")[0][5] == 12
    shard.rule("task", "T", "pa", False)
    assert 12 - FEW <= shard.counts("q")[0][5] < 12
    done = 0
    for _ in range(12):
        done += len(shard.take(100))
    assert done == 12


def test_known_work_behind_big_jobs_of_a_stopped_task_does_not_wait(shard: Shard) -> None:
    fill(shard, 8, options={"n": "T"})
    shard.enqueue("q", [Ask("known")])
    shard.rule("task", "T", "pa", True)
    ids: list[str] = []
    for _ in range(8):
        got = shard.claim(Want(1, wait=5000, waiter="w"))
        assert got.jobs or got.due == 0, "there is more: it is to be asked for at once"
        ids += got.ids
        if ids:
            break
    assert ids == ["known"]


@pytest.mark.parametrize("if_exists", ["u", "i"])
def test_ids_that_are_there_already(shard: Shard, if_exists: str) -> None:
    fill(shard, 12)
    asks = [Ask(f"{i:02}", "small") for i in range(12)]
    assert shard.enqueue("q", asks, if_exists) == ("s", [])
    assert shard.enqueue("q", asks[:2], if_exists)[0] == 2 * if_exists


@pytest.mark.parametrize("status", ["ready", "failed", "scheduled", "running", "held"])
def test_pages(shard: Shard, status: str) -> None:
    fill(shard, 40, delay=1000 if status == "scheduled" else 0)
    if status in ("failed", "running", "held"):
        while jobs := shard.take(100):
            if status == "failed":
                assert {shard.end(job, "f") for job in jobs} == {"F"}
    if status == "held":
        fill(shard, 40)
    found: list[str] = []
    cursor, pages = b"", 0
    while cursor or not pages:
        cursor, *rows = shard.call("inspect", "q", status, cursor, 100)
        found += [id.decode() for id in rows[::4]]
        assert all(len(record) < 100 for record in rows[3::4]), "a page needs no payloads"
        pages += 1
    assert sorted(found) == [f"{i:02}" for i in range(40)]
    assert pages >= 2 or status == "running"  # whose entries say it all: no record is read


def test_options_are_bounded(shard: Shard) -> None:
    with pytest.raises(Exception, match="OPTION: the options of a job have at most 4,096 bytes"):
        shard.enqueue("q", [Ask("1", options={"n": "t" * 5000})])
    assert shard.counts("q") == [(0, 0, 0, 0, 0, 0)]


def test_parked_jobs_come_back_when_others_took_all_that_a_call_may_read(shard: Shard) -> None:
    """Their timer was gone then, and nothing brought them back any more."""
    for task in "TU":
        shard.rule("task", task, "pa", True, until=shard.now + 1000)
        for i in range(6):
            shard.enqueue("q", [Ask(f"{task}{i}", BIG, options={"n": task})])
    for i in range(8):
        shard.enqueue("big", [Ask(f"b{i}", BIG, delay=1000)])
    for _ in range(12):
        assert not shard.take(100, "q")
    shard.advance(1500)
    found = {job.id for _ in range(40) for job in shard.take(100)}
    assert len(found) == 20


def test_dead_letters_that_expire(shard: Shard) -> None:
    fill(shard, 12, options={"d": 1000})
    while jobs := shard.take(100):
        for job in jobs:
            shard.end(job, "f")
    shard.advance(2000)
    shard.take(100, "nothing-here")
    assert 12 - FEW <= shard.counts("q")[0][4] < 12


def test_cancelling(shard: Shard) -> None:
    fill(shard, 12)
    ids = [f"{i:02}" for i in range(12)]
    letters = shard.cancel("q", ids)
    assert letters == "w" * len(letters)
    assert 0 < len(letters) <= FEW


def test_a_record_counts_whole_also_for_a_single_job(shard: Shard) -> None:
    """One that goes the short way behind others is big by its options, too."""
    for name in ("a", "b"):
        shard.enqueue("q", [Ask(name)], origin="g")
    assert "big" not in node_settings(State(shard), "q")
    shard.enqueue("q", [Ask("1", "x" * 9_900, options={"n": "t" * 250})], origin="g")
    assert node_settings(State(shard), "q")["big"] == 1
