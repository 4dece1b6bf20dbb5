"""The launcher gives real servers that can be disturbed, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from redis.exceptions import NoPermissionError

from tests.tools.cluster import Cluster
from tests.tools.crash import Child
from tests.tools.processes import alive, eventually, left_running
from tests.tools.sentinels import Sentinels
from tests.tools.servers import Flavour, Persistence, Server, flavours


def connect(url: str) -> Any:
    return cast(Any, redis.Redis).from_url(url)


@pytest.fixture(params=flavours())
def flavour(request: pytest.FixtureRequest) -> Flavour:
    return request.param


def test_each_flavour_is_what_it_says(flavour: Flavour) -> None:
    with Server(flavour) as server:
        about = cast(Any, server.client()).info("server")
        assert ("valkey_version" in about) == (flavour == "valkey")
        assert about["process_id"] == server.pid
        assert connect(server.unix_url).ping()


@pytest.mark.parametrize(("persistence", "kept"), [("none", None), ("everysec", b"v"), ("always", b"v")])
def test_restart_finds_the_data_at_the_same_address(
    flavour: Flavour, persistence: Persistence, kept: bytes | None
) -> None:
    with Server(flavour, persistence=persistence) as server:
        url, pid = server.url, server.pid
        connect(url).set("k", "v")
        server.stop()
        assert not server.running
        assert not alive(pid)
        server.restart()
        assert (server.url, connect(url).get("k")) == (url, kept)


def test_what_was_written_always_survives_a_kill(flavour: Flavour) -> None:
    with Server(flavour, persistence="always") as server:
        connect(server.url).set("k", "v")
        server.kill()
        with pytest.raises(redis.ConnectionError):
            cast(Any, server.client()).ping()
        server.start()
        assert connect(server.url).get("k") == b"v"


def test_a_paused_server_is_silent_and_goes_on() -> None:
    with Server() as server:
        client = cast(Any, server.client(socket_timeout=0.1))
        assert client.ping()
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        assert eventually(lambda: connect(server.url).ping(), "it answers again")
        server.pause()  # and a paused one can be closed
    assert not alive(server.pid)


def test_password_users_and_memory(flavour: Flavour) -> None:
    acl = ["alice on >her/secret ~a:* &* +@all"]
    with Server(flavour, password="p@ss/wörd ?#", acl=acl, maxmemory="50mb") as server:
        assert connect(server.url).config_get("maxmemory", "maxmemory-policy") == {
            "maxmemory": str(50 << 20),
            "maxmemory-policy": "noeviction",
        }
        with pytest.raises(redis.AuthenticationError):
            connect(server.url_for(password="wrong")).ping()
        alice = connect(server.url_for("alice", "her/secret"))
        assert alice.acl_whoami() == "alice"
        with pytest.raises(NoPermissionError):
            alice.set("b:1", 1)


def test_tls_is_encrypted_and_verified(flavour: Flavour) -> None:
    with Server(flavour, tls=True, password="pw") as server:
        assert server.url.startswith("rediss://")
        assert connect(server.url).set("k", b"x" * 300_000)
        assert len(connect(server.url).get("k")) == 300_000
        with pytest.raises(redis.ConnectionError):  # an authority nobody told it about
            connect(server.url.partition("?")[0]).ping()
        with pytest.raises(redis.RedisError):
            connect(server.url.replace("rediss", "redis").partition("?")[0]).ping()


def test_a_replica_follows(flavour: Flavour) -> None:
    with Server(flavour, password="pw") as primary, Server(flavour, password="pw", replica_of=primary) as replica:
        replica.wait_for_replica()
        client = cast(Any, primary.client())
        client.set("k", "v")
        assert client.wait(1, 5000) == 1
        assert connect(replica.url).get("k") == b"v"


def test_a_cluster_serves_all_slots(cluster: Cluster) -> None:
    with cast(Any, cluster.client()) as client:
        for n in range(60):
            client.set(f"launcher:{n}", n)
        assert all(cast(Any, node).dbsize() > 0 for node in cluster.clients())
        assert client.cluster_info()["cluster_size"] == "3"
        for n in range(60):
            client.delete(f"launcher:{n}")


def test_a_clusters_replica_takes_over() -> None:
    with Cluster(replicas=1, node_timeout=1000) as cluster:
        lost, copy = cluster.nodes[0], cluster.nodes[3]
        lost.kill()
        eventually(lambda: copy.ask("ROLE")[0] in (b"master", "master"), "its replica is primary now", 20)
        eventually(lambda: copy.knows()["cluster_state"] == "ok", "the cluster is whole again", 20)


def test_sentinels_fail_over(sentinels: Sentinels) -> None:
    before = sentinels.primary
    after = sentinels.failover()
    assert after is sentinels.primary is not before
    assert cast(Any, sentinels.client()).discover_master(sentinels.service) == after.address


LAUNCHER = """
from tests.tools.servers import Server
server = Server(persistence="always")
tell(server.pid, server.directory)
wait()
"""


def test_nothing_outlives_a_killed_test_run() -> None:
    with Child(LAUNCHER) as run:
        pid, directory = run.says().split()
        assert alive(int(pid))
        os.kill(run.pid, signal.SIGKILL)
        eventually(lambda: not alive(int(pid)), "the server is gone with the run that started it")
        eventually(lambda: not Path(directory).parent.exists(), "the directory of the run is removed")


def test_a_server_that_is_left_is_found_and_named() -> None:
    with Server() as server:
        assert any(line.startswith(f"{server.pid} ") for line in left_running())
    assert not any(line.startswith(f"{server.pid} ") for line in left_running())


def test_a_server_that_cannot_start_shows_its_log() -> None:
    with pytest.raises(AssertionError, match="no-such-setting"):
        Server(config={"no-such-setting": "1"})
