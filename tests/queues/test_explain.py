"""`explain()`: one test for each reason, its values and its sentence."""

from __future__ import annotations

import re

from headrace import Headrace, Job, Reason
from tests.queues.places import Clock, Hands

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
START = "1970-01-12 13:46:40 UTC"
"""Where a test's clock begins."""


def reason(job: Job, code: str) -> Reason:
    """The one reason of that code; the whole reads as a sentence, and has each code once a level."""
    explanation = job.explain()
    assert str(explanation).startswith(f"job {job.queue}/{job.id} is {explanation.status}: ")
    found = [one for one in explanation.reasons if one.code == code]
    assert len(found) == 1, explanation
    assert str(found[0]) in str(explanation)
    return found[0]


def test_not_due(timed: Headrace, clock: Clock) -> None:
    job = timed.queue("q").enqueue(1, delay=60)
    assert job.explain().codes == ("not_due",)
    why = reason(job, "not_due")
    assert why.until == clock.now + 60
    assert str(why) == "it is not due before 1970-01-12 13:47:40 UTC"


def test_paused(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    job = q.enqueue(1)
    q.pause("the mail server is down", who="ada")
    why = reason(job, "paused")
    assert (why.since, why.until, why.details) == (
        clock.now, None, {"path": "q", "who": "ada", "why": "the mail server is down"},
    )  # fmt: skip
    assert str(why) == f"q is paused by ada (the mail server is down) since {START}"
    q.pause(until=clock.now + 60)
    assert str(reason(job, "paused")) == f"q is paused by somebody since {START} until 1970-01-12 13:47:40 UTC"


def test_blocked_stands_before_paused(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    job = q.enqueue(1, lane="l", route="r")
    q.lane("l", route="r").pause(who="bob")
    q.lane("l", route="r").block("incident 12", who="op", until=clock.now + 60)
    assert job.explain().codes[:2] == ("blocked", "paused")
    assert str(reason(job, "blocked")) == (
        f"q/l is blocked by op (incident 12) since {START} until 1970-01-12 13:47:40 UTC"
    )
    clock.forward(60)
    assert "blocked" not in job.explain().codes


def test_rules_on_a_task(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1, task="t")
    app.task_rules("t").pause("bad release", who="ada")
    assert q.lease(30) == []
    assert re.fullmatch(rf"task t is paused by ada \(bad release\) since {STAMP}", str(reason(job, "paused")))
    app.task_rules("t").block(who="op")
    assert re.fullmatch(rf"task t is blocked by op since {STAMP}", str(reason(job, "blocked")))


def test_a_rule_on_a_task_is_told_before_a_claim_found_it(app: Headrace) -> None:
    job = app.queue("q").enqueue(1, task="t")
    app.task_rules("t").pause(who="ada")
    assert "paused" in job.explain().codes


def test_cap_names_the_holders(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("l", queue="q", route="r", cap=2)
    for n in range(3):
        q.enqueue(n, id=f"j{n}", lane="l", route="r")
    q.lease(30, n=3)
    job = q.job("j2", route="r")
    why = reason(job, "cap")
    assert set(why.details["holders"]) == {"j0", "j1"}
    assert {name: why.details[name] for name in ("path", "cap", "running")} == {"path": "q/l", "cap": 2, "running": 2}
    assert re.fullmatch(r"q/l has 2 running and its cap is 2: held by j[01], j[01]", str(why))
    app.lane("m", queue="q", route="r", cap=15)
    q.enqueue_many(range(16), lane="m", route="r")
    q.lease(30, n=15)
    (last,) = q.lane("m", route="r").jobs("ready")
    many = reason(last, "cap")
    assert 5 <= len(many.details["holders"]) <= 10
    assert str(many).endswith(", ...")


def test_cap_of_a_level_above(app: Headrace) -> None:
    q = app.queue("q")
    q.set(cap=1)
    q.enqueue(1, lane="g/a", route="r")
    job = q.enqueue(2, lane="g/b", route="r")
    (claim,) = q.lease(30)
    assert reason(job, "cap").details["path"] == "q"
    assert reason(job, "cap").details["holders"] == [claim.id]


def test_rate(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    timed.lane("l", queue="q", route="r", rate="2/10s")
    q.enqueue(1, lane="l", route="r")
    q.enqueue(2, lane="l", route="r")
    job = q.enqueue(3, lane="l", route="r")
    q.lease(1000)
    clock.forward(3)
    q.lease(1000)
    why = reason(job, "rate")
    assert (why.until, why.details) == (1_000_010, {"path": "q/l", "rate": 2, "window": 10_000})
    assert str(why) == "q/l has had 2 starts within 10 s; the next may start at 1970-01-12 13:46:50 UTC"
    clock.set(1_000_010)
    assert "rate" not in job.explain().codes


def test_not_before(timed: Headrace, clock: Clock) -> None:
    timed.lane("l", queue="q", route="r", not_before=clock.now + 60)
    job = timed.queue("q").enqueue(1, lane="l", route="r")
    why = reason(job, "not_before")
    assert (why.until, why.details) == (clock.now + 60, {"path": "q/l"})
    assert str(why) == "q/l starts nothing before 1970-01-12 13:47:40 UTC"


def test_twin(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    q.enqueue(1, id="x")
    q.lease(1000)
    clock.forward(5)
    twin = q.enqueue(2, id="x")
    assert twin.explain().codes == ("twin",)
    why = reason(twin, "twin")
    assert why.since == 1_000_000
    assert str(why) == f"the earlier job with this id still runs under a lease by hand, since {START}"


def test_running_and_cancelling(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1)
    q.lease(30)
    assert job.explain().codes == ("running",)
    why = reason(job, "running")
    assert why.details["attempt"] == 1
    assert why.until is not None
    assert why.since is not None
    assert 29 < why.until - why.since < 31
    assert re.fullmatch(rf"attempt 1 runs under a lease by hand since {STAMP}", str(why))
    job.cancel(running=True, why="stop it")
    assert str(reason(job, "cancelling")) == "it is to be cancelled: stop it"


def test_position_and_nobody_listens(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    q.enqueue_many([1, 2, 3], lane="l", route="r")
    clock.forward(5)
    job = q.enqueue(4, lane="l", route="r")
    q.enqueue(5, lane="m", route="r", priority=90)
    assert job.explain().codes == ("nobody_listens", "position")
    assert str(reason(job, "nobody_listens")) == "no session serves queue 'q' now"
    why = reason(job, "position")
    assert (why.details["ahead"], why.details["lanes_ahead"], why.details["path"]) == (3, 1, "q/l")
    assert str(why) == "3 jobs before it in q/l, 1 lanes before q/l; waiting since 1970-01-12 13:46:45 UTC"
    q.lease(1000)
    assert "nobody_listens" not in job.explain().codes, "somebody has just claimed here"


def test_stranded(app: Headrace, hands: Hands, dirty: None) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    for shard in range(app.shards):
        hands("DEL", "z:q", shard=shard)
    assert job.status() == "stranded"
    why = reason(job, "stranded")
    assert "audit(repair=True) mends it" in str(why)
    app.audit(repair=True)
    assert job.explain().status == "ready"


def test_jobs_that_have_ended_or_never_were(app: Headrace) -> None:
    q = app.queue("q")
    job = q.enqueue(1, id="x")
    q.lease(30)[0].complete()
    assert str(job.explain()) == "job q/x is done"
    assert q.job("never").explain().status == ""
    assert str(q.job("never").explain()) == "job q/never is unknown: it never was, or its record is no longer kept"
    assert q.job("never").explain().reasons == ()


def test_all_reasons_at_once(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    timed.lane("l", queue="q", route="r", cap=1, rate="1/10s", not_before=clock.now)
    q.enqueue(1, lane="l", route="r")
    job = q.enqueue(2, lane="l", route="r")
    q.lease(1000)
    q.lane("l", route="r").set(not_before=clock.now + 5)
    q.pause()
    q.block()
    assert job.explain().codes == ("blocked", "paused", "cap", "not_before", "rate", "position")
