"""Bad input gets a typed error that says what to do, before anything is sent, with nothing half-written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from headrace import (
    Headrace,
    HeadraceError,
    InvalidInput,
    NameInvalid,
    OptionError,
    PayloadError,
    ServerUnfit,
)
from tests.queues.places import Hands, Place


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def itself() -> Any:
    value: dict[str, Any] = {}
    value["me"] = value
    return value


class Odd:
    """Nothing that anybody could encode."""


Case = tuple[Callable[[Any], Any], type[HeadraceError], str]
FAR, HUGE = 1e300, 10**5000
FIRST, LAST = datetime.min, datetime.max  # noqa: DTZ901 - in local time they are beyond what can be computed
ENQUEUE: dict[str, Case] = {
    "an object": (lambda q: q.enqueue(Odd()), PayloadError, "data cannot be encoded: .*Odd.*Pass JSON-like values"),
    "a function": (lambda q: q.enqueue({"f": len}), PayloadError, "data cannot be encoded"),
    "a lone surrogate": (lambda q: q.enqueue("\ud800"), PayloadError, "not valid Unicode"),
    "too large": (lambda q: q.enqueue(b"x" * (1 << 20) + b"x"), PayloadError, "1,048,577 bytes, the limit is 1"),
    "too large text": (lambda q: q.enqueue("x" * (1 << 20)), PayloadError, "store it elsewhere and pass a reference"),
    "too deep": (lambda q: q.enqueue(deep(201)), PayloadError, "nested deeper than 200 levels"),
    "far too deep": (lambda q: q.enqueue(deep(50_000)), PayloadError, "nested deeper than 200 levels"),
    "itself": (lambda q: q.enqueue(itself()), PayloadError, "contains itself"),
    "too deep inside a dataclass": (lambda q: q.enqueue(Nested(deep(5000))), PayloadError, "deeper than 200"),
    "an integer id": (lambda q: q.enqueue(1, id=42), NameInvalid, "id must be a string, not int: 42"),
    "an empty id": (lambda q: q.enqueue(1, id=""), NameInvalid, "id must have 1 to 256 bytes"),
    "a long id": (lambda q: q.enqueue(1, id="é" * 129), NameInvalid, "id must have 1 to 256 bytes, .* has 258"),
    "control characters": (lambda q: q.enqueue(1, id="a\nb"), NameInvalid, r"id 'a\\nb' contains control characters"),
    "a deep lane": (lambda q: q.enqueue(1, lane="a/b/c"), NameInvalid, "has 3 levels: at most two"),
    "an empty level": (lambda q: q.enqueue(1, lane="a/"), NameInvalid, "level of lane 'a/' must have 1 to 256 bytes"),
    "a lane of blanks": (lambda q: q.enqueue(1, lane=" a"), NameInvalid, "begin or end with a blank"),
    "a long lane": (lambda q: q.enqueue(1, lane="x" * 200 + "/" + "y" * 200), NameInvalid, "longer than 255 bytes"),
    "a numeric lane": (lambda q: q.enqueue(1, lane=7), NameInvalid, "lane must be a string, not int"),
    "negative delay": (lambda q: q.enqueue(1, delay=-1), OptionError, "delay=-1 must be between 0 seconds"),
    "NaN delay": (lambda q: q.enqueue(1, delay=math.nan), OptionError, "delay=nan is not finite: expected seconds"),
    "infinite delay": (lambda q: q.enqueue(1, delay=math.inf), OptionError, "delay=inf is not finite"),
    "endless delay": (lambda q: q.enqueue(1, delay=FAR), OptionError, "delay=1e.300 must be between"),
    "a huge integer": (lambda q: q.enqueue(1, delay=10**400), OptionError, "delay is far too large"),
    "negative timedelta": (lambda q: q.enqueue(1, delay=timedelta(-1)), OptionError, "must be between 0 seconds"),
    "delay as text": (lambda q: q.enqueue(1, delay="5"), OptionError, "expected seconds or a timedelta, got str"),
    "negative time": (lambda q: q.enqueue(1, run_at=-1), OptionError, "run_at=-1 is no moment between 1970 and"),
    "time in ms": (lambda q: q.enqueue(1, run_at=1.7e12), OptionError, "epoch seconds are expected"),
    "NaN time": (lambda q: q.enqueue(1, run_at=math.nan), OptionError, "run_at=nan is not finite"),
    "time as text": (lambda q: q.enqueue(1, run_at="now"), OptionError, "expected a datetime or epoch seconds"),
    "both times": (lambda q: q.enqueue(1, run_at=1, delay=1), OptionError, "give run_at or delay, not both"),
    "an unknown option": (lambda q: q.enqueue(1, max_failure=3), OptionError, "did you mean 'max_failures'"),
    "an unknown flag": (lambda q: q.enqueue(1, update_dta=True), OptionError, "did you mean 'update_data'"),
    "far from any option": (lambda q: q.enqueue(1, xyzzy=1), OptionError, "there are: .*max_failures"),
    "priority -1": (lambda q: q.enqueue(1, priority=-1), OptionError, "priority=-1: expected a whole number from 0 to"),
    "priority 101": (lambda q: q.enqueue(1, priority=101), OptionError, "from 0 to 100; greater goes first"),
    "priority 1.5": (lambda q: q.enqueue(1, priority=1.5), OptionError, "priority=1.5: expected a whole"),
    "priority True": (lambda q: q.enqueue(1, priority=True), OptionError, "priority=True: expected a whole"),
    "priority None": (lambda q: q.enqueue(1, priority=None), OptionError, "priority=None: expected a whole"),
    "negative budget": (lambda q: q.enqueue(1, max_failures=-1), OptionError, "max_failures=-1: expected"),
    "budget as float": (lambda q: q.enqueue(1, max_stalls=1.0), OptionError, "max_stalls=1.0: expected"),
    "negative timeout": (lambda q: q.enqueue(1, timeout=-5), OptionError, "timeout=-5 must be between"),
    "NaN backoff": (lambda q: q.enqueue(1, min_backoff=math.nan), OptionError, "min_backoff=nan is not finite"),
    "no min_backoff": (lambda q: q.enqueue(1, min_backoff=None), OptionError, "min_backoff=None: give sec"),
    "backoffs reversed": (lambda q: q.enqueue(1, min_backoff=9, max_backoff=3), OptionError, "must not be greater"),
    "infinite keeping": (lambda q: q.enqueue(1, keep_result=math.inf), OptionError, "keep_result=inf is not finite"),
    "a flag that is none": (lambda q: q.enqueue(1, update_data="yes"), OptionError, "expected True or False"),
    "a mode that is none": (lambda q: q.enqueue(1, update_run_at="later"), OptionError, "update_run_at='later'"),
    "if_exists that is none": (
        lambda q: q.enqueue(1, if_exists="replace"), OptionError, "expected 'update', 'ignore' or 'error'",
    ),
    "a task without a name": (lambda q: q.enqueue(1, task=""), NameInvalid, "task must have 1 to 256 bytes"),
    "a task that is a number": (lambda q: q.enqueue(1, task=5), NameInvalid, "task must be a string, not int: 5"),
    "a long task": (lambda q: q.enqueue(1, task="x" * 257), NameInvalid, "task must have 1 to 256 bytes, .* has 257"),
    "a task of two lines": (lambda q: q.enqueue(1, task="a\nb"), NameInvalid, "task 'a.*' contains control"),
    "a broken task": (lambda q: q.enqueue(1, task="\ud800"), NameInvalid, "task .* is not valid Unicode text"),
    "a broken route": (lambda q: q.enqueue(1, route="\ud800"), OptionError, "route .* is not valid Unicode text"),
    "a route of two lines": (lambda q: q.enqueue(1, route="a\nb"), OptionError, "route .* contains control"),
    "a route of nothing": (lambda q: q.enqueue(1, route=""), OptionError, "route must have 1 to 256 bytes"),
    "the first moment": (lambda q: q.enqueue(1, run_at=FIRST), OptionError, "run_at=.* is no moment between"),
    "the last moment": (lambda q: q.enqueue(1, run_at=LAST), OptionError, "run_at=.* is no moment between"),
    "a huge budget": (lambda q: q.enqueue(1, max_failures=1 << 40), OptionError, "is too large: at most 2,147,483,647"),
    "a budget of many digits": (lambda q: q.enqueue(1, max_failures=-(10**5000)), OptionError, "expected a whole"),
    "a deep dataclass": (lambda q: q.enqueue(chain(201)), PayloadError, "deeper than 200 levels"),
    "a very deep dataclass": (lambda q: q.enqueue(chain(950)), PayloadError, "deeper than 200 levels"),
    "a deep dataclass in a list": (lambda q: q.enqueue([chain(200)]), PayloadError, "deeper than 200 levels"),
    "a broken list": (lambda q: q.enqueue(BrokenList([1])), PayloadError, "BrokenList raised RuntimeError: broken"),
    "a broken model": (lambda q: q.enqueue(BrokenModel()), PayloadError, r"model_dump\(\) raised KeyError: 'broken'"),
    "in a batch": (lambda q: q.enqueue_many([1, Odd()]), PayloadError, "data cannot be encoded"),
    "an id in a batch": (lambda q: q.enqueue_many([1, 2], ids=["a", "\n"]), NameInvalid, "control characters"),
    "an unknown option of a batch": (lambda q: q.enqueue_many([1], dely=1), OptionError, "did you mean 'delay'"),
}  # fmt: skip
OTHERS: dict[str, Case] = {
    "a lease of nothing": (lambda q: q.lease(0), OptionError, "a lease must last at least a millisecond"),
    "a negative lease": (lambda q: q.lease(-1), OptionError, "seconds=-1 must be between"),
    "an endless lease": (lambda q: q.lease(math.inf), OptionError, "seconds=inf is not finite"),
    "no jobs": (lambda q: q.lease(30, n=0), OptionError, "n=0: expected a whole number from 1 to 10,000"),
    "too many jobs": (lambda q: q.lease(30, n=10_001), OptionError, "n=10001: expected"),
    "half a job": (lambda q: q.lease(30, n=1.5), OptionError, "n=1.5: expected a whole number"),
    "a negative wait": (lambda q: q.lease(30, wait=-1), OptionError, "wait=-1 must be between"),
    "a cap of 0": (lambda q: q.set(cap=0), OptionError, "cap=0: .* from 1 on, or None .*pause.. stops a lane"),
    "a cap of 1.5": (lambda q: q.set(cap=1.5), OptionError, "cap=1.5: expected a whole number"),
    "a rate of words": (lambda q: q.set(rate="fast"), OptionError, "expected 'n/window' such as '10/10s'"),
    "a rate of 0": (lambda q: q.set(rate="0/s"), OptionError, "from 1 to 10,000 starts a window"),
    "a rate too high": (lambda q: q.set(rate="10001/s"), OptionError, "from 1 to 10,000 starts a window"),
    "a window of 0": (lambda q: q.set(rate=(1, 0)), OptionError, "the window must be between 1 ms and a year"),
    "half a rate": (lambda q: q.set(rate=(1.5, 1)), OptionError, "rate="),
    "a rate of one number": (lambda q: q.set(rate=(1,)), OptionError, "rate="),
    "a rate that is a number": (lambda q: q.set(rate=5), OptionError, "rate=5"),
    "a weight of 0": (lambda q: q.set(weight=0), OptionError, "weight=0: expected a number from 0.01 to 1000"),
    "a weight of NaN": (lambda q: q.set(weight=math.nan), OptionError, "weight=nan: expected a number"),
    "a quantum of 0": (lambda q: q.set(quantum=0), OptionError, "quantum=0: expected a number from 1"),
    "aging too fast": (lambda q: q.set(aging=0.5), OptionError, "aging=0.5: expected at least 1 second"),
    "a lane's priority": (lambda q: q.set(priority=200), OptionError, "priority=200"),
    "a time that is none": (lambda q: q.set(not_before=-5), OptionError, "not_before=-5 is no moment"),
    "an unknown setting": (lambda q: q.set(capp=5), OptionError, "has no option 'capp': did you mean 'cap'"),
    "a rule's end": (lambda q: q.pause(until=math.nan), OptionError, "until=nan is not finite"),
    "a handle by a bad id": (lambda q: q.job("\x00"), NameInvalid, "control characters"),
    "cancelling a bad id": (lambda q: q.cancel(""), NameInvalid, "id must have 1 to 256 bytes"),
    "a lane with a bad name": (lambda q: q.lane("a//b"), NameInvalid, "at most two|1 to 256 bytes"),
    "a cap beyond a server's numbers": (lambda q: q.set(cap=2**63), OptionError, "cap is too large: at most 2,147"),
    "a cap beyond MessagePack": (lambda q: q.set(cap=2**70), OptionError, "cap is too large.*pause.. stops a lane"),
    "a rate of many digits": (lambda q: q.set(rate="9" * 5000 + "/s"), OptionError, "expected 'n/window'"),
    "a window of many digits": (lambda q: q.set(rate="1/" + "9" * 5000), OptionError, "expected 'n/window'"),
    "why: a book": (lambda q: q.pause("x" * 1_000_000), OptionError, "why may have 1,000 characters.* has 1,000,000"),
    "why: an object": (lambda q: q.pause(Odd()), OptionError, "why must be a string, not Odd"),
    "why: broken": (lambda q: q.block("\ud800"), OptionError, "why .* is not valid Unicode text"),
    "who: a number": (lambda q: q.pause(who=5), OptionError, "who must be a string, not int: 5"),
    "who: broken": (lambda q: q.pause(who="\ud800"), OptionError, "who .* is not valid Unicode text"),
    "cancelling why: broken": (lambda q: q.cancel("x", why="\ud800"), OptionError, "why .* is not valid Unicode"),
    "cancelling a job why": (lambda q: q.job("x").cancel(why=5), OptionError, "why must be a string, not int"),
    "a broken dead letter": (lambda q: q.retry_failed(["\ud800"]), NameInvalid, "id .* is not valid Unicode"),
    "a number as dead letter": (lambda q: q.retry_failed([5]), NameInvalid, "id must be a string, not int"),
    "no list of dead letters": (lambda q: q.drop_failed(5), InvalidInput, "ids=5: expected a list of ids"),
    "completing nothing": (lambda q: q.complete_many(None), InvalidInput, "claims=None: expected a list of claims"),
    "completing what is no claim": (lambda q: q.complete_many([7]), InvalidInput, "of queue 'q': 7 is no claim"),
    "results of one text": (lambda q: q.complete_many([], "ab"), InvalidInput, "results='ab': expected a list of"),
    "a number as many": (lambda q: q.enqueue_many(5), InvalidInput, "data is a int, expected a list"),
    "a lane's broken route": (lambda q: q.lane("a", route="\n"), OptionError, "route .* contains control"),
    "perhaps running": (lambda q: q.cancel("x", running="yes"), OptionError, "running='yes': expected True or False"),
    "a lease of many digits": (lambda q: q.lease(30, n=HUGE), OptionError, "n=.*: expected a whole number from 1"),
    "a page of many digits": (lambda q: list(q.jobs(page=HUGE)), OptionError, "page=.*: expected a whole number"),
    "a route of many digits": (lambda q: q.job("x", route=10**300), OptionError, "route must have 1 to 256 bytes"),
    "a page of nothing": (lambda q: list(q.jobs(page=0)), OptionError, "page=0"),
}  # fmt: skip


@dataclass
class Chained:
    """One of a chain that is as deep as it is long."""

    next: Any


def chain(length: int) -> Any:
    value: Any = None
    for _ in range(length):
        value = Chained(value)
    return value


class BrokenList(list[Any]):
    """A list that nobody can go through."""

    def __iter__(self) -> Any:
        raise RuntimeError("broken")


class BrokenModel:
    """A model that cannot say what it holds."""

    def model_dump(self, **_: Any) -> Any:
        raise KeyError("broken")


class Nested:
    """A model whose content is deep."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def model_dump(self, *, mode: str) -> Any:
        return {"content": self.content, "mode": mode}


