"""A URL that leads nowhere says so at once, with each address that was tried and what it said."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.errors import ServerUnavailable, ServerUnfit
from tests.server.transport_tools import site_at
from tests.tools.processes import Port
from tests.tools.sentinels import Sentinels
from tests.tools.servers import Server


class Silent(BaseHTTPRequestHandler):
    """A web server that keeps no log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("login", ["", ":secret@"])
def test_a_web_server_is_told_from_a_redis(web: str, login: str) -> None:
    with pytest.raises(ServerUnfit, match=rf"what listens at {web} is no Redis or Valkey .*: check host and port"):
        site_at(f"redis://{login}{web}")


def refused(url: str, *says: str) -> None:
    """Refused long before the patience for a failover is over, with all that is to be said."""
    begun = time.monotonic()
    with pytest.raises(ServerUnavailable) as caught:
        site_at(url)
    assert time.monotonic() - begun < 5
    for words in (*says, "HEADRACE_URL"):
        assert words in str(caught.value)


@pytest.mark.parametrize("form", ["redis+sentinel://{}/mymaster", "redis+cluster://{}"])
def test_nothing_listens_at_any_address(form: str) -> None:
    one, two = Port(), Port()
    try:
        where = [f"127.0.0.1:{port.number}" for port in (one, two)]
        refused(form.format(",".join(where)), f"{where[0]}: ", f"{where[1]}: ", "refused")
    finally:
        one.close()
        two.close()


def test_a_web_server_among_the_addresses(web: str) -> None:
    refused(f"redis+sentinel://{web}/mymaster", f"{web}: ", "is no Redis or Valkey server")
    refused(f"redis+cluster://{web}", f"{web}: ", "is no Redis or Valkey server")


def test_a_server_that_is_no_sentinel_or_in_no_cluster(valkey: Server) -> None:
    where = f"127.0.0.1:{valkey.port}"
    refused(f"redis+sentinel://{where}/mymaster", f"{where}: it is no Sentinel (")
    refused(f"redis+cluster://{where}", f"{where}: it is not in cluster mode (")


def test_a_service_that_no_sentinel_knows(sentinels: Sentinels) -> None:
    url = sentinels.url.replace("/mymaster", "/other")
    ports = [f"127.0.0.1:{sentinel.port}: this Sentinel knows no service 'other'" for sentinel in sentinels.sentinels]
    refused(url, *ports)


def test_who_may_still_answer_is_waited_for() -> None:
    """One address takes connections and says nothing: that is no definite no."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        where = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=rf"to a primary within 0\.1 s \({where}: .*time"):
            site_at(f"redis+cluster://{where}?socket_timeout=0.2", retry_for=0.1)
