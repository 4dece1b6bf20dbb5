"""What a newcomer gets wrong first: each mistake is refused at once, in words that help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from headrace import Headrace, HeadraceError, InvalidInput, NameInvalid, OptionError, PayloadError, ShardMismatch
from tests.queues.places import Place


class Unresolved(TypedDict):
    """A type with an annotation that leads nowhere."""

    field: Nowhere  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]  # noqa: F821


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
    "a word of others": (lambda q: q.enqueue(1, max_retries=3), OptionError, "max_failures says how many failures"),
    "attempts": (lambda q: q.enqueue(1, attempts=3), OptionError, "max_failures .* one less than attempts"),
    "a countdown": (lambda q: q.enqueue(1, countdown=3), OptionError, "no option 'countdown': delay is in seconds"),
    "an eta": (lambda q: q.enqueue(1, eta=3), OptionError, "no option 'eta': run_at is a datetime"),
    "a time to live": (lambda q: q.enqueue(1, ttl=3), OptionError, "waits until it is run or cancelled; keep_result"),
    "a pause of others": (lambda q: q.enqueue(1, retry_delay=3), OptionError, "from min_backoff to max_backoff"),
    "an id of others": (lambda q: q.enqueue(1, job_id="x"), OptionError, "did you mean 'id'"),
    "a queue as option": (lambda q: q.enqueue(1, queue="x"), OptionError, r"app.queue\(name\).enqueue"),
    "a cap of others": (lambda q: q.set(concurrency=3), OptionError, "no option 'concurrency': cap is the most"),
    "a word that would not help": (lambda q: q.set(countdown=3), OptionError, "'countdown'; there are: aging, cap"),
    "data of one": (lambda q: q.enqueue(len), PayloadError, "^enqueue into 'q': data cannot be encoded"),
    "data of many": (
        lambda q: q.enqueue_many([1, len]),
        PayloadError,
        r"^enqueue_many into 'q', job 1 counted from 0 \(nothing was sent\): data cannot be encoded",
    ),
    "an id of many": (lambda q: q.enqueue_many([1], ids=[5]), NameInvalid, "into 'q', job 0 .*: id must be a string"),
    "an id for replay": (lambda q: q.retry_failed("abc"), InvalidInput, "ids='abc': expected a list"),
    "a limit below none": (lambda q: q.drop_failed(limit=-1), OptionError, "limit=-1: expected a whole number"),
}
APP: dict[str, Case] = {
    "failure jobs of nobody": (lambda app: app.failure_jobs(""), NameInvalid, "queue must have 1 to 256 bytes"),
    "failure jobs of a lane": (lambda app: app.failure_jobs("a/b"), NameInvalid, "queue 'a/b' contains a slash"),
    "failure jobs of a number": (lambda app: app.failure_jobs(5), NameInvalid, "queue must be a string, not int"),
    "failure jobs of a long name": (lambda app: app.failure_jobs("x" * 260), NameInvalid, "has 260"),
    "failure jobs without room for their name": (
        lambda app: app.failure_jobs("x" * 252),
        NameInvalid,
        "can have no failure jobs: .*'-fail', which would be longer than 256 bytes",
    ),
    "failure jobs of a broken name": (lambda app: app.failure_jobs("\ud800"), NameInvalid, "not valid Unicode"),
    "a list as queue": (lambda app: app.queue(["l"]), NameInvalid, "queue must be a string, not list"),
    "failure jobs perhaps": (lambda app: app.failure_jobs("q", on="x"), OptionError, "on='x': expected True or False"),
    "a number as failure options": (
        lambda app: app.queue("q", failure_options=5),
        OptionError,
        "failure_options=5 of queue 'q': expected a mapp",
    ),
    "an option without a name": (lambda app: app.queue("q", failure_options={5: 5}), OptionError, "no option 5; there"),
    "a task of failure jobs": (
        lambda app: app.queue("q", failure_options={"task": "\n"}),
        NameInvalid,
        "task .* contains control",
    ),
    "rules of no task": (lambda app: app.task_rules(""), NameInvalid, "task must have 1 to 256 bytes"),
    "rules of a number": (lambda app: app.task_rules(5), NameInvalid, "task must be a string, not int"),
    "rules of None": (lambda app: app.task_rules(None), NameInvalid, "task must be a string, not NoneType"),
    "rules of a broken task": (lambda app: app.task_rules("\ud800"), NameInvalid, "not valid Unicode"),
    "settings to forget": (
        lambda app: app.lane("l", queue="q", cap=1, forget=True),
        OptionError,
        "forget=True takes all settings back",
    ),
    "a type's name": (lambda app: app.queue("q", data_type="Order"), OptionError, "queue 'q': data_type='Order' can"),
    "a number as type": (lambda app: app.queue("q", data_type=5), OptionError, "data_type=5 cannot be used"),
    "a type of nothing known": (lambda app: app.queue("q", data_type=Unresolved), OptionError, "'Nowhere' is not def"),
    "a class of no kind": (lambda app: app.queue("q", data_type=Headrace), OptionError, "Headrace is no dataclass"),
    "history of less than none": (lambda app: app.history(-1), OptionError, "n=-1: expected a whole number from 1"),
    "a bound that is no number": (lambda app: app.set_history(max_events="9"), OptionError, "max_events='9'"),
}
CONNECT: dict[str, tuple[dict[str, Any], type[HeadraceError], str]] = {
    "a number for a URL": ({"url": 6379}, OptionError, "url=6379: expected a text such as"),
    "a port that is none": ({"url": "redis://h:99999"}, InvalidInput, "ports go from 1 to 65535"),
    "an empty URL": ({"url": ""}, OptionError, "url='' names no server: .*leave url out"),
    "a number as folder": ({"folder": 5}, OptionError, "folder=5: expected the path of a folder"),
    "a folder of bytes": ({"folder": b"x"}, OptionError, "folder=b'x': expected the path of a folder"),
    "an empty folder": ({"folder": ""}, OptionError, "folder='': expected the path of a folder"),
    "a folder with a zero": ({"folder": "a\0"}, OptionError, "folder='a.*': expected the path of a folder"),
    "a folder beside a URL": (
        {"folder": "x", "url": "redis://h"},
        OptionError,
        "give url or folder=, not both",
    ),
    "a folder beside a client": (
        {"folder": "x", "connection": object()},
        OptionError,
        "give connection= or folder=, not both",
    ),
    "a folder that is no text": ({"folder": "\ud800"}, OptionError, "expected the path of a folder"),
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


def test_another_number_of_shards(app: Headrace, place: Place, namespace: str) -> None:
    says = rf"holds {app.shards} .* \(namespace '{namespace}' of .*127.0.0.1.*\): .* leave shards= out .* namespace="
    with pytest.raises(ShardMismatch, match=says):
        Headrace(place.url, namespace=namespace, shards=app.shards + 1)


def test_what_was_added_before_an_error_is_counted(app: Headrace) -> None:
    q = app.queue("q")
    with pytest.raises(PayloadError, match=r"job 2,100 counted from 0 \(the first 2,048 were added\)"):
        q.enqueue_many([*range(2100), len])
    assert q.counts().ready == 2048


def test_results_and_progress_that_cannot_be_name_the_job(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue(1, id="x")
    (claim,) = q.lease(30)
    with pytest.raises(PayloadError, match=r"^job q/x: result cannot be encoded"):
        claim.complete(len)
    with pytest.raises(PayloadError, match=r"^job q/x: result cannot be encoded"):
        q.complete_many([claim], [len])
    with pytest.raises(OptionError, match="text must be a string, not dict"):
        claim.report(0.5, {"a": 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="done='half': expected a share"):
        claim.report("half")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("value", "text"), [(5, "int: 5"), ({"a": 1}, "dict: {'a': 1}"), (["x"], "list: ['x']")])
def test_a_value_given_as_error_shows_in_its_text(app: Headrace, value: Any, text: str) -> None:
    q = app.queue("q")
    job = q.enqueue(1)
    q.lease(30)[0].fail(value)
    error = job.info().error
    assert error is not None
    assert (str(error), error.fields) == (text, {"value": value})


def test_ids_without_an_end_are_allowed(app: Headrace) -> None:
    def names() -> Any:
        n = 0
        while True:
            n += 1
            yield f"id-{n}"

    assert [job.id for job in app.queue("q").enqueue_many(range(3), ids=names())] == ["id-1", "id-2", "id-3"]