@pytest.mark.parametrize("what", ENQUEUE)
def test_nothing_is_enqueued(app: Headrace, hands: Hands, what: str) -> None:
    call, kind, says = ENQUEUE[what]
    refused(app, hands, call, kind, says)


@pytest.mark.parametrize("what", OTHERS)
def test_nothing_is_done(app: Headrace, hands: Hands, what: str) -> None:
    call, kind, says = OTHERS[what]
    refused(app, hands, call, kind, says)


def refused(app: Headrace, hands: Hands, call: Callable[[Any], Any], kind: type[HeadraceError], says: str) -> None:
    q = app.queue("q")
    before, calls = hands.names(), hands.calls()
    with pytest.raises(kind, match=says) as caught:
        call(q)
    assert isinstance(caught.value, InvalidInput)
    assert isinstance(caught.value, ValueError)
    assert hands.calls() == calls, "nothing is sent"
    assert hands.names() == before


def test_names_of_queues(app: Headrace) -> None:
    for name in ("", "a/b", "*", " a", "a\n", "x" * 257, "\ud800"):
        with pytest.raises(NameInvalid, match="queue"):
            app.queue(name)
    with pytest.raises(NameInvalid, match="queue must be a string, not int"):
        app.queue(5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(NameInvalid):
        app.lane("l", queue="a/b")


def test_defaults_of_a_queue(app: Headrace) -> None:
    with pytest.raises(OptionError, match=r"queue 'q' has no option 'run_at'"):
        app.queue("q", run_at=5)  # pyright: ignore[reportCallIssue]
    with pytest.raises(OptionError, match="did you mean 'max_failures'"):
        app.queue("q", max_failure=5)  # pyright: ignore[reportCallIssue]
    with pytest.raises(OptionError, match="timeout=-1"):
        app.queue("q", timeout=-1)
    with pytest.raises(OptionError, match="min_backoff must not be greater"):
        app.queue("q", min_backoff=500)
    with pytest.raises(OptionError, match="has no option 'max_stall': did you mean 'max_stalls'"):
        app.queue("q", failure_options={"max_stall": 5})  # pyright: ignore[reportArgumentType]


def test_writes_of_a_claim(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    q.enqueue(1)
    (claim,) = q.lease(30)
    calls = hands.calls()
    bad: list[Callable[[], Any]] = [
        lambda: claim.complete(Odd()),
        lambda: claim.complete(b"x" * (1 << 21)),
        lambda: claim.retry(delay=-1),
        lambda: claim.retry(at=math.nan),
        lambda: claim.retry(at=5, delay=5),
        lambda: claim.release(delay=math.inf),
        lambda: claim.extend(-1),
        lambda: claim.extend(0),
        lambda: claim.report(0.5, "x" * 5000),
        lambda: claim.report(2.0),
        lambda: q.complete_many([claim], [Odd()]),
    ]
    for call in bad:
        with pytest.raises(InvalidInput):
            call()
    assert hands.calls() == calls
    claim.retry(Odd(), delay=0)
    (claim,) = q.lease(30)
    assert claim.complete()


def test_the_limit_of_size_can_be_set(place: Place, namespace: str, hands: Hands) -> None:
    with place.open(namespace, max_payload=100) as app:
        app.queue("q").enqueue(b"x" * 100)
        with pytest.raises(PayloadError, match="101 bytes, the limit is 100"):
            app.queue("q").enqueue(b"x" * 101)
        with pytest.raises(PayloadError, match="result takes 101 bytes"):
            app.queue("q").lease(30)[0].complete(b"x" * 101)
    hands.clean()


def test_what_is_asked_of_the_server(place: Place, namespace: str, hands: Hands) -> None:
    with pytest.raises(OptionError, match="durability='forever': expected one of memory, everysec, always, replicated"):
        Headrace(place.url, namespace=namespace, durability="forever")
    with pytest.raises(ServerUnfit, match=r"durability='always' was asked for, the server promises 'memory': change"):
        Headrace(place.url, namespace=namespace, durability="always")
    with Headrace(place.url, namespace=namespace, durability="memory"):
        pass
    with pytest.raises(OptionError, match="give url or connection=, not both"):
        Headrace(place.url, connection=object())
    with pytest.raises(InvalidInput):
        Headrace("http://example.com")
    hands.clean()


def test_data_at_the_limits_is_taken(app: Headrace) -> None:
    q = app.queue("q")
    for value in (b"x" * (1 << 20), deep(200), "x" * ((1 << 20) - 5)):
        q.enqueue(value)
        (claim,) = q.lease(30)
        assert claim.data == value
        assert claim.complete()
    assert q.enqueue(1, id="x" * 256, lane="l" * 254, route="r", priority=0).outcome == "added"
    assert q.enqueue(1, run_at=datetime(9999, 12, 31, tzinfo=None)).status() == "scheduled"  # noqa: DTZ001
