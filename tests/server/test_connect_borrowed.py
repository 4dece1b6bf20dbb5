"""`connection=`: a client or pool of the caller shows the way, and stays the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
import redis
import redis.asyncio

from headrace.errors import OptionError
from headrace.server.address import address_of
from headrace.server.connect import open_site
from tests.server.transport_tools import FUNCTIONS, add, doing, echo
from tests.tools.cluster import Cluster
from tests.tools.sentinels import Sentinels
from tests.tools.servers import Server

PASSWORD = "s3cr3t/@pw"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(password=PASSWORD) as server:
        yield server


def check(connection: object, owner: Any, where: str) -> None:
    """A site beside the connection works on both transports; what the caller owns still does afterwards."""
    with open_site(connection=connection, functions=FUNCTIONS) as site:
        assert site.run(doing(echo("x"))) == [b"x"]
        assert asyncio.run(site.arun(doing(echo("x")))) == [b"x"]
        assert where in site.where
        assert PASSWORD not in repr(site) + site.boot_line()
        if site.url:
            with open_site(site.url, functions=FUNCTIONS) as again:
                assert again.run(doing(add("n"))) >= 1
    owner()


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_and_its_pool(server: Server, decode: bool, protocol: int) -> None:
    client = server.client(decode_responses=decode, protocol=protocol, max_connections=1, socket_timeout=2)
    cast(Any, client).set("k", "v")
    for connection in (client, client.connection_pool):
        check(connection, lambda: cast(Any, client).ping(), str(server.port))
    with open_site(connection=client, functions=FUNCTIONS) as site:
        assert site.url.partition("?")[0].endswith(f"127.0.0.1:{server.port}")


def test_a_unix_socket_and_a_database(server: Server) -> None:
    path = str(server.directory / "admin.sock")
    client = redis.Redis(unix_socket_path=path, password=PASSWORD, db=3)
    check(client, lambda: cast(Any, client).ping(), f"unix socket {path} database 3")
    client.close()


def test_tls() -> None:
    with Server(tls=True, password=PASSWORD) as server:
        client = server.client()
        check(client, lambda: cast(Any, client).ping(), "(TLS)")


def test_an_asynchronous_client_and_pool(server: Server) -> None:
    client = cast(Any, redis.asyncio.Redis).from_url(server.url, decode_responses=True)
    pool = cast(Any, redis.asyncio.BlockingConnectionPool).from_url(server.url)
    for connection in (client, pool):
        check(connection, lambda: None, str(server.port))
    assert asyncio.run(_ping_and_close(client))


async def _ping_and_close(client: Any) -> bool:
    async with client:
        return await client.ping()


def test_credentials_of_a_provider(server: Server) -> None:
    class Provider(redis.CredentialProvider):
        def get_credentials(self) -> tuple[str, str]:
            return "default", PASSWORD

    client = redis.Redis(host="127.0.0.1", port=server.port, credential_provider=Provider())
    check(client, lambda: cast(Any, client).ping(), str(server.port))
    with open_site(connection=client, functions=FUNCTIONS) as site:
        assert site.url == ""  # no URL can say where the credentials come from
    client.close()


def test_cluster_clients() -> None:
    with Cluster() as cluster:
        client = cluster.client()
        check(client, lambda: cast(Any, client).ping(), "a cluster of 3 primaries")
        client.close()
        check(cast(Any, redis.asyncio.RedisCluster).from_url(cluster.url), lambda: None, "a cluster of 3 primaries")


def test_a_client_made_by_sentinels() -> None:
    with Sentinels(password=PASSWORD.replace("/@", "")) as sentinels:
        service = sentinels.client()
        client = cast(Any, service).master_for(sentinels.service, password=sentinels.password)
        check(client, client.ping, str(sentinels.primary.port))
        sentinels.failover()
        with open_site(connection=client, functions=FUNCTIONS) as site:
            assert str(sentinels.primary.port) in site.where
            address = address_of(site.url)
            assert (address.shape, address.service) == ("sentinel", sentinels.service)
        replica = cast(Any, service).slave_for(sentinels.service, password=sentinels.password)
        with pytest.raises(OptionError, match="master_for"):
            open_site(connection=replica, functions=FUNCTIONS)
        for each in [client, replica, *service.sentinels]:
            each.close()


@pytest.mark.parametrize("thing", ["redis://h", 7, object()])
def test_anything_else_is_refused(thing: object) -> None:
    with pytest.raises(OptionError, match="redis-py client or connection pool"):
        open_site(connection=thing, functions=FUNCTIONS)
