"""Leases, sessions and their end: who is dead, when, and what becomes of the jobs (E11, E12, E14)."""

from __future__ import annotations

import pytest

from tests.tools.shard import Ask, Finish, Refused, Shard, Want, attempt

MINE = Want(1, lease=0)


def keep_awake(shard: Shard, ms: int) -> None:
    """Let time pass with somebody calling all the while: no silence."""
    for _ in range(ms // 1_000):
        shard.advance(1_000)
        shard.claim(Want(1, ("nothing",)), "other")


def test_a_heartbeat_keeps_all_claims_of_a_session(shard: Shard) -> None:
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask(str(i)) for i in range(3)])
    jobs = shard.claim(Want(3, lease=0), "s").jobs
    for _ in range(5):
        keep_awake(shard, 9_000)
        assert shard.heartbeat("s") == (True, [])
    assert [shard.end(job, channel="s") for job in jobs] == ["C", "C", "C"]


def test_a_session_that_is_silent_for_its_lease_is_dead_for_good(shard: Shard) -> None:
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask("1")])
    (job,) = shard.claim(MINE, "s").jobs
    keep_awake(shard, 10_000)
    assert shard.heartbeat("s") == (False, [])
    assert shard.end(job, channel="s") == "-"
    assert isinstance(attempt(lambda: shard.claim(MINE, "s")), Refused)
    assert isinstance(attempt(lambda: shard.open("s")), Refused)
    (again,) = shard.take(1)
    assert again.counts == (2, 0, 1, 0)


def test_an_extension_or_report_of_a_lost_claim_is_refused(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")])
    (job,) = shard.take(1, lease=1_000)
    assert shard.call("report", job.key, job.claim, "10 %")[0] == 1
    assert shard.call("extend", job.key, job.claim, 5_000)[0] == 1
    shard.advance(4_999)
    assert shard.take(1) == []
    shard.advance(1)
    (again,) = shard.take(1)
    assert shard.call("report", job.key, job.claim, "20 %")[0] == 0
    assert shard.call("extend", job.key, job.claim, 5_000)[0] == 0
    assert shard.end(job) == "-"
    assert shard.end(again) == "C"


def test_a_claim_that_a_session_makes_while_it_dies_takes_nothing(shard: Shard) -> None:
    """It was given jobs that no deadline watched: they would have run for ever, for nobody."""
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask("1"), Ask("2")])
    assert shard.claim(MINE, "s").jobs
    keep_awake(shard, 9_000)
    shard.advance(1_000)
    refused = attempt(lambda: shard.claim(Want(2, lease=0), "s"))
    assert isinstance(refused, Refused)
    assert refused.code == "LOST"
    assert isinstance(attempt(lambda: shard.claim(Want(2, lease=0), "s", shard.numbers["s"])), Refused)
    assert len(shard.take(2)) == 2


def test_a_finish_of_a_session_that_dies_within_counts_and_takes_nothing_more(shard: Shard) -> None:
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask("1"), Ask("2")])
    (job,) = shard.claim(MINE, "s").jobs
    keep_awake(shard, 9_000)
    shard.advance(1_000)
    letters, got = shard.finish([Finish(job.key, job.claim)], MINE, "s")
    assert letters == "C"
    assert got is not None
    assert got.jobs == []
    assert [job.id for job in shard.take(2)] == ["2"]


def test_a_finish_of_a_dead_session_that_also_claims_changes_nothing(shard: Shard) -> None:
    """It was refused only after half of it was written."""
    shard.enqueue("q", [Ask("1"), Ask("2")])
    (job,) = shard.take(1)
    refused = attempt(lambda: shard.finish([Finish(job.key, job.claim)], MINE, "nobody"))
    assert isinstance(refused, Refused)
    assert refused.code == "LOST"
    assert shard.counts("q") == [(0, 1, 0, 1, 0, 0)]
    assert shard.end(job) == "C"


@pytest.mark.parametrize(("silence", "survives"), [(5_000, False), (5_001, True)])
def test_after_a_silence_of_half_a_lease_sessions_get_another_one(shard: Shard, silence: int, survives: bool) -> None:
    """A stalled server or a failover is nobody's death (E12)."""
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask("1")])
    (job,) = shard.claim(MINE, "s").jobs
    keep_awake(shard, 8_000)
    shard.advance(silence)
    shard.claim(Want(1, ("nothing",)), "other")
    assert shard.heartbeat("s")[0] is survives
    assert shard.end(job, channel="s") == ("C" if survives else "-")


