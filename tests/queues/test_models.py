"""Models of pydantic as data: in, out and validated, by the real library."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, RootModel, computed_field, field_validator

from headrace import CONTENT, Headrace, PayloadError
from tests.queues.places import Place
from tests.tools.crash import said_with_seeds


class Address(BaseModel):
    city: str


class Order(BaseModel):
    number: int
    total: Decimal = Decimal("1.50")
    at: datetime = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
    key: UUID = UUID("12345678-1234-5678-1234-567812345678")
    tags: set[str] = set()
    to: Address = Address(city="Ghent")
    big: int = 2**70


class Strict(Order):
    model_config = ConfigDict(strict=True)


class Aliased(BaseModel):
    user_name: str = Field(alias="userName")


class Raw(BaseModel):
    body: bytes


class Encoded(Raw):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class Names(RootModel[list[str]]):
    pass


class Computed(BaseModel):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


@dataclass
class Parcel:
    order: Order
    names: list[Address]


VALUES: dict[str, tuple[Any, Any]] = {
    "a model": (Order(number=1, tags={"a", "b"}), Order),
    "a strict model": (Strict(number=1), Strict),
    "a field with an alias": (Aliased(userName="ada"), Aliased),
    "bytes that are text": (Raw(body=b"text"), Raw),
    "bytes of any kind": (Encoded(body=b"\xff\x00"), Encoded),
    "a model around a list": (Names(["a", "b"]), Names),
    "a computed field": (Computed(side=3), Computed),
    "a list of models": ([Address(city="Ghent")], list[Address]),
    "models by name": ({"home": Address(city="Ghent")}, dict[str, Address]),
    "a model or nothing": (None, Address | None),
    "models inside a dataclass": (Parcel(Order(number=2), [Address(city="Ghent")]), Parcel),
}


@pytest.mark.parametrize("case", VALUES)
def test_there_and_back(app: Headrace, case: str) -> None:
    value, kind = VALUES[case]
    q = app.queue("q", data_type=kind)
    q.enqueue(value)
    (claim,) = q.lease(30)
    assert claim.data == value
    assert type(claim.data) is type(value)


def test_plain_values_are_validated_too(app: Headrace) -> None:
    q = app.queue("q", data_type=Raw)
    q.enqueue({"body": b"\xff"})
    assert q.lease(30)[0].data == Raw(body=b"\xff")


def test_what_does_not_fit_names_the_job_and_the_field(app: Headrace) -> None:
    q = app.queue("q", data_type=Order)
    q.enqueue({"number": "many"}, id="x")
    (claim,) = q.lease(30)
    with pytest.raises(PayloadError, match=r"(?s)^data of job q/x: .*Order.*number\n.*valid integer"):
        _ = claim.data
    assert claim.fail("unreadable") == "failed"


class Picky(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def look(cls, name: str) -> str:
        raise KeyError(name)


def test_a_validator_that_breaks_is_told(app: Headrace) -> None:
    q = app.queue("q", data_type=Picky)
    q.enqueue({"name": "n"}, id="x")
    with pytest.raises(PayloadError, match=r"data of job q/x: .*Picky.*KeyError: 'n'"):
        _ = q.lease(30)[0].data


def test_bytes_that_json_has_no_form_for_are_refused(app: Headrace) -> None:
    q = app.queue("q")
    with pytest.raises(PayloadError, match=r"Raw\.model_dump\(\) raised .*utf-8.*; bytes need ser_json_bytes='base64'"):
        q.enqueue(Raw(body=b"\xff"))
    assert q.counts().ready == 0


class Tag(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str


class Tagged(BaseModel):
    tags: set[Tag]
    words: list[frozenset[str]]
    by: dict[int, set[str]]
    link: HttpUrl
    names: RootModel[set[str]]


HASHED = """
from tests.queues.test_models import tagged
from headrace import CONTENT, Headrace
with Headrace({url!r}, namespace={namespace!r}) as app:
    q = app.queue("q")
    tell(*(q.enqueue(data, id=CONTENT).id for data in (tagged(), [tagged()], {{"in": tagged()}})))
"""


def tagged() -> Tagged:
    """A model with a set in every place where one can be."""
    names = {f"tag {n}" for n in range(9)}
    return Tagged(
        tags={Tag(name=name) for name in names},  # pyright: ignore[reportUnhashable] - it is frozen
        words=[frozenset(names)],
        by={2: names, 1: names},
        link=HttpUrl("https://example.com/"),
        names=RootModel[set[str]](names),
    )


def test_equal_models_have_one_id_in_every_process(app: Headrace, place: Place, namespace: str) -> None:
    assert len(said_with_seeds(HASHED.format(url=place.url, namespace=namespace))) == 1
    q = app.queue("q")
    assert q.counts().ready == 3
    assert q.enqueue(Order(number=1), id=CONTENT) != q.enqueue(Order(number=2), id=CONTENT)
