"""Each option of a job by its letter: what it does, and its default (E18)."""

from __future__ import annotations

import pytest

from tests.model.state import State
from tests.tools.shard import Ask, Claimed, Refused, Shard, attempt

BUDGETS = {"f": ("r", 10), "s": ("a", 3), "o": ("t", 3)}


def take(shard: Shard) -> Claimed:
    """The job, whenever it is due."""
    shard.advance(400_000)
    (job,) = shard.take(1)
    return job


@pytest.mark.parametrize(("letter", "value"), [(x, v) for x in BUDGETS for v in (None, 0, 1, 2)])
def test_a_budget_is_how_many_times_are_tolerated(shard: Shard, letter: str, value: int | None) -> None:
    op, default = BUDGETS[letter]
    shard.enqueue("q", [Ask("1", options={} if value is None else {letter: value})])
    tolerated = default if value is None else value
    for _ in range(tolerated):
        assert shard.end(take(shard), op, "-1 0 error" if op in "rt" else "") == "R"
    assert shard.end(take(shard), op, "-1 0 error" if op in "rt" else "") == "F"
    assert shard.counts("q") == [(0, 0, 0, 0, 1, 0)]


@pytest.mark.parametrize("letter", BUDGETS)
def test_a_budget_of_none_is_no_limit(shard: Shard, letter: str) -> None:
    shard.enqueue("q", [Ask("1", options={letter: -1})])
    for _ in range(20):
        op = BUDGETS[letter][0]
        assert shard.end(take(shard), op, "-1 0 error" if op in "rt" else "") == "R"


def test_the_budgets_count_apart(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", options={"f": 1, "s": 1, "o": 1})])
    for op in ("r", "a", "t"):
        assert shard.end(take(shard), op, "-1 0 error" if op in "rt" else "") == "R"
    assert take(shard).counts == (4, 1, 1, 1)


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({}, [(2_000, 2_000), (3_000, 4_000), (6_000, 8_000), (12_000, 16_000), (24_000, 32_000)]),
        ({"b": 100, "x": 250}, [(100, 100), (150, 200), (187, 250), (187, 250)]),
        ({"b": 0}, [(0, 0), (0, 0)]),
        ({"b": 1_000, "x": -1, "f": -1}, [(750 * 2**i, 1_000 * 2**i) for i in range(15)]),
        ({"b": 5_000, "x": 1_000}, [(5_000, 5_000)] * 3),
    ],
)
def test_backoff_doubles_between_its_bounds(
    shard: Shard, options: dict[str, int], bounds: list[tuple[int, int]]
) -> None:
    shard.enqueue("q", [Ask("1", options={"f": 50, **options})])
    for low, high in bounds:
        (job,) = shard.take(1)
        assert shard.end(job, "r") == "R"
        due = State(shard).zset("due").get("q/1", shard.now) - shard.now
        assert low <= due <= high
        shard.set_clock(shard.now + int(due))


def test_backoff_is_spread(shard: Shard) -> None:
    shard.enqueue("q", [Ask(str(i), options={"b": 60_000, "x": -1}) for i in range(50)])
    for _ in range(2):
        shard.advance(200_000)
        for job in shard.take(50):
            shard.end(job, "r")
    assert len(set(State(shard).zset("due").values())) > 20