def test_the_grace_ends_after_one_lease(shard: Shard) -> None:
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask("1")])
    shard.claim(MINE, "s")
    shard.advance(60_000)
    keep_awake(shard, 10_000)
    assert shard.take(1) == []
    keep_awake(shard, 1_000)
    assert [job.id for job in shard.take(1)] == ["1"]


def test_leases_by_hand_have_no_grace(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")])
    shard.take(1, lease=1_000)
    shard.advance(60_000)
    assert [job.counts for job in shard.take(1)] == [(2, 0, 1, 0)]


def test_a_timeout_is_enforced_while_the_session_lives(shard: Shard) -> None:
    shard.open("s", lease=10_000)
    shard.enqueue("q", [Ask("1", options={"t": 3_000, "b": 0, "x": 0})])
    (job,) = shard.claim(MINE, "s").jobs
    keep_awake(shard, 7_000)
    assert shard.heartbeat("s")[0]
    assert shard.take(1) == []
    shard.advance(1_000)
    assert [again.counts for again in shard.take(1)] == [(2, 0, 0, 1)]
    assert shard.heartbeat("s")[0]
    assert shard.end(job, channel="s") == "-"


def test_a_closed_session_hands_its_jobs_back_to_their_places(shard: Shard) -> None:
    shard.open("s")
    shard.enqueue("q", [Ask(str(i)) for i in range(4)])
    shard.claim(Want(3, lease=0), "s")
    assert shard.close("s") == [3, 0]
    assert [(job.id, job.counts) for job in shard.take(4)] == [(str(i), (1, 0, 0, 0)) for i in range(4)]
    assert shard.heartbeat("s") == (False, [])


def test_many_jobs_of_a_dead_session_move_in_steps(shard: Shard) -> None:
    shard.open("s", lease=10_000)
    for first in range(0, 1_500, 250):
        shard.enqueue("q", [Ask(str(i)) for i in range(first, first + 250)])
        for _ in range(5):
            shard.claim(Want(50, lease=0), "s")
    assert shard.counts("q")[0][3] == 1_500
    shard.advance(10_000)
    for _ in range(40):
        shard.advance(1_000)
        before = shard.counts("q")[0][3]
        shard.claim(Want(1, ("nothing",)), "other")
        assert before - shard.counts("q")[0][3] <= 100
    assert shard.counts("q") == [(0, 1_500, 0, 0, 0, 0)]


def test_many_jobs_of_a_session_that_closes_move_in_steps_too(shard: Shard) -> None:
    shard.open("s")
    shard.enqueue("q", [Ask(str(i)) for i in range(250)])
    for _ in range(5):
        shard.claim(Want(50, lease=0), "s")
    moved, more = shard.close("s")
    assert more
    refused = attempt(lambda: shard.claim(MINE, "s"))
    assert isinstance(refused, Refused), "who is leaving takes nothing: no deadline would watch it"
    while more:
        n, more = shard.close("s")
        moved += n
    assert moved == 250
    assert shard.counts("q") == [(0, 250, 0, 0, 0, 0)]


def test_marks_reach_the_session_and_end_with_the_run(shard: Shard) -> None:
    shard.open("s")
    shard.enqueue("q", [Ask("1"), Ask("2"), Ask("3")])
    jobs = shard.claim(Want(3, lease=0), "s").jobs
    assert shard.cancel("q", ["1", "2"], running=True) == "mm"
    assert shard.heartbeat("s") == (True, ["q/1", "q/2"])
    assert [shard.end(job, op, channel="s") for job, op in zip(jobs, "crl", strict=True)] == ["C", "X", "L"]
    assert shard.heartbeat("s") == (True, [])


@pytest.mark.parametrize("op", ["r", "f", "t", "l", "p", "a"])
def test_a_marked_job_ends_however_its_run_ends(shard: Shard, op: str) -> None:
    shard.enqueue("q", [Ask("1")])
    (job,) = shard.take(1)
    assert shard.cancel("q", ["1"], running=True) == "m"
    assert shard.end(job, op, None if op != "t" else "-1 -1 error") == "X"
    assert shard.counts("q") == [(0, 0, 0, 0, 0, 0)]


def test_a_marked_job_ends_when_its_lease_does(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")])
    shard.take(1, lease=1_000)
    shard.cancel("q", ["1"], running=True)
    shard.advance(1_000)
    assert shard.take(1) == []
    assert shard.counts("q") == [(0, 0, 0, 0, 0, 0)]
