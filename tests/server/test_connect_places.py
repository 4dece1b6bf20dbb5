"""Every form of URL leads to its server, says where and how durable that is, and refuses what is unfit."""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest
import trustme

from headrace import Headrace
from headrace.errors import OptionError, ServerUnavailable, ServerUnfit
from headrace.protocol.steps import Block, Listen
from headrace.server.connect import open_site
from tests.server.transport_tools import FUNCTIONS, KINDS, add, doing, echo, read, running, site_at
from tests.tools.cluster import Cluster
from tests.tools.processes import new_directory
from tests.tools.servers import Persistence, Server, certificates, program

SECRET = "s3cr3t/@pw"
FLAVOURS = [flavour for flavour in ("valkey", "redis") if program(flavour)]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    # As docs/guides/connecting.md says.
    worker = f"worker on >{SECRET} ~{{hr:* &{{hr:* +@all -@admin -@dangerous +info +client|unblock +function|load"
    narrow = f"narrow on >{SECRET} ~{{hr:* +info +fcall"
    blind = f"blind on >{SECRET} ~* +fcall"
    with Server(password=SECRET, acl=[worker, narrow, blind]) as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
def test_a_password(guarded: Server, kind: str) -> None:
    with running(kind, guarded.url) as run:
        assert run(echo("x")) == [b"x"]
        assert SECRET not in repr(run.site) + run.site.boot_line()


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_of_the_acl(guarded: Server, kind: str) -> None:
    with running(kind, guarded.url_for("worker", SECRET)) as run:
        assert run(add("acl")) >= 1
        assert run(Block({0: "{hr:0}wake"}, 0.01)) is False
        assert run(Listen(0, "{hr:0}done", read("none"), 0.01)) is None
        with pytest.raises(ServerUnfit, match="may not run SUBSCRIBE"):
            run(Listen(0, "elsewhere", read("none"), 0.01))
        assert run.site.durability == "memory"  # INFO tells, where CONFIG is forbidden


@pytest.mark.parametrize(
    ("user", "password"), [("", "wrong"), ("nobody", SECRET), ("", "")], ids=["password", "user", "nothing"]
)
def test_who_is_refused_learns_it_at_once(guarded: Server, user: str, password: str) -> None:
    with pytest.raises(ServerUnfit) as caught:
        site_at(guarded.url_for(user, password))
    assert "password" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_forbidden_command_is_named(guarded: Server) -> None:
    with pytest.raises(ServerUnfit, match=r"may not run INFO .*ACL SETUSER"):
        site_at(guarded.url_for("blind", SECRET))
    with guarded.admin() as admin, site_at(guarded.url_for("narrow", SECRET)) as site:
        cast(Any, admin).function_flush()
        with pytest.raises(ServerUnfit, match="may not run FUNCTION LOAD"):
            site.run(doing(echo("x")))
        with site_at(guarded.url) as other:
            other.run(doing(echo("x")))
        assert site.run(doing(echo("x"))) == [b"x"]  # who may not load the library can use one that is there


@pytest.mark.parametrize("kind", KINDS)
def test_tls(kind: str) -> None:
    with Server(tls=True, password=SECRET) as server, running(kind, server.url) as run:
        assert run(echo("x")) == [b"x"]
        assert run([echo(i) for i in range(30)]) == [[b"%d" % i] for i in range(30)]
        assert "(TLS)" in run.site.where


def test_tls_with_a_stranger_s_authority_or_without_tls_is_refused() -> None:
    other = new_directory("tls") / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    with Server(tls=True) as server:
        place = server.url.partition("?")[0]
        for url in (place, f"{place}?ssl_ca_certs={quote(str(other))}", f"{place}?ssl_ca_certs=/no/such.pem"):
            with pytest.raises(ServerUnavailable, match="certificate"):
                site_at(url)
        with pytest.raises(ServerUnavailable, match="wants TLS"):
            site_at(place.replace("rediss", "redis") + "?socket_timeout=0.3", retry_for=0.2)
        secure = f"rediss://127.0.0.1:{server.port}?socket_timeout=0.3&ssl_ca_certs={quote(str(certificates()[1]))}"
        with pytest.raises(ServerUnavailable, match="speaks TLS"):
            site_at(secure)


@pytest.mark.parametrize("kind", KINDS)
def test_a_unix_socket(guarded: Server, kind: str) -> None:
    path = guarded.directory / "admin.sock"
    with running(kind, f"unix://{path}?password={quote(SECRET, safe='')}&db=1") as run:
        assert run(echo("x")) == [b"x"]
        assert f"unix socket {path} database 1" in run.site.where
    with pytest.raises(ServerUnavailable, match=r"no\.sock"):
        site_at(f"unix://{path.with_name('no.sock')}")


