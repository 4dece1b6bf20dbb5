"""How attempts end: completion is fenced, retries back off, failures have a budget, releases cost nothing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Claim, ClaimLost, Headrace, PayloadError
from tests.queues.places import Clock, Place


def test_complete_is_true_for_exactly_one_of_many_callers(app: Headrace, place: Place, namespace: str) -> None:
    job = app.queue("q").enqueue(1)
    with place.open(namespace) as other, ThreadPoolExecutor(16) as pool:
        (claim,) = other.queue("q").lease(30)
        start = threading.Barrier(16)

        def complete(n: int) -> bool:
            start.wait()
            return claim.complete(n)

        answers = [future.result() for future in [pool.submit(complete, n) for n in range(16)]]
    assert sum(answers) == 1
    assert job.result(timeout=5) == answers.index(True)


def test_double_late_and_foreign_completions_change_nothing(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    (old,) = q.lease(30)
    old.release()
    (claim,) = q.lease(30)
    assert old.complete("foreign") is False
    assert q.complete_many([old, claim, claim], ["foreign", "right", "double"]) == [False, True, False]
    assert claim.complete("late") is False
    assert job.result(timeout=5) == "right"


@pytest.mark.parametrize("write", ["retry", "fail", "release", "abandon", "extend", "report"])
def test_every_other_write_of_a_lost_claim_is_refused(app: Headrace, write: str) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    (claim,) = q.lease(30)
    claim.release()
    before = job.info()
    args = {"extend": (5,), "report": (0.5, "half")}.get(write, ())
    with pytest.raises(ClaimLost, match=r"claim on job q/x is not current any more.*nothing was changed") as caught:
        getattr(claim, write)(*args)
    assert (caught.value.queue, caught.value.id) == ("q", "x")
    assert job.info() == before


def test_a_result_that_cannot_be_stored_leaves_the_claim_as_it_was(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue(1)
    (claim,) = q.lease(30)
    with pytest.raises(PayloadError, match="result cannot be encoded"):
        claim.complete(object())
    with pytest.raises(PayloadError, match="result takes"):
        claim.complete("x" * (1 << 20))
    assert claim.complete("fine") is True


def test_retries_back_off_exponentially_between_the_bounds(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q", min_backoff=2, max_backoff=30, max_failures=None)
    job = q.enqueue(1, id="x")
    waits: list[float] = []
    for n in range(1, 9):
        (claim,) = q.lease(1000)
        assert (claim.attempt, claim.failures) == (n, n - 1)
        assert claim.retry(ValueError("no")) == "waiting"
        info = job.info()
        assert info.status == "scheduled"
        waits.append(info.at - clock.now)
        assert q.lease(30) == []
        clock.set(info.at)
    for n, wait in enumerate(waits):
        full = min(30, 2 * 2**n)
        assert max(2, 0.75 * full) <= wait <= full, (n, waits)
    assert len({round(wait % 1, 3) for wait in waits[5:]}) > 1, "there is jitter"


def test_retry_at_one_s_own_time(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    job = q.enqueue(1, id="x")
    moment = datetime.fromtimestamp(clock.now + 40, UTC)
    given: dict[str, Any]
    for given, wait in (({"delay": 7}, 7), ({"at": clock.now + 20}, 20), ({"at": moment}, 40)):
        (claim,) = q.lease(1000)
        claim.retry("later", **given)
        assert job.info().at == 1_000_000 + wait
        clock.set(1_000_000 + wait)
    (claim,) = q.lease(1000)
    claim.retry("now", delay=0)
    assert job.status() == "ready"
    assert job.info().counts == (4, 4, 0, 0)


def test_the_budget_of_failures(app: Headrace) -> None:
    q = app.queue("q", max_failures=2)
    job = q.enqueue(1, id="x")
    answers = [q.lease(30)[0].retry(f"failure {n}", delay=0) for n in range(3)]
    assert answers == ["waiting", "waiting", "failed"]
    info = job.info()
    assert (info.status, info.counts) == ("failed", (3, 3, 0, 0))
    assert info.error is not None
    assert info.error.message == "failure 2"
    assert q.lease(30) == []
    never = q.enqueue(1, max_failures=0)
    assert q.lease(30)[0].retry("only once") == "failed"
    assert never.status() == "failed"


def test_fail_ends_at_once(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1)
    assert q.lease(30)[0].fail(ValueError("cannot ever work")) == "failed"
    info = job.info()
    assert info.status == "failed"
    assert info.error is not None
    assert (info.error.type, info.error.message) == ("ValueError", "cannot ever work")


def test_release_counts_nothing_and_keeps_the_place_in_line(app: Headrace) -> None:
    q = app.queue("q")
    for n in range(3):
        q.enqueue(n, route="r")
    (claim,) = q.lease(30)
    assert claim.release() == "waiting"
    again = q.lease(30, n=3)
    assert [claim.data for claim in again] == [0, 1, 2]
    assert again[0].attempt == 1
    assert again[0].release(delay=60) == "waiting"
    assert q.job(again[0].id).info().counts == (0, 0, 0, 0)
    assert q.counts().scheduled == 1


def test_abandon_counts_a_stall_at_once(app: Headrace) -> None:
    q = app.queue("q", max_stalls=1)
    q.enqueue(1, id="x", route="r")
    q.enqueue(2, id="y", route="r")
    assert q.lease(30)[0].abandon() == "waiting"
    (claim,) = q.lease(30)
    assert (claim.id, claim.attempt, claim.stalls) == ("x", 2, 1)
    assert claim.abandon() == "failed"


def test_errors_are_kept_with_type_text_fields_and_traceback(app: Headrace) -> None:
    class HttpError(Exception):
        def __init__(self, status: int) -> None:
            super().__init__(f"status {status}")
            self.status = status

    def run(claim: Claim) -> None:
        try:
            raise HttpError(503)
        except HttpError as error:
            claim.retry(error, delay=0)

    q = app.queue("q")
    job = q.enqueue(1)
    run(q.lease(30)[0])
    error = job.info().error
    assert error is not None
    assert (error.type, error.message, error.fields) == ("HttpError", "status 503", {"status": 503})
    assert "raise HttpError(503)" in error.traceback
    assert str(error) == "HttpError: status 503"
    for error, shown in (("a text", "Error: a text"), (None, "no error was given"), (KeyError("k"), "KeyError: 'k'")):
        q.lease(30)[0].retry(error, delay=0)
        assert str(job.info().error) == shown


class Broken(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_attempt_can_be_ended_with_any_error_at_all(app: Headrace) -> None:
    q = app.queue("q", max_failures=None)
    job = q.enqueue(1)
    huge, itself = ValueError("x" * 100_000), ValueError("odd")
    itself.me = itself  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    for error, shown in (
        (object(), "object: <object object at"), (Broken(), "Broken: (its text cannot be had: RuntimeError)"),
        ("\ud800", r"Error: \ud800"), (ValueError("\ud800"), r"ValueError: \ud800"), (huge, "ValueError: xxx"),
        (itself, "ValueError: odd"), ({"code": 5}, "dict"), (["x" * 100_000], "list: ['xxx"),
    ):  # fmt: skip
        (claim,) = q.lease(30)
        assert claim.retry(error, delay=0) == "waiting"
        assert str(job.info().error).startswith(shown), shown
    (claim,) = q.lease(30)
    claim.retry({"code": 5}, delay=0)
    failure = job.info().error
    assert failure is not None
    assert failure.fields == {"value": {"code": 5}}


def test_report_is_seen_while_the_job_runs(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1)
    assert job.progress() is None
    (claim,) = q.lease(30)
    assert claim.report(0.25, "a quarter") is True
    progress = job.progress()
    assert progress is not None
    assert (progress.done, progress.text) == (0.25, "a quarter")
    assert claim.report(text="no number") is True
    assert job.info().progress == type(progress)(None, "no number")
    claim.retry("again", delay=0)
    assert job.progress() is None
    (claim,) = q.lease(30)
    assert job.progress() is None
    claim.report(1.0)
    claim.complete()
    assert job.progress() is None
