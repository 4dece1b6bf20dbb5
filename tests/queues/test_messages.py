"""What a newcomer gets wrong first: each mistake is refused at once, in words that help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, HeadraceError, InvalidInput, NameInvalid, OptionError, PayloadError, ServerUnavailable
from headrace.server.connect import open_site

Case = tuple[Callable[[Any], Any], type[HeadraceError], str]

QUEUE: dict[str, Case] = {
    "a type inside": (lambda q: q.enqueue({"f": len}), PayloadError, "a value of type 'builtin_function_or_method'"),
    "a timeout of nothing": (lambda q: q.enqueue(1, timeout=0), OptionError, "timeout=0: .*None stands for no limit"),
    "a list as a flag": (lambda q: q.enqueue(1, update_run_at=[]), OptionError, "expected True, False, 'if_later'"),
    "a list as a choice": (lambda q: q.enqueue(1, if_exists=[]), OptionError, "expected 'update', 'ignore' or"),
    "a lower bound alone": (
        lambda q: q.enqueue(1, min_backoff=400),
        OptionError,
        "must not be greater than max_backoff: 400 s, 300 s",
    ),
    "no such option": (lambda q: q.enqueue(1, zzz=1), OptionError, "unique_for, and flags update_...$"),
    "far too long": (lambda q: q.enqueue(1, delay=1e300), OptionError, "between 0 seconds and 8,000 years"),
    "one mapping as many": (lambda q: q.enqueue_many({"to": "ada"}), InvalidInput, "data is a dict.*enqueue\\(\\)"),
    "one text as many": (lambda q: q.enqueue_many("abc"), InvalidInput, "data is a str, expected a list"),
    "nothing as many": (lambda q: q.enqueue_many(None), InvalidInput, "data is a NoneType"),
    "one text as ids": (lambda q: q.enqueue_many([1, 2], ids="ab"), InvalidInput, "ids is a str"),
    "more ids than jobs": (
        lambda q: q.enqueue_many([1], ids=["a", "b"]),
        InvalidInput,
        "more ids than jobs: 2 and 1; nothing was sent",
    ),
    "an id for replay": (lambda q: q.retry_failed("abc"), InvalidInput, "ids='abc': expected a list"),
    "a limit below none": (lambda q: q.drop_failed(limit=-1), OptionError, "limit=-1: expected a whole number"),
}
APP: dict[str, Case] = {
    "history of less than none": (lambda app: app.history(-1), OptionError, "n=-1: expected a whole number from 1"),
    "a bound that is no number": (lambda app: app.set_history(max_events="9"), OptionError, "max_events='9'"),
}
CONNECT: dict[str, tuple[dict[str, Any], type[HeadraceError], str]] = {
    "a number for a URL": ({"url": 6379}, OptionError, "url=6379: expected a text such as"),
    "a port that is none": ({"url": "redis://h:99999"}, InvalidInput, "ports go from 1 to 65535"),
    "braces": ({"namespace": "{hr}"}, NameInvalid, "must not contain braces"),
    "no namespace": ({"namespace": ""}, NameInvalid, "namespace must have 1 to 256 bytes"),
    "a number for a namespace": ({"namespace": 7}, NameInvalid, "namespace must be a string, not int"),
}


@pytest.mark.parametrize("case", QUEUE)
def test_mistakes_with_a_queue(app: Headrace, case: str) -> None:
    mistake, error, words = QUEUE[case]
    q = app.queue("q")
    with pytest.raises(error, match=words):
        mistake(q)
    assert q.counts().ready == 0, "nothing was sent"


@pytest.mark.parametrize("case", APP)
def test_mistakes_with_an_app(app: Headrace, case: str) -> None:
    mistake, error, words = APP[case]
    with pytest.raises(error, match=words):
        mistake(app)


@pytest.mark.parametrize("case", CONNECT)
def test_mistakes_before_there_is_a_connection(case: str) -> None:
    given, error, words = CONNECT[case]
    with pytest.raises(error, match=words):
        Headrace(**given)


@pytest.mark.parametrize("size", [0, -1, "1 MiB", True, 1 << 40])
def test_a_limit_of_payloads_that_is_none(app: Headrace, size: Any) -> None:
    with pytest.raises(OptionError, match=r"max_payload=.*expected bytes, from 1 to"):
        Headrace(app.url, max_payload=size)


def test_sentinels_that_are_not_there_are_named_as_such() -> None:
    with pytest.raises(ServerUnavailable, match=r"none of the Sentinels or nodes .* within 0.1 s.*service's name"):
        open_site("redis+sentinel://127.0.0.1:1/mymaster", retry_for=0.1)


def test_ids_without_an_end_are_allowed(app: Headrace) -> None:
    def names() -> Any:
        n = 0
        while True:
            n += 1
            yield f"id-{n}"

    assert [job.id for job in app.queue("q").enqueue_many(range(3), ids=names())] == ["id-1", "id-2", "id-3"]
