"""Sessions that die together: one bounded walk moves the jobs of all, and none of them can write any more (E12)."""

from __future__ import annotations

from tests.model.invariants import problems
from tests.model.state import State
from tests.tools.shard import Ask, Finish, Refused, Shard, Want, attempt


def fill(shard: Shard, n: int) -> None:
    for i in range(0, n, 200):
        shard.enqueue("q", [Ask(str(j)) for j in range(i, min(i + 200, n))])


def hold(shard: Shard, session: str, n: int) -> None:
    while n:
        n -= len(shard.claim(Want(min(n, 100), lease=0), session).jobs)


def outlived(shard: Shard, by: int = 10_000) -> None:
    """Time passes for all but one session, which beats often enough for no silence to be seen."""
    shard.open("lives", lease=1_000_000)
    for _ in range(4):
        shard.advance(by // 4)
        shard.heartbeat("lives")


def test_idle_sessions_that_die_together_cost_one_walk(shard: Shard) -> None:
    fill(shard, 3000)
    for _ in range(30):
        shard.take(100, lease=1_000_000)
    for i in range(100):
        shard.open(f"idle-{i}")
    shard.client.config_resetstat()
    outlived(shard)
    for _ in range(6):
        before = shard.commands().get("hscan", 0)
        shard.heartbeat("lives")
        assert shard.commands().get("hscan", 0) - before <= 10
    assert State(shard).set("sessions") == {"lives"}
    assert not list(problems(State(shard)))


def test_the_jobs_of_many_dead_sessions_all_go_back(shard: Shard) -> None:
    fill(shard, 1000)
    for i in range(20):
        shard.open(f"s-{i}")
        hold(shard, f"s-{i}", 40)
    outlived(shard)
    moved: list[int] = []
    while running := shard.counts("q")[0][3]:
        shard.heartbeat("lives")
        moved.append(running - shard.counts("q")[0][3])
        assert moved[-1] <= 100
    assert State(shard).set("sessions") == {"lives"}
    assert not list(problems(State(shard)))


def test_one_that_dies_while_a_walk_is_under_way_is_not_missed(shard: Shard) -> None:
    fill(shard, 3000)
    shard.open("first")
    hold(shard, "first", 1500)
    shard.open("second", lease=11_000)
    hold(shard, "second", 1500)
    outlived(shard)
    for _ in range(5):
        shard.heartbeat("lives")
    shard.advance(1_000)
    for _ in range(60):
        shard.heartbeat("lives")
    assert shard.counts("q")[0][:4] == (0, 3000, 0, 0)
    assert State(shard).set("sessions") == {"lives"}
    assert not list(problems(State(shard)))


def test_nothing_that_a_dead_session_writes_is_taken(shard: Shard) -> None:
    fill(shard, 150)
    shard.open("s")
    jobs = [job for _ in range(2) for job in shard.claim(Want(100, lease=0), "s").jobs]
    outlived(shard)
    assert 0 < shard.counts("q")[0][3] < 150, "some of its runs have not been moved yet"
    letters, _ = shard.finish([Finish(job.key, job.claim) for job in jobs[:100]], channel="s")
    letters += shard.finish([Finish(job.key, job.claim) for job in jobs[100:]], channel="s")[0]
    assert letters == "-" * 150
    for job in jobs:
        assert shard.call("extend", job.key, job.claim, 1000) == [0]
        assert shard.call("report", job.key, job.claim, "half") == [0]
    assert isinstance(attempt(lambda: shard.claim(Want(1, lease=0), "s")), Refused)


def test_a_long_lease_takes_nothing_from_the_grace_of_a_short_one(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1")])
    shard.open("once", lease=3_600_000)
    shard.close("once")
    shard.open("b", lease=10_000)
    shard.claim(Want(1, lease=0), "b")
    shard.advance(15_000)
    shard.take(1)
    assert shard.heartbeat("b")[0], "the server was away for longer than the lease: that was no fault of b"


def test_the_grace_of_each_is_its_own_lease(shard: Shard) -> None:
    shard.open("long", lease=60_000)
    shard.open("short", lease=1_000)
    shard.advance(70_000)
    shard.take(1)
    shard.advance(1_000)
    shard.take(1)
    assert not shard.heartbeat("short")[0]
    assert shard.heartbeat("long")[0]


def test_sessions_in_grace_do_not_hide_leases_by_hand(shard: Shard) -> None:
    for i in range(120):
        shard.open(f"s{i}")
    shard.enqueue("q", [Ask("hand")])
    shard.take(1, lease=10_500)
    shard.advance(11_000)
    assert [job.id for _ in range(3) for job in shard.take(1)] == ["hand"]


def test_a_beat_of_a_longer_lease_keeps_no_dead_session_alive(shard: Shard) -> None:
    """Each of its beats ended what was a silence for the shorter lease, and was forgiven again and again."""
    shard.enqueue("q", [Ask("1")])
    shard.open("long", lease=60_000)
    shard.open("short", lease=10_000)
    shard.claim(Want(1, lease=0), "short")
    for _ in range(4):
        shard.advance(20_000)
        assert shard.heartbeat("long")[0]
    assert shard.counts("q")[0][3] == 0


def test_a_second_silence_is_forgiven_as_the_first_was(shard: Shard) -> None:
    for session in "so":
        shard.open(session, lease=10_000)
    shard.advance(60_000)
    for session in "so":
        assert shard.heartbeat(session)[0]
    for _ in range(10):
        shard.advance(3_000)
        for session in "so":
            assert shard.heartbeat(session)[0]
    shard.advance(20_000)
    shard.take(1)
    assert shard.heartbeat("s")[0], "the server was away for two leases"


def test_the_audit_finds_nothing_wrong_while_sessions_are_dying(shard: Shard) -> None:
    fill(shard, 300)
    shard.open("s")
    hold(shard, "s", 300)
    outlived(shard)
    assert 0 < shard.counts("q")[0][3] < 300
    assert len(shard.call("audit", "runs", "", "", 0)) == 1


def test_a_stranger_who_deletes_what_is_dying_leaves_nobody_awake(shard: Shard) -> None:
    fill(shard, 300)
    shard.open("s")
    hold(shard, "s", 300)
    outlived(shard)
    shard.client.delete(shard.tag + "dead")
    shard.heartbeat("lives")
    assert shard.claim(Want(1, ("nothing",), wait=5_000, waiter="w")).due > 10


def test_leases_by_hand_that_run_out_all_the_time_leave_dead_sessions_their_share(shard: Shard) -> None:
    fill(shard, 1500)
    shard.open("lives", lease=1_000_000)
    shard.open("s", lease=1_000)
    hold(shard, "s", 20)
    for _ in range(12):
        shard.take(100, lease=1_001)
    for _ in range(3):
        shard.advance(400)
        shard.heartbeat("lives")
    for _ in range(3):
        shard.heartbeat("lives")
    assert not [run for run in State(shard).runs.values() if run["session"] == "s"]
    assert shard.counts("q")[0][3] > 500, "and there were more leases that ran out in each of these calls"
