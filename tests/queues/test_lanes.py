"""Lanes: caps, exact rates, priorities, aging, times and what becomes of them. All within one shard."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from headrace import Claim, Headrace, OptionError, Queue, SettingConflict
from tests.queues.places import Clock, Hands


def fill(q: Queue, lane: str, n: int, **options: Any) -> None:
    q.enqueue_many([f"{lane}:{i}" for i in range(n)], lane=lane, route="r", **options)


def finish(claims: list[Claim]) -> None:
    for claim in claims:
        assert claim.complete()


def lanes_of(claims: list[Claim]) -> Counter[str]:
    return Counter(claim.lane for claim in claims)


def test_a_cap_at_every_level(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("g", queue="q", route="r", cap=3)
    app.lane("g/a", queue="q", route="r", cap=2)
    fill(q, "g/a", 5)
    fill(q, "g/b", 5)
    fill(q, "other", 5)
    claims = q.lease(30, n=50)
    assert lanes_of(claims) == {"g/a": 2, "g/b": 1, "other": 5}
    assert q.lease(30, n=50) == []
    finish([claim for claim in claims if claim.lane == "g/b"])
    assert lanes_of(q.lease(30, n=50)) == {"g/b": 1}


def test_a_cap_on_a_queue(app: Headrace) -> None:
    q = app.queue("q")
    q.set(cap=2)
    q.enqueue_many(range(5), route="r")
    first = q.lease(30, n=5)
    assert len(first) == 2
    assert q.lease(30, n=5) == []
    first[0].release()
    assert len(q.lease(30, n=5)) == 1


@pytest.mark.parametrize("end", ["complete", "retry", "fail", "release", "abandon", "lease", "cancel"])
def test_every_end_gives_its_place_under_the_cap_back(timed: Headrace, clock: Clock, end: str) -> None:
    q = timed.queue("q")
    timed.lane("l", queue="q", route="r", cap=1)
    fill(q, "l", 2)
    (claim,) = q.lease(10)
    assert q.lease(10) == []
    if end == "lease":
        clock.forward(10)
    elif end == "cancel":
        q.cancel(claim.id, running=True, route="r")
        claim.release()
    else:
        getattr(claim, end)()
    assert len(q.lease(10, n=5)) == 1
    assert q.lane("l", route="r").counts().running == 1


def test_a_cap_changes_at_run_time(app: Headrace) -> None:
    q = app.queue("q")
    lane = app.lane("l", queue="q", route="r", cap=1)
    fill(q, "l", 10)
    running = q.lease(30, n=10)
    lane.set(cap=4)
    running += q.lease(30, n=10)
    assert len(running) == 4
    lane.set(cap=2)
    finish(running[:2])
    assert q.lease(30, n=10) == []
    finish(running[2:3])
    assert len(q.lease(30, n=10)) == 1
    lane.set(cap=None)
    assert len(q.lease(30, n=10)) == 5


def test_a_rate_is_exact_in_every_window(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    timed.lane("l", queue="q", route="r", rate="5/10s")
    fill(q, "l", 40)
    starts: list[float] = []
    steps = [0.0, 3.0, 6.9, 0.1, 2.9999, 0.0002, 7.0, 0.5, 0.5, 9.0, 10.0, 1.0, 8.9, 0.2]
    for step in steps:
        clock.forward(step)
        starts += [clock.now] * len(q.lease(1000, n=1 if step in (3.0, 0.5) else 7))
    for start in starts:
        assert sum(start - 10 < other <= start for other in starts) <= 5, (start, starts)
    assert len(starts) >= 20


def test_a_start_that_was_released_gives_its_place_in_the_rate_back(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    timed.lane("l", queue="q", route="r", rate=(2, 60))
    fill(q, "l", 3)
    first, second = q.lease(30, n=3)
    assert q.lease(30) == []
    first.release()
    assert len(q.lease(30, n=3)) == 1
    second.complete()
    assert q.lease(30) == []
    clock.forward(60)
    assert len(q.lease(30, n=3)) == 2, "one whose lease ran out, and the last"


def test_rates_at_two_levels(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    timed.lane("g", queue="q", route="r", rate="3/10s")
    timed.lane("g/a", queue="q", route="r", rate="1/5s")
    fill(q, "g/a", 9)
    fill(q, "g/b", 9)
    starts: list[tuple[float, str]] = []
    for _ in range(40):
        starts += [(clock.now, claim.lane) for claim in q.lease(1000, n=9)]
        clock.forward(1)
    for now, _ in starts:
        assert sum(now - 10 < at <= now for at, _ in starts) <= 3
        assert sum(now - 5 < at <= now for at, lane in starts if lane == "g/a") <= 1
    assert len(starts) == 12
    assert Counter(lane for _, lane in starts)["g/a"] >= 3, "it has its turns"


def test_a_rate_does_not_hold_up_others(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("l", queue="q", route="r", rate="1/h", priority=100)
    fill(q, "l", 5)
    fill(q, "m", 5)
    assert lanes_of(q.lease(30, n=10)) == {"l": 1, "m": 5}


def test_weights_share_turns_within_5_percent(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("one", queue="q", route="r", weight=1)
    app.lane("three", queue="q", route="r", weight=3)
    fill(q, "one", 700)
    fill(q, "three", 1500)
    order = [claim.lane for _ in range(40) for claim in q.lease(30, n=40)]
    for start in range(0, 600, 100):
        window = Counter(order[start : start + 1000])
        assert abs(window["three"] - 750) <= 50, (start, window)


def test_a_lane_that_empties_and_refills_gains_no_turn(app: Headrace) -> None:
    q = app.queue("q")
    fill(q, "steady", 1000)
    fill(q, "sleeper", 8)
    while "sleeper" in lanes_of(claims := q.lease(30, n=8)):
        finish(claims)
    finish(q.lease(30, n=200))
    fill(q, "sleeper", 200)
    shares = lanes_of(q.lease(30, n=100))
    assert abs(shares["sleeper"] - 50) <= 8, shares


def test_many_lanes_take_turns(app: Headrace) -> None:
    q = app.queue("q")
    for n in range(20):
        fill(q, f"l{n}", 40 if n == 0 else 8)
    assert set(lanes_of(q.lease(30, n=80)).values()) == {4}


def test_priority_of_lanes_is_strict_and_jobs_keep_their_own_below(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("low", queue="q", route="r", priority=10)
    app.lane("high", queue="q", route="r", priority=90)
    fill(q, "low", 3, priority=100)
    fill(q, "plain", 3, priority=80)
    fill(q, "plain", 3, priority=20)
    fill(q, "high", 3, priority=0)
    order = [claim.lane for _ in range(12) for claim in q.lease(30)]
    assert order == ["high"] * 3 + ["plain"] * 6 + ["low"] * 3


def test_a_lane_without_priority_stands_at_its_first_job_s(app: Headrace) -> None:
    q = app.queue("q")
    fill(q, "a", 1, priority=30)
    fill(q, "b", 1, priority=60)
    fill(q, "a", 1, priority=90)
    assert [claim.data for _ in range(3) for claim in q.lease(30)] == ["a:0", "b:0", "a:0"]


def test_strict_priority_starves_and_aging_does_not(timed: Headrace, clock: Clock) -> None:
    def last_of(q: Queue) -> int:
        """How many seconds of steady urgent work it takes until the old job gets its turn."""
        q.enqueue("old", priority=10, lane="old", route="r")
        for second in range(60):
            q.enqueue("urgent", priority=50, lane="new", route="r")
            (claim,) = q.lease(1000)
            if claim.data == "old":
                return second
            clock.forward(1)
        return -1

    strict, aging = timed.queue("strict"), timed.queue("aging")
    aging.set(aging=1)
    assert last_of(strict) == -1
    assert 38 <= last_of(aging) <= 43, "40 levels lower, one level a second"


def test_aging_changes_only_while_nothing_waits(app: Headrace) -> None:
    q = app.queue("q")
    q.set(aging=10)
    q.enqueue(1, route="r")
    with pytest.raises(SettingConflict, match="aging of queue q cannot change while 1 jobs wait"):
        q.set(aging=20)
    q.set(aging=10, cap=5)
    q.lease(30)[0].complete()
    q.set(aging=None)
    with pytest.raises(OptionError, match="aging is a setting of a queue, not of lane q/l"):
        app.lane("l", queue="q", aging=10)


def test_not_before_holds_a_whole_lane(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    lane = timed.lane("g", queue="q", route="r", not_before=clock.now + 10)
    fill(q, "g/a", 2)
    fill(q, "b", 1)
    assert lanes_of(q.lease(1000, n=5)) == {"b": 1}
    clock.forward(9.999)
    assert q.lease(1000) == []
    clock.forward(0.001)
    assert len(q.lease(1000)) == 1
    lane.set(not_before=clock.now + 3600)
    assert q.lease(1000) == []
    lane.set(not_before=None)
    assert len(q.lease(1000)) == 1


def test_forget_takes_all_settings_back_and_an_empty_lane_goes(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    lane = timed.lane("l", queue="q", route="r", cap=1, rate="1/d", priority=1)
    fill(q, "l", 3)
    assert len(q.lease(1000, n=3)) == 1
    lane.forget()
    rest = q.lease(1000, n=3)
    assert len(rest) == 2
    clock.forward(5000)
    finish(q.lease(1000, n=5))
    for _ in range(3):
        clock.forward(100)
        q.lease(10)
    assert q.lanes() == []


def test_a_lane_with_settings_stays_and_one_made_at_first_use_goes(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    timed.lane("kept", queue="q", route="r", cap=5)
    fill(q, "kept", 1)
    fill(q, "brief/x", 1)
    assert q.lanes() == ["brief", "kept"]
    finish(q.lease(30, n=2))
    for _ in range(4):
        clock.forward(100)
        q.lease(10)
    assert q.lanes() == ["kept"]
    timed.lane("kept", queue="q", route="r", forget=True)
    clock.forward(100)
    q.lease(10)
    clock.forward(100)
    q.lease(10)
    assert q.lanes() == []


def test_a_lane_made_at_first_use_stays_until_its_rate_s_window_has_passed(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    lane = timed.lane("l", queue="q", route="r", rate="1/h")
    fill(q, "l", 1)
    finish(q.lease(30))
    clock.forward(1800)
    q.lease(10)
    fill(q, "l", 1)
    assert q.lease(30) == []
    assert lane.counts().ready == 1
    clock.forward(1800)
    assert len(q.lease(30)) == 1


def test_after_a_drain_nothing_but_a_constant_stays(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    app.set_history("off")

    def drain(n: int) -> int:
        q.enqueue_many(range(n), keep_result=0, route="r")
        while claims := q.lease(30, n=200):
            assert all(q.complete_many(claims))
        return sum(hands_memory(hands))

    first = drain(4000)
    assert drain(8000) <= first + 1000, "the last answers are kept, whatever went through"


def hands_memory(hands: Hands) -> list[int]:
    """Bytes of every key of the namespace."""
    sizes: list[int] = []
    for shard in range(hands.place.shards):
        tag = hands.key("", shard)
        names = [name.removeprefix(tag) for name in hands.names() if name.startswith(tag) or not name.startswith("{")]
        sizes += [int(hands("MEMORY", name, shard=shard) or 0) for name in names]
    return sizes
