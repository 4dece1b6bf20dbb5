"""What a call costs is counted in commands on the server, not in time: it may not grow with what stands in the way."""

from __future__ import annotations

import pytest

from tests.tools.shard import Ask, Finish, Shard, Want


def cost(shard: Shard, want: Want) -> int:
    """Commands that functions run for one claim, which finds one job."""
    before = shard.commands()
    assert len(shard.claim(want).jobs) == want.n
    after = shard.commands()
    return sum(after.values()) - sum(before.values())


def lanes_in_front(shard: Shard, n: int, **settings: int) -> None:
    """Lanes of a higher priority, each with a job that may not start; and one lane whose jobs may."""
    for first in range(0, n, 100):
        names = [f"shut-{i}" for i in range(first, min(first + 100, n))]
        for name in names:
            shard.lane(f"q/{name}", **settings)
        shard.enqueue("q", [Ask(f"{name}-{i}", lane=name, prio=90) for name in names for i in range(2)])
    while "rn" in settings and shard.take(100, lease=10**9):
        pass
    shard.enqueue("q", [Ask(f"open-{i}", lane="open") for i in range(20)])


@pytest.mark.parametrize(
    "settings", [{"c": 0}, {"rn": 1, "rw": 10**8}, {"nb": 10**9}], ids=["capped", "rate spent", "before its time"]
)
def test_a_claim_does_not_scan_lanes_that_are_shut(shard: Shard, settings: dict[str, int]) -> None:
    costs: list[int] = []
    for n in (1, 1_000):
        shard.start()
        lanes_in_front(shard, n, **settings)
        cost(shard, Want(1))
        costs += [cost(shard, Want(1)), cost(shard, Want(4))]
    assert costs[:2] == costs[2:]


def test_a_claim_does_not_scan_paused_lanes(shard: Shard) -> None:
    costs: list[int] = []
    for n in (1, 300):
        shard.start()
        lanes_in_front(shard, n)
        for i in range(n):
            shard.rule("path", f"q/shut-{i}", "pa", on=True)
        cost(shard, Want(1))
        costs.append(cost(shard, Want(1)))
    assert costs[0] == costs[1]


@pytest.mark.parametrize("queues", [("*",), ("q",), ("q", "r")])
def test_a_claim_that_fills_a_cap_stops_at_it(shard: Shard, queues: tuple[str, ...]) -> None:
    """It looked fifty times at the queue that it had just filled."""
    costs: list[int] = []
    for n in (3, 100):
        shard.start()
        shard.lane("q", c=3)
        shard.enqueue("q", [Ask(str(i), lane="x") for i in range(200)])
        before = sum(shard.commands().values())
        assert len(shard.claim(Want(n, queues)).jobs) == 3
        costs.append(sum(shard.commands().values()) - before)
    assert costs[1] <= costs[0] + 12


@pytest.mark.parametrize("waiting", [10, 20_000])
def test_a_claim_and_a_finish_cost_the_same_in_front_of_any_number_of_jobs(shard: Shard, waiting: int) -> None:
    for first in range(0, waiting, 250):
        shard.enqueue("q", [Ask(str(i)) for i in range(first, min(first + 250, waiting))])
    shard.take(1)
    assert cost(shard, Want(5)) <= 30
    (job,) = shard.take(1)
    before = sum(shard.commands().values())
    assert shard.finish([Finish(job.key, job.claim)])[0] == "C"
    assert sum(shard.commands().values()) - before <= 30


def test_the_cost_of_a_job_in_a_batch_is_small(shard: Shard) -> None:
    """Commands per job: what the speed of the engine stands on."""
    before = sum(shard.commands().values())
    shard.enqueue("q", [Ask(str(i), options={}) for i in range(100)], origin="g")
    middle = sum(shard.commands().values())
    jobs = shard.take(100)
    after = sum(shard.commands().values())
    shard.finish([Finish(job.key, job.claim) for job in jobs])
    done = sum(shard.commands().values())
    assert (middle - before, after - middle) <= (40, 40)
    assert done - after <= 40 + 100, "one result a job"
