"""Servers for all tests: each starts when first asked for, once per session, and is gone at its end.

`server` is each installed flavour in turn; what is not installed is not collected.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.tools import processes
from tests.tools.cluster import Cluster
from tests.tools.sentinels import Sentinels
from tests.tools.servers import Server, flavours, program


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need the machine's own Redis exist only where there is one."""
    if program("redis") is None:
        absent = [item for item in items if "redis7" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """No process that the tools started may be left; fixtures have ended theirs by now."""
    left = processes.left_running()
    processes.end_all()
    processes.remove_directories()
    if left:
        print("\nprocesses left behind:", *left, sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def valkey() -> Generator[Server]:
    """A Valkey server of the packaged binary, without persistence."""
    with Server() as server:
        yield server


@pytest.fixture(scope="session", params=flavours())
def server(request: pytest.FixtureRequest) -> Generator[Server]:
    """A server of each flavour that is installed, without persistence."""
    with Server(request.param) as running:
        yield running


@pytest.fixture(scope="session")
def redis7() -> Generator[Server]:
    """The machine's own Redis."""
    with Server("redis") as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Generator[Cluster]:
    """Three primaries of the packaged Valkey."""
    with Cluster() as nodes:
        yield nodes


@pytest.fixture(scope="session")
def sentinels() -> Generator[Sentinels]:
    """A primary with its replica and three Sentinels. Which one is primary is up to the tests before yours."""
    with Sentinels() as group:
        yield group