def test_a_timeout_ends_the_attempt_five_seconds_after_it(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", options={"t": 2_000})])
    (job,) = shard.take(1, lease=60_000)
    assert State(shard).zset("dl") == {"q/1": shard.now + 7_000}
    shard.advance(7_000)
    shard.take(1)
    assert shard.end(job) == "-"
    assert shard.counts("q") == [(1, 0, 0, 0, 0, 0)]


@pytest.mark.parametrize(("keep", "ttl"), [(None, 600), (120_000, 120), (0, -2), (-1, -1)])
def test_how_long_a_result_is_kept(shard: Shard, keep: int | None, ttl: int) -> None:
    shard.enqueue("q", [Ask("1", options={} if keep is None else {"k": keep})])
    (job,) = shard.take(1)
    shard.end(job, "c", "result")
    assert shard.client.ttl(shard.tag + "r:q/1") in (ttl, ttl - 1) if ttl > 0 else True
    assert shard.client.ttl(shard.tag + "r:q/1") <= ttl


@pytest.mark.parametrize(("keep", "kept"), [(None, 604_800_000), (5_000, 5_000), (-1, None), (0, 0)])
def test_how_long_a_dead_letter_is_kept(shard: Shard, keep: int | None, kept: int | None) -> None:
    shard.enqueue("q", [Ask("1", options={} if keep is None else {"d": keep})])
    (job,) = shard.take(1)
    assert shard.end(job, "f") == "F"
    shard.advance((kept or 1) - 1)
    shard.take(1)
    assert shard.counts("q")[0][4] == (0 if kept == 0 else 1)
    shard.advance(1 if kept else 10**9)
    shard.take(1)
    assert shard.counts("q")[0][4] == (0 if kept is not None else 1)


def test_an_id_is_free_again_when_it_has_ended(shard: Shard) -> None:
    for _ in range(2):
        assert shard.enqueue("q", [Ask("1")], "e")[0] == "a"
        (job,) = shard.take(1)
        shard.end(job)


@pytest.mark.parametrize("end", ["c", "cancel"])
def test_unique_for_keeps_the_id_taken(shard: Shard, end: str) -> None:
    shard.enqueue("q", [Ask("1", options={"u": 30_000, "k": 0})])
    if end == "c":
        (job,) = shard.take(1)
        shard.end(job)
    else:
        assert shard.cancel("q", ["1"]) == "w"
    shard.advance(29_999)
    assert shard.enqueue("q", [Ask("1")])[0] == "i"
    assert isinstance(attempt(lambda: shard.enqueue("q", [Ask("1")], "e")), Refused)
    shard.advance(1)
    assert shard.enqueue("q", [Ask("1")], "e")[0] == "a"


def test_unique_for_ever(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", options={"u": -1})])
    (job,) = shard.take(1)
    shard.end(job)
    shard.advance(10**12)
    assert shard.enqueue("q", [Ask("1")])[0] == "i"


@pytest.mark.parametrize("letter", "fsotbxkdun")
def test_an_update_takes_over_what_is_named_and_nothing_else(shard: Shard, letter: str) -> None:
    old = {"f": 1, "s": 1, "o": 1, "t": 1_000, "b": 10, "x": 20, "k": 1_000, "d": 1_000, "u": 1_000, "n": "old"}
    new = {"f": 2, "s": 2, "o": 2, "t": 2_000, "b": 30, "x": 40, "k": 2_000, "d": 2_000, "u": 2_000, "n": "new"}
    shard.enqueue("q", [Ask("1", options=old)])
    assert shard.enqueue("q", [Ask("1", options=new, prio=90, lane="x", letters=letter)])[0] == "u"
    record = State(shard).records["q/1"]
    assert record.options == {**old, letter: new[letter]}
    assert (record.prio, record.lane) == (50, "")
    shard.enqueue("q", [Ask("1", letters=letter)])
    assert State(shard).records["q/1"].options == {k: v for k, v in old.items() if k != letter}


def test_an_update_of_priority_and_lane_moves_the_job(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1"), Ask("2")])
    shard.enqueue("q", [Ask("2", prio=60, letters="p")])
    assert [job.id for job in shard.take(1)] == ["2"]
    shard.enqueue("q", [Ask("1", lane="x", letters="l")])
    assert shard.counts("q", "q/x") == [(0, 1, 0, 1, 0, 0), (0, 1, 0, 0, 0, 0)]


def test_an_update_of_data_keeps_the_place_in_line(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", payload="old"), Ask("2")])
    shard.enqueue("q", [Ask("1", payload="new")])
    (job,) = shard.take(1)
    assert (job.id, job.record[-3:]) == ("1", b"new")


@pytest.mark.parametrize(("resets", "counts"), [(0, (2, 1, 0, 0)), (1, (1, 0, 0, 0)), (None, (1, 0, 0, 0))])
def test_an_update_resets_the_counts_when_asked(
    shard: Shard, resets: int | None, counts: tuple[int, int, int, int]
) -> None:
    shard.enqueue("q", [Ask("1")])
    (job,) = shard.take(1)
    shard.end(job, "r", "-1 0 error")
    shard.enqueue("q", [Ask("1", reset_counts=resets)])
    assert [again.counts for again in shard.take(1)] == [counts]


@pytest.mark.parametrize(("how", "due"), [(0, 50_000), (1, 20_000), (2, 50_000), (3, 20_000)])
def test_an_update_of_the_time(shard: Shard, how: int, due: int) -> None:
    shard.enqueue("q", [Ask("1", delay=50_000)])
    shard.enqueue("q", [Ask("1", delay=20_000, update_run_at=how)])
    assert State(shard).zset("due") == {"q/1": shard.now + due}


def test_a_failed_job_is_replaced(shard: Shard) -> None:
    shard.enqueue("q", [Ask("1", payload="old")])
    (job,) = shard.take(1)
    shard.end(job, "f")
    assert shard.enqueue("q", [Ask("1", payload="new")], "e")[0] == "a"
    assert shard.counts("q") == [(0, 1, 0, 0, 0, 0)]
    assert [again.counts for again in shard.take(1)] == [(1, 0, 0, 0)]
