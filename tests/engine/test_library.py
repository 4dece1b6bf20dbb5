"""The library loads, with room to grow: Lua allows 200 locals in one chunk, and counts every shared function."""

from __future__ import annotations

import pytest

from headrace.server.library import library
from tests.tools.servers import Server

ROOM = 8


@pytest.mark.parametrize("test_clock", [True, False])
def test_it_loads_on_every_server_with_locals_to_spare(server: Server, test_clock: bool) -> None:
    source = library(test_clock).source
    at = source.index("redis.register_function")
    spare = "".join(f"local spare_{i}\n" for i in range(ROOM))
    with server.admin() as client:
        client.function_load(source[:at] + spare + source[at:], replace=True)
        client.function_load(source, replace=True)