def test_databases_are_apart(guarded: Server) -> None:
    with site_at(guarded.url + "/1") as one, site_at(guarded.url + "/2") as two:
        assert one.run(doing(add("apart"))) == 1
        assert two.run(doing(add("apart"))) == 1


def test_the_environment_names_the_server(guarded: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", guarded.url)

    with open_site(functions=FUNCTIONS) as site:
        assert site.url == guarded.url
        assert str(guarded.port) in site.where


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_environment_is_no_wish_for_an_embedded_server(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", empty)

    with pytest.raises(OptionError, match="HEADRACE_URL is set and empty: unset it for an embedded server"):
        open_site(functions=FUNCTIONS)


def test_a_folder_given_is_nearer_than_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("HEADRACE_DIR", str(tmp_path / "other"))

    with Headrace(folder=tmp_path / "here") as app:
        assert "here" in app.url
        assert app.where.endswith(", embedded")
    assert not (tmp_path / "other").exists()


def test_without_a_url_a_server_is_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_URL", raising=False)

    with open_site(functions=FUNCTIONS, folder=tmp_path / ".headrace") as site:
        assert site.run(doing(add("n"))) == 1
        assert site.where.endswith(", embedded")
        assert site.durability == "everysec"


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("persistence", "level"), [("none", "memory"), ("everysec", "everysec"), ("always", "always")])
def test_the_boot_line(flavour: str, persistence: Persistence, level: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headrace")
    with Server(flavour, persistence=persistence) as server, site_at(server.url) as site:  # pyright: ignore[reportArgumentType]
        assert site.durability == level
        assert site.where == f"{flavour.title()} {site.server_version} at 127.0.0.1:{server.port}"
        assert [record.getMessage() for record in caplog.records if record.name == "headrace"] == [site.boot_line()]
        assert site.where in site.boot_line()
        assert f"durability: {level}" in site.boot_line()


def test_replication_that_is_demanded_counts_as_durability() -> None:
    with Server(config={"min-replicas-to-write": "2"}) as server, site_at(server.url) as site:
        assert site.durability.endswith(", replicated(2)")


def test_a_server_that_may_evict_keys_is_refused() -> None:
    with Server(config={"maxmemory-policy": "allkeys-lru"}) as server:
        with pytest.raises(ServerUnfit, match="CONFIG SET maxmemory-policy noeviction"):
            site_at(server.url)
        cast(Any, server.client()).config_set("maxmemory-policy", "noeviction")
        site_at(server.url).close()


def test_a_replica_is_refused() -> None:
    with Server() as first, Server(replica_of=first) as second:
        second.wait_for_replica()
        with pytest.raises(ServerUnfit, match="is a replica"):
            site_at(second.url)


@pytest.mark.parametrize(
    ("info", "error"),
    [
        ("redis_version:6.2.14", r"Redis 6\.2\.14\) is too old: Redis 7\.0 or Valkey 7\.2"),
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.1.9", r"Valkey 7\.1\.9\) is too old"),
        ("redis_version:7.4.0", "does not know FUNCTION"),
    ],
)
def test_a_server_that_is_too_old_or_has_no_functions_is_refused(info: str, error: str) -> None:
    unknown = b"-ERR unknown command 'FUNCTION', with args beginning with: 'STATS'\r\n"
    with (
        impostor({"INFO": b"$%d\r\n%b\r\n" % (len(info), info.encode()), "CONFIG": b"*0\r\n"}, unknown) as url,
        pytest.raises(ServerUnfit, match=error),
    ):
        site_at(url)


@contextmanager
def impostor(replies: dict[str, bytes], otherwise: bytes) -> Generator[str]:
    """A server that knows a reply to each command, and nothing else: what no server at hand would say."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.readline():
                words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                self.wfile.write(replies.get(words[0].decode(), otherwise))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["redis+cluster", "redis"])
def test_a_cluster(cluster: Cluster, kind: str, form: str) -> None:
    with running(kind, cluster.url.replace("redis", form, 1), namespace=f"{kind}{form}") as run:
        shards = range(6)
        assert run([add("n", shard, shard) for shard in shards for _ in range(3)]) == [
            shard * turn for shard in shards for turn in (1, 2, 3)
        ]
        assert run.site.is_cluster
        assert len(run.site.nodes) == 3
        assert "a cluster of 3 primaries" in run.site.where
        assert len({run.site.epoch_of_server(shard) for shard in shards}) == 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_epoch_changes_with_a_restart(flavour: str) -> None:
    with Server(flavour) as server, site_at(server.url) as site:  # pyright: ignore[reportArgumentType]
        before = site.epoch_of_server(0)
        assert site.epoch_of_server(0) == before
        server.restart()
        assert site.epoch_of_server(0) != before
