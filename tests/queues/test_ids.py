"""Ids: given, by content, generated; what an enqueue did about an id that is taken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import CONTENT, Headrace, JobExists, NameInvalid
from headrace.protocol import names
from headrace.protocol.names import shard_in
from tests.queues.places import Place
from tests.tools.crash import Child, said_with_seeds


def test_a_given_id_is_the_job_s(app: Headrace) -> None:
    q = app.queue("q")
    for id in ("welcome:42", "a/b/c", "ü", "x" * 256, "-", "*", " blank "):
        job = q.enqueue({"for": id}, id=id)
        assert (job.id, job.queue, job.outcome) == (id, "q", "added")
        assert q.job(id).info().data == {"for": id}
    claims = q.lease(30, n=10)
    assert {claim.id: claim.data["for"] for claim in claims}.items() == {(c.id, c.id) for c in claims}
    assert len(claims) == 7


def test_an_id_by_content_is_the_same_for_equal_data_only(app: Headrace) -> None:
    q = app.queue("q")
    first = q.enqueue({"a": 1, "b": [2]}, id=CONTENT)
    assert q.enqueue({"a": 1, "b": [2]}, id=CONTENT).outcome == "updated"
    assert q.enqueue({"a": 1, "b": [3]}, id=CONTENT).id != first.id
    assert q.enqueue(b"raw", id=CONTENT).id != q.enqueue("raw", id=CONTENT).id
    assert q.counts().ready == 4


def test_generated_ids_are_short_ordered_and_know_their_shard(app: Headrace) -> None:
    q = app.queue("q")
    jobs = [q.enqueue(i) for i in range(200)]
    ids = [job.id for job in jobs]
    assert {len(id) for id in ids} == {16}
    assert len(set(ids)) == 200
    assert [id[:7] for id in ids] == sorted(id[:7] for id in ids)
    for job in jobs[:20]:
        shard = shard_in(job.id)
        assert shard is not None
        assert shard < app.shards
        assert app.queue("q").job(job.id).status() == "ready"
    if app.shards > 1:
        assert len({shard_in(id) for id in ids}) > 1


@dataclass
class Order:
    number: int
    lines: dict[Any, Any]


SAME: dict[str, tuple[Any, Any]] = {
    "keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "keys below": ([{"a": {"x": 1, "y": 2}}], [{"a": {"y": 2, "x": 1}}]),
    "keys of several types": ({1: "i", "a": 2, b"b": 3}, {b"b": 3, "a": 2, 1: "i"}),
    "sets": ({"tags": {"x", "y", "z"}}, {"tags": {"z", "y", "x"}}),
    "sets of several types": ([{1, "a", None}], [{None, "a", 1}]),
    "sets of sets": ({frozenset({1, 2}), frozenset({3})}, {frozenset({3}), frozenset({2, 1})}),
    "dataclasses": (Order(1, {"x": 1, "y": 2}), Order(1, {"y": 2, "x": 1})),
    "a dataclass and its fields": (Order(1, {}), {"lines": {}, "number": 1}),
    "sets of big integers": ([{2**70, 2**71, 1}], [{1, 2**71, 2**70}]),
    "big integers": ({"n": 2**80, "m": 1}, {"m": 1, "n": 2**80}),
}


@pytest.mark.parametrize("case", SAME)
def test_equal_data_has_one_id_however_it_was_built(app: Headrace, case: str) -> None:
    q = app.queue("q")
    one, other = SAME[case]
    first = q.enqueue(one, id=CONTENT)
    assert q.enqueue(other, id=CONTENT) == first
    assert q.enqueue([one, "more"], id=CONTENT).id != first.id
    assert list(q.job(first.id).info().data or []) == list(app.queue("q").enqueue(other).info().data or [])


HASHED = """
import dataclasses
from headrace import CONTENT, Headrace
@dataclasses.dataclass
class Tagged:
    tags: frozenset
    by: dict
words = ["alpha", "beta", "gamma", "delta", 5, None]
with Headrace({url!r}, namespace={namespace!r}) as app:
    q = app.queue("q")
    by = {{word: {{"x", "y", "z"}} for word in set(words)}}
    tell(*(q.enqueue(data, id=CONTENT).id for data in (set(words), by, [Tagged(frozenset(words), by)])))
"""


def test_an_id_by_content_is_the_same_in_every_process(app: Headrace, place: Place, namespace: str) -> None:
    assert len(said_with_seeds(HASHED.format(url=place.url, namespace=namespace))) == 1
    assert app.queue("q").counts().ready == 3


DRAW = """
from headrace import Headrace
with Headrace({url!r}, namespace={namespace!r}) as app:
    tell(*(job.id for job in app.queue("q").enqueue_many(range(500))))
