"""What goes in comes out: every kind of value, unchanged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from headrace import Headrace, PayloadError


def there_and_back(app: Headrace, value: Any, kind: Any = None) -> Any:
    q = app.queue("data", data_type=kind)
    job = q.enqueue(value)
    (claim,) = q.lease(30)
    assert claim.id == job.id
    data = claim.data
    assert claim.complete(value)
    result = job.result(timeout=5)
    assert type(result) is type(app.queue("data").job(job.id).result())
    return data


PLAIN: list[Any] = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, -0.0, 5e-324, 1.7976931348623157e308, "",
    "ü€😀\x00\n", [], {}, [1, [2, [3, None]]], {"a": {"b": [True, {"c": ""}]}}, {"": 1}, {1: "int key"}, ["x"] * 1000,
]  # fmt: skip


def test_plain_values(app: Headrace) -> None:
    got = there_and_back(app, PLAIN)
    assert got == PLAIN
    assert [type(item) for item in got] == [type(item) for item in PLAIN]
    assert math.copysign(1, got[PLAIN.index(-0.0, 9)]) == -1


def test_one_value_alone_is_data_too(app: Headrace) -> None:
    for value in PLAIN[:14]:
        assert there_and_back(app, value) == value


def test_nan_and_infinities(app: Headrace) -> None:
    nan, inf, minus = there_and_back(app, [math.nan, math.inf, -math.inf])
    assert math.isnan(nan)
    assert (inf, minus) == (math.inf, -math.inf)


def test_integers_of_any_size_beside_anything_else(app: Headrace) -> None:
    big = {"n": 2**64, "m": [-(2**200)], 7: b"\xff", "nan": math.nan, "at": datetime(2026, 1, 2, tzinfo=UTC)}
    got = there_and_back(app, big)
    assert math.isnan(got.pop("nan"))
    assert got == {"n": 2**64, "m": [-(2**200)], 7: b"\xff", "at": datetime(2026, 1, 2, tzinfo=UTC)}


def test_raw_bytes_are_unchanged(app: Headrace) -> None:
    every = bytes(range(256))
    assert there_and_back(app, every) == every
    assert there_and_back(app, bytearray(every)) == every
    assert there_and_back(app, memoryview(every)[::2]) == every[::2]
    assert there_and_back(app, b"") == b""
    assert there_and_back(app, {"inside": every}) == {"inside": every}


@dataclass
class Mail:
    to: str
    tries: int = 0
    at: datetime | None = None


class Point(msgspec.Struct):
    x: int
    y: Decimal
    tags: frozenset[str] = frozenset()


class ModelLike:
    """What pydantic models look like from outside."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return self.fields


def test_typed_values_in_and_out(app: Headrace) -> None:
    mail = Mail("a@b.c", 3, datetime(2026, 5, 1, 12, 30, 15, 123456, tzinfo=UTC))
    assert there_and_back(app, mail, Mail) == mail
    point = Point(1, Decimal("0.10"), frozenset({"p", "q"}))
    assert there_and_back(app, point, Point) == point
    assert there_and_back(app, {"x": 2**80, "y": "2.5"}, Point) == Point(2**80, Decimal("2.5"))
    assert there_and_back(app, b"\x00\xff", bytes) == b"\x00\xff"


def test_values_that_json_lacks(app: Headrace) -> None:
    uuid = UUID("12345678-1234-5678-1234-567812345678")
    given = [Decimal("1.10"), uuid, {3}, (1, 2), date(2026, 5, 1), timedelta(seconds=1.5), ModelLike(a=1)]
    kind = tuple[Decimal, UUID, set[int], tuple[int, int], date, timedelta, dict[str, int]]
    assert there_and_back(app, given, kind) == (
        Decimal("1.10"), uuid, {3}, (1, 2), date(2026, 5, 1), timedelta(seconds=1.5), {"a": 1},
    )  # fmt: skip


def test_data_of_another_type_says_so_and_the_claim_goes_on(app: Headrace) -> None:
    q = app.queue("mails", data_type=Mail)
    q.enqueue({"to": 5})
    (claim,) = q.lease(30)
    with pytest.raises(
        PayloadError, match=r"^data of job mails/.* cannot be read as .*Mail.*Expected `str`, got `int`"
    ):
        _ = claim.data
    assert claim.fail("unreadable") == "failed"


def test_data_that_contains_itself_is_refused_at_once(app: Headrace) -> None:
    value: list[Any] = []
    value += [value, value]
    with pytest.raises(PayloadError, match="contains itself"):
        app.queue("data").enqueue(value)
    shared: Any = [1]
    for _ in range(10):
        shared = [shared, shared]
    assert there_and_back(app, shared) == shared
