"""A shard of its own for each test, with a clock that stands still until the test moves it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.tools.servers import Server
from tests.tools.shard import Shard


@pytest.fixture
def shard(valkey: Server) -> Generator[Shard]:
    """An empty shard on the packaged Valkey."""
    with valkey.admin() as client:
        yield Shard(client).start()
