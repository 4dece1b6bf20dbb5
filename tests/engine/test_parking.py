"""Jobs that nobody may or can run wait with their task; those behind them do not wait for that (E15, E21)."""

from __future__ import annotations

import pytest

from tests.model.state import State
from tests.tools.shard import Ask, Shard, Want

TASK = {"n": "mail"}


def ids(shard: Shard, n: int = 9) -> list[str]:
    return [job.id for job in shard.take(n)]


@pytest.mark.parametrize("n", [1, 3, 9])
def test_work_behind_a_stopped_task_is_not_delayed(shard: Shard, n: int) -> None:
    """A claim came back short, or empty, when jobs of a stopped task stood in front."""
    shard.enqueue("q", [Ask(str(i), options=TASK, prio=90) for i in range(6)])
    shard.enqueue("q", [Ask(f"other-{i}") for i in range(9)])
    shard.rule("task", "mail", "pa", on=True)
    assert ids(shard, n) == [f"other-{i}" for i in range(n)]
    assert shard.counts("q")[0][5] >= min(n, 6)


def test_a_stopped_task_takes_no_unit_start_or_turn(shard: Shard) -> None:
    shard.lane("q", c=1, rn=2, rw=60_000)
    shard.enqueue("q", [Ask(str(i), options=TASK) for i in range(5)])
    shard.enqueue("q", [Ask("other")])
    shard.rule("task", "mail", "bl", on=True)
    assert ids(shard) == ["other"]
    assert len(State(shard).zset("g:q")) == 1


def test_a_task_that_goes_on_gets_its_jobs_back_in_their_order(shard: Shard) -> None:
    shard.enqueue("q", [Ask(str(i), options=TASK) for i in range(3)])
    shard.rule("task", "mail", "pa", on=True)
    assert ids(shard) == []
    shard.enqueue("q", [Ask("later")])
    shard.rule("task", "mail", "pa", on=False)
    assert ids(shard) == ["0", "1", "2", "later"]


