"""The embedded server was killed under a program that runs on: it comes back, and nothing that was said is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
import redis

from headrace import Claim, Headrace
from headrace.server.embedded_folder import Folder
from tests.tools.processes import alive, eventually, new_directory


@pytest.fixture
def app() -> Generator[Headrace]:
    """An app on an embedded server of its own, which is gone afterwards."""
    folder: Path = new_directory("revival") / "data"
    with Headrace(folder=folder) as made:
        yield made
    eventually(lambda: not Folder(folder).occupied(), f"the server of {folder} is gone", 15)


def server_of(app: Headrace) -> int:
    with cast(Any, redis.Redis).from_url(app.url) as client:
        return client.info()["process_id"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid), f"the server {pid} is gone", 15)


def test_the_next_call_starts_it_again_on_the_same_data(app: Headrace) -> None:
    q = app.queue("q")
    q.enqueue("before", id="before")
    pid = server_of(app)
    kill(pid)
    assert q.enqueue("after", id="after").outcome == "added"
    assert server_of(app) != pid
    assert [claim.data for claim in q.lease(30, n=10)] == ["before", "after"]


async def test_the_next_awaited_call_does(app: Headrace) -> None:
    q = app.queue("q")
    await q.aenqueue("before")
    kill(server_of(app))
    jobs = await asyncio.gather(*(q.aenqueue(n) for n in range(50)))
    assert {job.outcome for job in jobs} == {"added"}
    assert (await q.acounts()).ready == 51


def test_who_waited_when_it_died_goes_on_waiting(app: Headrace) -> None:
    q = app.queue("q")
    got: list[Claim] = []
    thread = Thread(target=lambda: got.extend(q.lease(30, wait=60)))
    thread.start()
    with cast(Any, redis.Redis).from_url(app.url) as client:
        eventually(lambda: client.info("clients")["blocked_clients"] == 1, "it waits", 15)
    kill(server_of(app))
    with Headrace(folder=app.engine.site.url.removeprefix("unix://").removesuffix("/server.sock")) as other:
        other.queue("q").enqueue("work")
    thread.join(15)
    assert [claim.data for claim in got] == ["work"]
