"""What a type checker knows: `data_type` gives typed claims. Each line holds for pyright and at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, assert_type

from headrace import Claim, Headrace, Job, Queue
from tests.queues.places import Hands, Place


@dataclass
class Order:
    number: int


async def test_claims_of_a_typed_queue(place: Place, namespace: str, hands: Hands) -> None:
    with place.open(namespace) as app:
        q = app.queue("q", data_type=Order)
        assert_type(q, Queue[Order])
        q.enqueue_many([Order(1), Order(2)])
        (claim,) = q.lease(30)
        assert_type(claim, Claim[Order])
        assert_type(claim.data, Order)
        (other,) = await q.alease(30)
        assert_type(other.data, Order)
        assert {claim.data.number, other.data.number} == {1, 2}
        for next in (claim, other):
            assert_type(next.fail("unfit"), Literal["waiting", "failed", "cancelled"])


def test_queues_without_a_type(place: Place, namespace: str, hands: Hands) -> None:
    with place.open(namespace) as app:
        assert_type(app.queue("q"), Queue[Any])
        assert_type(app.queue("q", data_type=Order | None), Queue[Any])
        q: Queue = app.queue("q", data_type=list[Order])
        job = q.enqueue([])
        assert_type(job, Job)
        (claim,) = q.lease(30)
        plain: Claim = claim
        assert plain.data == []


def takes_any(app: Headrace, work: Callable[[Claim], bool]) -> list[bool]:
    """Whoever names no type gets and gives claims of any."""
    return [work(claim) for claim in app.queue("q", data_type=Order).lease(30)]
