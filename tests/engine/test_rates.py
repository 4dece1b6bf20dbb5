"""Rates are exact: never more than n starts in any interval of the window's length, and as soon as allowed (E5)."""

from __future__ import annotations

import random

import pytest

from tests.tools.shard import START, Ask, Shard, Want


def most_in_a_window(starts: list[int], window: int) -> int:
    """The most starts in any interval [t, t + window)."""
    return max((sum(t <= other < t + window for other in starts) for t in starts), default=0)


@pytest.mark.parametrize("seed", range(12))
def test_never_more_than_n_in_any_interval(shard: Shard, seed: int) -> None:
    """Random traffic over two lanes of a queue, each level with its own rate."""
    random_ = random.Random(seed)
    rates = {path: (random_.randint(1, 6), random_.randint(2, 40) * 500) for path in ("q", "q/a", "q/b")}
    for path, (n, window) in rates.items():
        shard.lane(path, rn=n, rw=window)
    starts: dict[str, list[int]] = {path: [] for path in rates}
    for i in range(250):
        if random_.random() < 0.6:
            shard.enqueue("q", [Ask(str(i), lane=random_.choice("ab"))])
        shard.advance(random_.choice([0, 1, 100, 499, 500, 501, 999, 2_000, 7_000]))
        for job in shard.take(random_.randint(1, 8), lease=10**9):
            lane = job.record[15 : 15 + job.record[14]].decode()
            gives_back = random_.random() < 0.2
            assert shard.end(job, "l" if gives_back else "c", f"{shard.now + 60_000} -1 " if gives_back else "")
            for path in ("q", f"q/{lane}") if not gives_back else ():
                starts[path].append(shard.now)
    for path, (n, window) in rates.items():
        assert most_in_a_window(starts[path], window) <= n, f"{path}: more than {n} in {window} ms"
        assert len(starts[path]) > 3


def test_all_n_start_at_once_and_the_next_exactly_one_window_later(shard: Shard) -> None:
    shard.lane("q", rn=3, rw=10_000)
    shard.enqueue("q", [Ask(str(i)) for i in range(5)])
    assert len(shard.take(5)) == 3
    shard.set_clock(START + 9_999)
    assert shard.take(5) == []
    shard.set_clock(START + 10_000)
    assert len(shard.take(5)) == 2


def test_a_claim_says_when_the_rate_opens(shard: Shard) -> None:
    for path in ("q", "r/lane"):
        shard.lane(path, rn=1, rw=7_000)
        queue, _, lane = path.partition("/")
        shard.enqueue(queue, [Ask("1", lane=lane), Ask("2", lane=lane)])
        assert [job.id for job in shard.take(2, queue)] == ["1"]
        assert shard.claim(Want(1, (queue,))).due == 7_000
        shard.advance(1_000)
        assert shard.claim(Want(1, (queue,))).due == 6_000
        shard.advance(6_000)
        assert [job.id for job in shard.take(2, queue)] == ["2"]


def test_a_start_that_was_given_back_is_no_start(shard: Shard) -> None:
    shard.lane("q", rn=1, rw=60_000)
    shard.enqueue("q", [Ask("1"), Ask("2")])
    (job,) = shard.take(2)
    assert shard.take(1) == []
    assert shard.end(job, "l") == "L"
    (again,) = shard.take(2)
    assert again.id == "1"
    assert shard.end(again, "r") == "R"
    assert shard.take(1) == []


def test_a_lower_rate_counts_the_starts_that_were(shard: Shard) -> None:
    shard.lane("q", rn=5, rw=10_000)
    shard.enqueue("q", [Ask(str(i)) for i in range(20)])
    for _ in range(5):
        assert len(shard.take(1)) == 1
        shard.advance(1_000)
    shard.lane("q", rn=2, rw=10_000)
    assert shard.take(1) == []
    shard.set_clock(START + 12_999)
    assert shard.take(9) == []
    shard.set_clock(START + 13_000)
    assert len(shard.take(9)) == 1


def test_a_rate_taken_away_opens_the_lane_at_once(shard: Shard) -> None:
    shard.lane("q/a", rn=1, rw=3_600_000)
    shard.enqueue("q", [Ask(str(i), lane="a") for i in range(3)])
    assert len(shard.take(3)) == 1
    shard.lane("q/a", rn=-1, rw=-1)
    assert len(shard.take(3)) == 2


def test_work_behind_a_spent_rate_is_not_delayed(shard: Shard) -> None:
    shard.lane("q/slow", rn=1, rw=3_600_000)
    shard.enqueue("q", [Ask(f"s{i}", lane="slow", prio=100) for i in range(3)])
    shard.enqueue("q", [Ask("other", lane="other")])
    assert [job.id for job in shard.take(5)] == ["s0", "other"]


def test_a_rate_that_is_widened_remembers_its_starts(shard: Shard) -> None:
    shard.lane("q", rn=2, rw=300)
    shard.enqueue("q", [Ask(str(i)) for i in range(4)])
    assert len(shard.take(4)) == 2
    shard.lane("q", rn=2, rw=60_000)
    assert shard.client.pttl(shard.tag + "g:q") > 50_000
    assert not shard.take(4)