def test_a_block_outlives_a_pause_that_is_taken_back(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", options=TASK)])
    shard.rule("task", "mail", "pa", on=True)
    shard.rule("task", "mail", "bl", on=True)
    assert ids(shard) == []
    shard.rule("task", "mail", "pa", on=False)
    assert ids(shard) == []
    shard.rule("task", "mail", "bl", on=False)
    assert ids(shard) == ["1"]


@pytest.mark.parametrize("untils", [(10_000, 20_000), (20_000, 10_000)])
def test_a_rule_with_an_end_brings_parked_jobs_back_by_itself(shard: Shard, untils: tuple[int, int]) -> None:
    """Nothing brought them back but a session that knew the task."""
    shard.enqueue("q", [Ask("1", options=TASK)])
    for which, until in zip(("pa", "bl"), untils, strict=True):
        shard.rule("task", "mail", which, on=True, until=shard.now + until)
    assert shard.claim(Want(1)).due == 20_000
    shard.advance(10_000)
    assert ids(shard) == []
    shard.advance(9_999)
    assert ids(shard) == []
    shard.advance(1)
    assert ids(shard) == ["1"]


def test_very_many_parked_jobs_come_back_in_steps(shard: Shard) -> None:
    for first in range(0, 900, 300):
        shard.enqueue("q", [Ask(str(i), options=TASK) for i in range(first, first + 300)])
    shard.rule("task", "mail", "pa", on=True)
    shard.enqueue("q", [Ask("other")])
    found: list[str] = []
    for _ in range(20):
        reply = shard.claim(Want(100))
        found += reply.ids
        if reply.due != 0:
            break
    assert found == ["other"]
    assert shard.counts("q")[0][5] == 900
    shard.rule("task", "mail", "pa", on=False)
    assert shard.counts("q")[0][5] == 700
    for _ in range(4):
        shard.claim(Want(1, ("nothing",)))
    assert shard.counts("q")[0][5] == 0


def test_a_job_without_a_handler_waits_for_a_session_that_has_one(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", options=TASK), Ask("2")])
    (job,) = shard.take(1)
    assert shard.end(job, "p") == "P"
    assert shard.counts("q")[0] == (0, 2, 0, 0, 0, 1)
    assert ids(shard) == ["2"]
    shard.open("s1", tasks=["other"])
    assert ids(shard) == []
    shard.open("s2", tasks=["mail"])
    (again,) = shard.take(1)
    assert (again.id, again.counts) == ("1", (1, 0, 0, 0))


def test_a_parked_job_comes_back_to_its_place(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", options=TASK), Ask("2")])
    (job,) = shard.take(1)
    shard.end(job, "p")
    shard.open("s", tasks=["mail"])
    assert ids(shard) == ["1", "2"]


@pytest.mark.parametrize("when", ["open", "heartbeat", "claim"])
def test_a_session_brings_no_jobs_of_a_stopped_task_back(shard: Shard, when: str) -> None:
    shard.enqueue("q", [Ask("1", options=TASK)])
    if when != "open":
        shard.open("s", tasks=["mail"])
    shard.rule("task", "mail", "pa", on=True)
    assert ids(shard) == []
    if when == "open":
        shard.open("s", tasks=["mail"])
    elif when == "heartbeat":
        shard.heartbeat("s")
    else:
        assert shard.claim(Want(1, lease=0), "s").jobs == []
    assert shard.counts("q") == [(0, 1, 0, 0, 0, 1)]


def test_parking_gives_back_the_start(shard: Shard) -> None:
    shard.lane("q", rn=1, rw=3_600_000)
    shard.enqueue("q", [Ask("1", options=TASK), Ask("2")])
    (job,) = shard.take(1)
    shard.end(job, "p")
    assert ids(shard) == ["2"]


@pytest.mark.parametrize("options", [{}, TASK])
def test_a_parked_job_can_be_cancelled(shard: Shard, options: dict[str, str]) -> None:
    """One without a task could not: it was looked for in no place."""
    shard.enqueue("q", [Ask("1", options=options)])
    (job,) = shard.take(1)
    shard.end(job, "p")
    assert shard.cancel("q", ["1"]) == "w"
    assert shard.counts("q") == [(0, 0, 0, 0, 0, 0)]
    assert State(shard).set("parked") == set()


@pytest.mark.parametrize("options", [{}, TASK])
def test_a_parked_job_that_is_updated_stays_in_its_place(shard: Shard, options: dict[str, str]) -> None:
    shard.enqueue("q", [Ask("1", options=options)])
    (job,) = shard.take(1)
    shard.end(job, "p")
    shard.enqueue("q", [Ask("1", payload="new", options=options)])
    assert shard.counts("q") == [(0, 1, 0, 0, 0, 1)]
    shard.enqueue("q", [Ask("1", prio=90, letters="p")])
    assert shard.counts("q") == [(0, 1, 0, 0, 0, 0)]
    assert ids(shard) == ["1"]


def test_a_twin_that_names_another_task_waits_with_that_one(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", options=TASK)])
    (job,) = shard.take(1)
    shard.enqueue("q", [Ask("1", prio=90, options={"n": "sms"}, letters="np"), Ask("2")])
    shard.end(job, "p")
    assert set(State(shard).named("p:", "zsets")) == {"q/sms"}
    shard.open("s", tasks=["sms"])
    assert ids(shard) == ["1", "2"]


def test_a_twin_that_is_to_wait_is_not_parked_before(shard: Shard) -> None:
    """It came back before its time."""
    shard.enqueue("q", [Ask("1", options=TASK)])
    (job,) = shard.take(1)
    shard.enqueue("q", [Ask("1", delay=50_000)])
    shard.end(job, "p")
    assert shard.counts("q") == [(1, 0, 0, 0, 0, 0)]
    shard.open("s", tasks=["mail"])
    assert ids(shard) == []
    shard.advance(50_000)
    assert ids(shard) == ["1"]


def test_a_job_waits_for_a_session_of_its_own_queue(shard: Shard) -> None:
    """One that knows the task but serves other queues brought it back each time, and somebody else parked it again."""
    shard.open("elsewhere", 10**6, ("a",), ("mail",))
    shard.open("here", 10**6, ("b",), ())
    shard.enqueue("b", [Ask("j", options=TASK)])
    got: list[str] = []
    for _ in range(5):
        shard.claim(Want(1, ("a",), 0), "elsewhere")
        shard.heartbeat("elsewhere")
        for job in shard.claim(Want(1, ("b",), 0), "here").jobs:
            got.append(job.id)
            assert shard.end(job, "p", channel="here") == "P"
    assert got == ["j"]
    shard.open("knows", 10**6, ("b",), ("mail",))
    assert shard.claim(Want(1, ("b",), 0), "knows").ids == ["j"]


def test_a_session_may_know_a_task_in_one_queue_alone(shard: Shard) -> None:
    for queue in "ab":
        shard.enqueue(queue, [Ask("1")])
    for job in shard.take(2):
        shard.end(job, "p")
    shard.open("s", 10**6, ("a", "b"), ("b/",))
    assert [job.queue for job in shard.claim(Want(2, lease=0), "s").jobs] == ["b"]


def test_who_leases_by_hand_gets_what_has_no_task(shard: Shard) -> None:
    shard.enqueue("q", [Ask("plain"), Ask("mail", options=TASK)])
    for job in shard.take(2):
        assert shard.end(job, "p") == "P"
    assert b"no_handler" in shard.call("explain", "q", "plain", 0)[1]
    assert ids(shard) == ["plain"]


def test_many_tasks_without_a_handler_cost_a_claim_in_vain_little(shard: Shard) -> None:
    shard.open("s", 10**6, tasks=[f"mine-{i}" for i in range(500)])
    for first in range(0, 400, 200):
        asks = [Ask(str(i), options={"n": f"unknown-{i}"}) for i in range(first, first + 200)]
        shard.enqueue("q", asks)
        for job in [job for _ in range(2) for job in shard.take(100)]:
            shard.end(job, "p")
    shard.client.config_resetstat()
    assert not shard.claim(Want(1, lease=0), "s").jobs
    assert sum(n for name, n in shard.commands().items() if name != "fcall") < 60


def test_a_parked_start_gives_its_place_to_whoever_waits(shard: Shard) -> None:
    shard.lane("q", rn=1, rw=60_000)
    shard.enqueue("q", [Ask("1", options=TASK), Ask("2")])
    (job,) = shard.take(1)
    assert not shard.claim(Want(1, wait=5_000, waiter="w")).jobs
    shard.end(job, "p")
    assert shard.client.llen(shard.tag + "wl:w") == 1, "the rate opened again: whoever waits is to look"
    assert ids(shard) == ["2"]
