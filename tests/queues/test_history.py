"""The history: one event an attempt, bounded, switchable."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace import Event, Headrace, OptionError
from headrace.protocol.steps import Call, Steps
from tests.queues.places import Clock, Hands, Place
from tests.tools.servers import Server


def events(app: Headrace) -> list[Event]:
    return app.history(10_000)


def test_one_event_an_attempt_with_its_fields(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q", max_failures=5)
    q.enqueue("payload", id="x", lane="g/l", route="r")
    clock.forward(5)
    (claim,) = q.lease(100)
    clock.forward(2)
    claim.retry(ValueError("no"), delay=0)
    clock.forward(1)
    (claim,) = q.lease(100)
    clock.forward(3)
    claim.complete(b"12345")
    first, second = events(timed)
    ms = 1_000_000_000
    assert (first.kind, first.queue, first.id, first.lane, first.attempt) == ("failed", "q", "x", "g/l", 1)
    assert (first.queued - ms, first.started - ms, first.ended - ms) == (0, 5_000, 7_000)
    assert (first.size_in, first.size_out, first.note) == (9, 0, "ValueError")
    assert (second.kind, second.attempt, second.note) == ("done", 2, "")
    assert (second.queued - ms, second.started - ms, second.ended - ms) == (0, 8_000, 11_000)
    assert (second.size_in, second.size_out) == (9, 6)
    assert first.generation == second.generation > 0


def test_every_way_to_end(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    for id in ("done", "failed", "stalled", "released", "abandoned", "cancelled", "times out"):
        q.enqueue(1, id=id, timeout=1 if id == "times out" else None)
    claims = {claim.id: claim for claim in q.lease(10, n=10)}
    claims["done"].complete()
    claims["failed"].fail("bad")
    claims["released"].release()
    claims["abandoned"].abandon()
    q.cancel("cancelled", running=True, why="stop")
    claims["cancelled"].release()
    q.enqueue(1, id="waiting")
    q.cancel("waiting", why="not needed")
    clock.forward(10)
    while q.lease(1000):
        pass
    kinds = {event.id: event.kind for event in events(timed)}
    assert kinds == {
        "done": "done", "failed": "failed", "released": "released", "abandoned": "stalled", "cancelled": "cancelled",
        "waiting": "cancelled", "stalled": "stalled", "times out": "timeout",
    }  # fmt: skip
    assert len(events(timed)) == 8
    notes = {event.id: event.note for event in events(timed)}
    assert (notes["cancelled"], notes["waiting"], notes["times out"]) == ("stop", "not needed", "TimeoutError")


def test_it_can_be_switched_off_and_on(app: Headrace) -> None:
    q = app.queue("q")

    def run() -> None:
        q.enqueue(1)
        q.lease(30)[0].complete()

    run()
    app.set_history("off")
    run()
    assert len(events(app)) == 1
    app.set_history("attempt")
    run()
    assert len(events(app)) == 2
    with pytest.raises(OptionError, match="level='full': expected 'off' or 'attempt'"):
        app.set_history("full")
    with pytest.raises(OptionError, match="max_events=5: expected 100 or more"):
        app.set_history(max_events=5)


def test_it_is_bounded_and_says_what_was_lost(app: Headrace) -> None:
    q = app.queue("q")
    app.set_history(max_events=100)
    for _ in range(20):
        q.enqueue_many(range(20), route="r")
        assert all(q.complete_many(q.lease(30, n=20)))
    kept = events(app)
    gaps = [event for event in kept if event.kind == "gap"]
    done = [event for event in kept if event.kind == "done"]
    assert 80 <= len(done) <= 120
    assert gaps
    assert all(event.queue == event.id == "" for event in gaps)
    assert int(gaps[-1].note) + len(done) == 400, "every event is kept or counted"


def test_batches_are_one_entry_and_all_events(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(250), route="r")
    assert all(q.complete_many(q.lease(30, n=250)))
    assert sorted(event.id for event in events(app)) == sorted({event.id for event in events(app)})
    assert len(events(app)) == 250


def test_events_come_in_order(timed: Headrace, clock: Clock) -> None:
    q = timed.queue("q")
    for n in range(20):
        q.enqueue(n)
        q.lease(30)[0].complete()
        clock.forward(1)
    ended = [event.ended for event in events(timed)]
    assert ended == sorted(ended)
    assert len(ended) == 20


def run(app: Headrace, *ids: str, queue: str = "q", **options: Any) -> None:
    """Jobs that are done one by one: an entry of the history each."""
    q = app.queue(queue)
    for id in ids:
        q.enqueue(id, id=id, **options)
        assert q.lease(30)[0].complete()


def names(found: list[Event]) -> list[str]:
    return [event.id for event in found]


def test_the_newest_are_answered_and_the_oldest_where_asked_for(timed: Headrace, clock: Clock) -> None:
    """Always the oldest first, whichever end of the history they are of."""
    for n in range(10):
        clock.forward(1)
        run(timed, str(n))
    assert names(timed.history(3)) == ["7", "8", "9"]
    assert names(timed.history(3, newest=False)) == ["0", "1", "2"]
    assert names(timed.history()) == names(timed.history(newest=False)) == list("0123456789")


def test_the_newest_events_of_a_batch_are_its_last(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(100), route="r", ids=[str(n) for n in range(100)])
    assert all(q.complete_many(q.lease(30, n=100)))
    assert names(app.history(3)) == ["97", "98", "99"]
    assert names(app.history(3, newest=False)) == ["0", "1", "2"]


def test_a_queue_or_an_id_can_be_chosen(app: Headrace) -> None:
    run(app, "a", "b", "deep/a")
    run(app, "a", "c", queue="r")
    app.queue("q").enqueue(1, id="a")
    app.queue("q").lease(30)[0].fail()
    assert sorted(names(app.history(queue="r"))) == ["a", "c"]
    assert sorted((event.queue, event.kind) for event in app.history(id="a")) == [
        ("q", "done"), ("q", "failed"), ("r", "done"),
    ]  # fmt: skip
    assert [event.kind for event in app.history(queue="q", id="a")] == ["done", "failed"]
    assert [event.kind for event in app.history(1, queue="q", id="a")] == ["failed"]
    assert [event.kind for event in app.history(1, queue="q", id="a", newest=False)] == ["done"]
    assert names(app.history(id="deep/a")) == ["deep/a"]
    assert app.history(queue="none") == app.history(id="none") == []


def test_more_than_a_call_reads(app: Headrace) -> None:
    """Both ends, a choice, and everything, where many calls are needed for each."""
    q, ids = app.queue("q"), [f"{n:0200}" for n in range(3000)]
    for first in range(0, 3000, 100):
        q.enqueue_many(range(100), ids=ids[first : first + 100])
        assert all(q.complete_many(q.lease(30, n=100)))
    assert len(app.history()) == 1000
    assert sorted(names(app.history(3000))) == sorted(names(app.history(5000, newest=False))) == ids
    assert names(app.history(id=ids[7])) == [ids[7]]
    assert len(app.history(2500, queue="q")) == 2500
    assert sorted(event.id for page in app.events() for event in page.events) == ids


def test_a_call_answers_a_bounded_part(app: Headrace) -> None:
    """By bytes where the entries are long, by entries where they are short."""
    q = app.queue("q")
    for n in range(30):
        q.enqueue_many(range(100), ids=[f"{n}-{i:0240}" for i in range(100)], route="r")
        assert all(q.complete_many(q.lease(30, n=100)))
    (shard,) = {shard for shard in range(app.shards) if app.engine.run(read(shard, "up"))[2:]}
    for direction in ("up", "down"):
        long = app.engine.run(read(shard, direction))
        assert long[1] == 1, "there is more"
        assert 1 << 18 <= sum(map(len, long[2:])) < 1 << 19
    assert app.engine.run(read(shard, "up", "nothing has this"))[2:] == []


def read(shard: int, direction: str, text: str = "") -> Steps[list[Any]]:
    return (yield Call("history", shard, ("", 10**6, direction, text), readonly=True))


def test_reading_goes_on_where_it_stopped(app: Headrace, place: Place, namespace: str) -> None:
    """Each event once, in pages, over several processes, with none of them new the second time."""
    assert list(app.events()) == []
    run(app, "a", "b", "c")
    first = list(app.events())
    assert sorted(event.id for page in first for event in page.events) == ["a", "b", "c"]
    assert list(app.events(first[-1].cursor)) == []
    run(app, "d", "e")
    with place.open(namespace) as other:
        second = list(other.events(after=first[-1].cursor))
    assert sorted(event.id for page in second for event in page.events) == ["d", "e"]
    assert list(app.events(second[-1].cursor)) == []


def test_a_cursor_in_the_middle(app: Headrace) -> None:
    """Whoever stops after any page misses nothing and reads nothing twice."""
    q, ids = app.queue("q"), [f"{n:0240}" for n in range(4000)]
    for first in range(0, 4000, 100):
        q.enqueue_many(range(100), ids=ids[first : first + 100])
        assert all(q.complete_many(q.lease(30, n=100)))
    pages = list(app.events())
    assert len(pages) > 3
    for n, page in enumerate(pages):
        rest = [event for later in pages[n + 1 :] for event in later.events]
        assert [event for later in app.events(page.cursor) for event in later.events] == rest


def test_events_that_come_while_it_is_read_are_read(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue_many(range(600), route="r")
    seen: list[str] = []
    cursor = None
    while claims := q.lease(30, n=100):
        assert all(q.complete_many(claims))
        for page in app.events(cursor):
            seen += names(page.events)
            cursor = page.cursor
    assert len(seen) == len(set(seen)) == 600


def test_a_shard_that_was_lost_is_read_from_its_beginning() -> None:
    """Its entries may carry earlier times than those of the shard before it."""
    with Server() as server, Headrace(server.url) as app, server.admin() as client:
        run(app, "old")
        (page,) = app.events()
        cast(Any, client).flushall()
        run(app, "new")
        epoch, _, entry = page.cursor.partition(":")
        ahead = f"{epoch}:{int(entry.split('-')[0]) + 10**6}-0"
        for cursor in (page.cursor, ahead):
            assert [names(page.events) for page in app.events(cursor)] == [["new"]]


def test_what_a_stranger_added_is_passed_over(app: Headrace, hands: Hands) -> None:
    run(app, "a")
    for shard in range(app.shards):
        hands("XADD", "hist", "*", "some", "thing", shard=shard)
    run(app, "b")
    assert sorted(names(app.history())) == ["a", "b"]


@pytest.mark.parametrize("cursor", ["", "x", "- -", "a:1-1 b:2-2", "a:b", 7, b"-"])
def test_a_cursor_that_is_none(cursor: Any) -> None:
    wrong = pytest.raises(OptionError, match=r"after=.*: expected the cursor of a page of events\(\), or None")
    with Server() as server, Headrace(server.url) as app, wrong:
        list(app.events(cursor))


def test_choices_that_cannot_be(app: Headrace) -> None:
    for wrong in (0, True, 10**7, 1.5):
        with pytest.raises(OptionError, match="expected a whole number from 1 to 1,000,000; events"):
            app.history(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="queue 'a/b' contains a slash"):
        app.history(queue="a/b")
