"""The history: one event an attempt, bounded, switchable."""

from __future__ import annotations

import pytest

from headrace import Event, Headrace, OptionError
from tests.queues.places import Clock


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
