"""Options: defaults, queue defaults, and what each of them does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace, JobNotFound, OptionError
from tests.queues.places import Clock

ENGINE_DEFAULTS: dict[str, Any] = {
    "max_failures": 10, "max_stalls": 3, "max_timeouts": 3, "timeout": None, "min_backoff": 2.0, "max_backoff": 300.0,
    "keep_result": 600.0, "keep_failed": 604_800.0, "unique_for": 0.0,
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "max_failures": None, "max_stalls": 0, "max_timeouts": 7, "timeout": 1.5, "min_backoff": 0.0, "max_backoff": None,
    "keep_result": None, "keep_failed": 0.0, "unique_for": 5.0,
}  # fmt: skip


def test_defaults_of_the_engine(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue()
    (claim,) = q.lease(30)
    assert claim.options == ENGINE_DEFAULTS
    assert (claim.priority, claim.lane, claim.data) == (50, "", None)
    assert (claim.attempt, claim.failures, claim.stalls, claim.timeouts) == (1, 0, 0, 0)


def test_each_option_is_carried_alone(app: Headrace) -> None:
    q = app.queue("q")
    for name, value in OTHERS.items():
        job = q.enqueue(**{name: value})
        assert job.info().options == {**ENGINE_DEFAULTS, name: value}, name
        (claim,) = q.lease(30)
        assert claim.options == {**ENGINE_DEFAULTS, name: value}, name
        claim.fail() if name != "unique_for" else claim.complete()


def test_all_options_at_once_and_over_a_queue_s_defaults(app: Headrace) -> None:
    q = app.queue("q", priority=70, **OTHERS)
    job = q.enqueue(task="t", lane="l")
    info = job.info()
    assert info.options == {**OTHERS, "task": "t"}
    assert (info.priority, info.lane) == (70, "l")
    back = q.enqueue(priority=50, **ENGINE_DEFAULTS)
    assert back.info().options == ENGINE_DEFAULTS
    assert back.info().priority == 50


def test_defaults_are_added_to_a_queue_that_is_known(app: Headrace) -> None:
    app.queue("q", max_failures=1)
    q = app.queue("q", timeout=timedelta(minutes=2))
    assert app.queue("q").defaults == {"max_failures": 1, "timeout": timedelta(minutes=2)}
    assert q.enqueue().info().options == {**ENGINE_DEFAULTS, "max_failures": 1, "timeout": 120.0}


def test_priority_goes_first_then_first_come(app: Headrace) -> None:
    q = app.queue("q")
    for n, priority in enumerate((50, 0, 100, 50, 75, 100)):
        q.enqueue(n, priority=priority, route="r")
    assert [claim.data for claim in q.lease(30, n=10)] == [2, 5, 4, 0, 3, 1]


def test_not_before_its_time_by_the_server_s_clock(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    jobs = [
        q.enqueue("delay", delay=10, route="r"),
        q.enqueue("timedelta", delay=timedelta(seconds=10.0001), route="r"),
        q.enqueue("epoch", run_at=clock.now + 5, route="r"),
        q.enqueue("datetime", run_at=datetime.fromtimestamp(clock.now + 5, UTC) + timedelta(seconds=2), route="r"),
    ]
    assert {job.status() for job in jobs} == {"scheduled"}
    assert q.counts().scheduled == 4
    seen: list[tuple[float, str]] = []
    for _ in range(24):
        seen += [(clock.now - 1_000_000, claim.data) for claim in q.lease(300, n=10)]
        clock.forward(0.5)
    assert seen == [(5, "epoch"), (7, "datetime"), (10, "delay"), (10.5, "timedelta")]


def test_a_time_that_has_passed_is_now(app: Headrace) -> None:
    q = app.queue("q")
    assert q.enqueue(1, run_at=0).status() == "ready"
    assert q.enqueue(2, delay=0).status() == "ready"
    assert q.enqueue(3, run_at=datetime(2020, 1, 1, tzinfo=UTC)).status() == "ready"


def test_results_are_kept_as_long_as_asked(app: Headrace) -> None:
    q = app.queue("q")
    jobs = [q.enqueue(n, keep_result=keep) for n, keep in enumerate((0, None, 0.05, 60))]
    for claim in q.lease(30, n=10):
        assert claim.complete(f"result {claim.data}")
    with pytest.raises(JobNotFound, match=r"nothing is known of job q/.*keep_result"):
        jobs[0].result(timeout=1)
    assert jobs[1].result(timeout=1) == "result 1"
    assert jobs[3].result(timeout=1) == "result 3"
    while jobs[2].status() == "done":
        pass
    assert jobs[2].status() is None


def test_failed_jobs_are_kept_as_long_as_asked(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    jobs = [q.enqueue(n, keep_failed=keep, keep_result=0, route="r") for n, keep in enumerate((0, None, 10, 604_800))]
    for claim in q.lease(300, n=10):
        assert claim.fail("bad") == "failed"
    assert [job.status() for job in jobs] == [None, "failed", "failed", "failed"]
    assert q.counts().failed == 3
    clock.forward(11)
    assert q.lease(30) == []
    assert [job.status() for job in jobs] == [None, "failed", None, "failed"]
    clock.forward(604_800)
    assert q.lease(30) == []
    assert [job.status() for job in jobs] == [None, "failed", None, None]
    assert q.counts().failed == 1


def test_one_name_is_one_queue_and_what_is_set_later_holds_for_all(app: Headrace) -> None:
    first = app.queue("one", max_failures=5, data_type=dict[str, int])
    second = app.queue("one", priority=90)
    assert first is second or first == second
    first.enqueue({"a": 1})
    (claim,) = first.lease(30)
    assert (claim.priority, claim.options["max_failures"], claim.data) == (90, 5, {"a": 1})
    app.queue("one", max_failures=2)
    assert second.enqueue().info().options["max_failures"] == 2


def test_a_wrong_setting_leaves_a_queue_as_it_was(app: Headrace) -> None:
    q = app.queue("one", min_backoff=5)
    wrong: list[dict[str, Any]] = [
        {"max_failures": 1, "max_backoff": 1},
        {"max_failures": 1, "timeout": -1},
        {"max_failures": 1, "data_type": "Order"},
        {"max_failures": 1, "failure_options": {"timeout": -1}},
    ]
    for settings in wrong:
        with pytest.raises(OptionError):
            app.queue("one", **settings)
    assert q.enqueue().info().options["max_failures"] == 10
