"""Routes and shards: the same route leads to the same shard, the number of shards is kept and checked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace import Headrace, OptionError, RouteRequired, ShardMismatch
from headrace.protocol.routing import Ring
from tests.queues.places import Hands, Place, fresh


def test_jobs_spread_over_all_shards_and_are_found_again(app: Headrace, hands: Hands) -> None:
    q = app.queue("q")
    jobs = q.enqueue_many(range(200), ids=[f"job-{n}" for n in range(200)])
    sizes = [hands("HLEN", "j:q", shard=shard) for shard in range(app.shards)]
    assert sum(sizes) == 200
    assert all(size > 0 for size in sizes)
    assert all(q.job(job.id).info().data == n for n, job in list(enumerate(jobs))[::20])
    assert len(q.lease(30, n=200)) == 200


def test_an_id_with_a_route_is_found_with_the_same_route(app: Headrace) -> None:
    q = app.queue("q")
    for n in range(10):
        q.enqueue(n, id="x", route=f"tenant-{n}")
        assert q.job("x", route=f"tenant-{n}").info().data == n
    assert q.enqueue("new", id="x", route="tenant-3").outcome == "updated"
    assert q.job("x", route="tenant-3").info().data == "new"
    assert q.cancel("x", route="tenant-3") is True


def test_numbers_are_routes_too(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue("data", id="x", route=42)
    assert q.job("x", route="42").status() == "ready"
    for route in (1.5, True, b"r", ("a",)):
        with pytest.raises(OptionError, match="route must be a string or an integer"):
            q.enqueue(1, route=route)  # pyright: ignore[reportArgumentType]


def test_a_lane_lives_in_one_shard_whole(app: Headrace) -> None:
    q = app.queue("q")
    app.lane("tenant-7", queue="q", cap=1)
    app.lane("tenant-7/nightly", queue="q", cap=1)
    q.enqueue_many(range(10), lane="tenant-7")
    q.enqueue_many(range(10), lane="tenant-7/nightly")
    assert len(q.lease(30, n=20)) == 1
    assert q.lane("tenant-7").counts().running == 1


def test_route_required_only_where_it_matters(app: Headrace) -> None:
    q = app.queue("q")
    if app.shards == 1:
        assert q.enqueue(1, id="x", lane="l").outcome == "added"
        return
    with pytest.raises(RouteRequired, match=r"job 'x' in lane 'l': with 6 shards an id .* needs `route=`"):
        q.enqueue(1, id="x", lane="l")
    with pytest.raises(RouteRequired):
        q.enqueue_many([1], ids=["x"], lane="l")
    assert q.enqueue(1, lane="l").outcome == "added"
    assert q.enqueue(1, id="x", lane="l", route="l").outcome == "added"


def test_every_route_falls_on_a_shard_and_always_the_same() -> None:
    ring = Ring("ns", 6)
    where = {route: ring.of_route(route) for route in map(str, range(1000))}
    assert set(where.values()) == set(range(6))
    assert {route: Ring("other", 6).of_route(route) for route in where} == where
    assert ring.of_route("tenant-7") == 4, "a stored job must be found by every later version"


def test_the_number_of_shards_is_kept_and_checked(place: Place, namespace: str, hands: Hands) -> None:
    with Headrace(place.url, namespace=namespace, shards=4) as first:
        assert first.shards == 4
        with Headrace(place.url, namespace=namespace) as other:
            assert other.shards == 4
            assert other.epochs == first.epochs
            assert len(set(other.epochs)) == 4
        with pytest.raises(ShardMismatch, match=r"the server holds 4 shard\(s\), you asked for 5"):
            Headrace(place.url, namespace=namespace, shards=5)
        job = first.queue("q").enqueue(1, id="x")
    with Headrace(place.url, namespace=namespace) as later:
        assert later.queue("q").job("x").info().data == 1
        assert later.queue("q").job("x")._ref == replace(job._ref, generation=0)  # pyright: ignore[reportPrivateUsage]
        assert later.audit() == []


def test_one_shard_is_the_default(place: Place) -> None:
    namespace = fresh()
    with Headrace(place.url, namespace=namespace) as app:
        assert app.shards == 1
    hands = place.hands(namespace)
    hands.clean()
    hands.close()


@pytest.mark.parametrize("shards", [0, -1, 4097, True, 1.5, "6"])
def test_a_number_of_shards_that_cannot_be(place: Place, namespace: str, shards: object, hands: Hands) -> None:
    with pytest.raises(OptionError, match="expected a whole number from 1 to 4096"):
        Headrace(place.url, namespace=namespace, shards=shards)  # pyright: ignore[reportArgumentType]
    assert hands.names() == {}


def test_namespaces_do_not_see_each_other(app: Headrace, place: Place) -> None:
    namespace = fresh()
    with place.open(namespace) as other:
        other.queue("q").enqueue(1, id="x")
        assert app.queue("q").lease(30) == []
        assert app.queue("q").job("x").status() is None
        assert app.queue_names() == []
    hands = place.hands(namespace)
    hands.clean()
    hands.close()


def test_waiting_jobs_of_all_shards_are_leased(app: Headrace) -> None:
    q = app.queue("q")
    for n in range(30):
        q.enqueue(n, route=str(n))
    seen: set[int] = set()
    while claims := q.lease(30, n=4):
        seen |= {claim.data for claim in claims}
    assert seen == set(range(30))