"""


def test_generated_ids_are_unique_over_processes(app: Headrace, place: Place, namespace: str) -> None:
    code = DRAW.format(url=place.url, namespace=namespace)
    with Child(code) as one, Child(code) as two:
        drawn = [job.id for job in app.queue("q").enqueue_many(range(500))]
        for child in (one, two):
            drawn += child.says().split()
            assert child.ends() == 0
    assert len(set(drawn)) == 1500
    assert app.queue("q").counts().ready == 1500


def test_if_exists(app: Headrace) -> None:
    q = app.queue("q")
    first = q.enqueue("old", id="x")
    assert q.enqueue("new", id="x", if_exists="ignore").outcome == "ignored"
    assert q.job("x").info().data == "old"
    with pytest.raises(JobExists, match="job q/x is there already") as caught:
        q.enqueue("new", id="x", if_exists="error")
    assert (caught.value.queue, caught.value.id) == ("q", "x")
    assert q.enqueue("new", id="x", if_exists="update").outcome == "updated"
    assert q.job("x").info().data == "new"
    (claim,) = q.lease(30)
    assert q.enqueue("other", id="x", if_exists="ignore").outcome == "ignored"
    with pytest.raises(JobExists):
        q.enqueue("other", id="x", if_exists="error")
    claim.complete("done")
    assert q.enqueue("again", id="x", if_exists="error").outcome == "added"
    assert first.result(timeout=5) == "done"


def test_an_ignored_enqueue_answers_a_handle_of_the_job_that_is_there(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue("old", id="x")
    again = q.enqueue("new", id="x", if_exists="ignore")
    (claim,) = q.lease(30)
    claim.complete("old's")
    assert again.result(timeout=5) == "old's"


def test_unique_for_keeps_a_finished_id_taken(app: Headrace) -> None:
    q = app.queue("q", unique_for=60)
    q.enqueue(1, id="x", keep_result=0)
    assert q.lease(30)[0].complete("first")
    again = q.enqueue(2, id="x")
    assert again.outcome == "ignored"
    assert again.result(timeout=1) == "first"
    with pytest.raises(JobExists):
        q.enqueue(2, id="x", if_exists="error")
    assert q.counts().ready == 0
    assert q.enqueue(2, id="y", unique_for=None).outcome == "added"
    assert q.lease(30)[0].complete()
    assert q.enqueue(2, id="y", unique_for=0).outcome == "ignored"


def test_unique_for_ends_by_the_server_s_clock(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue(1, id="x", unique_for=0.05)
    assert q.lease(30)[0].complete()
    outcomes: list[str] = []
    while "added" not in outcomes:
        outcomes.append(q.enqueue(2, id="x").outcome)
    assert outcomes[0] == "ignored"
    assert set(outcomes[:-1]) <= {"ignored"}


def test_many_callers_of_one_id_make_one_job(app: Headrace, place: Place, namespace: str) -> None:
    with place.open(namespace) as other, ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(other.queue("q").enqueue, n, id="x") for n in range(40)]
        outcomes = [job.result().outcome for job in jobs]
    assert sorted(outcomes) == ["added"] + ["updated"] * 39
    assert app.queue("q").counts().ready == 1


def test_ids_that_cannot_be(app: Headrace) -> None:
    q = app.queue("q")
    for id in ("", "a\nb", "\x7f", "x" * 257, "é" * 129, "\ud800"):
        with pytest.raises(NameInvalid):
            q.enqueue(1, id=id)
        with pytest.raises(NameInvalid):
            q.job(id)
    assert q.counts().ready == 0


def test_an_outcome_is_not_taken_for_that_of_an_id_below(app: Headrace) -> None:
    """An id may contain slashes and end in a number: results of old generations must not lie in its place."""
    q = app.queue("q")
    first = q.enqueue("one", id="x", route="r")
    assert q.lease(30)[0].complete("one's")
    again = q.enqueue("two", id="x", route="r")
    number = again._ref.generation  # pyright: ignore[reportPrivateUsage]
    old = first._ref.generation  # pyright: ignore[reportPrivateUsage]
    below = [q.enqueue("below", id=f"x/{n}", route="r") for n in (old, number)]
    for claim in q.lease(30, n=10):
        assert claim.complete(f"{claim.id}'s")
    assert first.result(timeout=5) == "one's"
    assert again.result(timeout=5) == "x's"
    assert [job.result(timeout=5) for job in below] == [f"x/{old}'s", f"x/{number}'s"]


def test_generated_ids_stay_different_where_their_counter_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_sequence", SimpleNamespace(next=(1 << 42) - 3))
    ids = [id for _ in range(4) for id in names.new_ids(7, 2)]
    assert len(set(ids)) == 8
    assert {(len(id), names.shard_in(id)) for id in ids} == {(16, 7)}
