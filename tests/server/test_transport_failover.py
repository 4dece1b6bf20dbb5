"""Shards that change their server: a failover by Sentinels, one within a cluster, and slots that move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from headrace.errors import ServerUnavailable
from headrace.server.topology import slot_of
from tests.server.transport_tools import KINDS, Runner, add, doing, echo, read, running, site_at
from tests.tools.cluster import Cluster
from tests.tools.processes import Port, eventually
from tests.tools.sentinels import Sentinels


@pytest.fixture(scope="module")
def sentinels() -> Iterator[Sentinels]:
    with Sentinels(password="pw") as sentinels:
        yield sentinels


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(replicas=1, node_timeout=1500) as cluster:
        yield cluster


@pytest.mark.parametrize("kind", KINDS)
def test_sentinels_lead_to_the_primary_also_after_a_failover(sentinels: Sentinels, kind: str) -> None:
    with running(kind, sentinels.url, namespace=kind) as run:
        assert str(sentinels.primary.port) in run.site.where
        assert run([add("n") for _ in range(10)]) == list(range(1, 11))
        epoch = run.site.epoch_of_server(0)
        new = sentinels.failover()
        answer = run(add("n"))
        assert answer == 11
        assert str(new.port) in run.site.where
        assert run.site.epoch_of_server(0) != epoch


def test_calls_go_on_while_sentinels_fail_over(sentinels: Sentinels) -> None:
    with site_at(sentinels.url, namespace="during") as site:
        site.run(doing(add("n")))
        thread = threading.Thread(target=sentinels.failover)
        thread.start()
        calls = 1
        while thread.is_alive() or calls < 20:
            site.run(doing(add("n")))
            calls += 1
        thread.join()
        # A write that the old primary took while it was being replaced may be gone; none was done twice.
        assert 0 < int(cast(bytes, site.run(doing(read("n"))))) <= calls


def test_a_dead_sentinel_is_passed_over_and_an_unknown_service_is_unavailable(sentinels: Sentinels) -> None:
    nobody = Port()
    try:
        url = sentinels.url.replace("@", f"@127.0.0.1:{nobody.number},", 1)
        with site_at(url) as site:
            assert site.run(doing(echo("x"))) == [b"x"]
        with pytest.raises(ServerUnavailable, match="led to a primary"):
            site_at(sentinels.url.replace("mymaster", "other"), retry_for=0.2)
    finally:
        nobody.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_promotes_a_replica(cluster: Cluster, kind: str) -> None:
    with running(kind, cluster.url, namespace=f"up{kind}") as run:
        shards = range(6)
        assert run([add("n", 1, shard) for shard in shards]) == [1] * 6
        for replica in [node for node in cluster.nodes if node.ask("ROLE")[0] == b"slave"]:
            eventually(lambda node=replica: node.ask("ROLE")[3] == b"connected", "the replica is in step")
            replica.ask("CLUSTER", "FAILOVER")
            eventually(lambda node=replica: node.ask("ROLE")[0] == b"master", "the replica is promoted")
            assert run([add("n", 0, shard) for shard in shards]) == [1] * 6
            assert all(run(read("n", shard)) == b"1" for shard in shards)


def test_a_killed_node_is_replaced(cluster: Cluster) -> None:
    with running("blocking", cluster.url, namespace="killed") as run:
        owner = _owner(cluster, run, shard=0)
        try:
            run([add("n", 1, shard) for shard in range(6)])
            eventually(lambda: owner.ask("WAIT", 1, 100) == 1, "the replica has it all")
            owner.kill()
            assert run(add("n", 1, 0)) == 2
        finally:
            owner.start()


def test_a_slot_that_moves_is_followed(cluster: Cluster) -> None:
    slot = slot_of("moving", 0)
    with running("asyncio", cluster.url, namespace="moving") as run:
        run(echo("x"))
        owner = _owner(cluster, run, shard=0)
        target = next(node for node in cluster.nodes if node is not owner and node.ask("ROLE")[0] == b"master")
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", owner.id)
        owner.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        for node in (target, owner):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        assert run(add("n")) == 1
        assert target.ask("CLUSTER", "COUNTKEYSINSLOT", slot) > 0


def _owner(cluster: Cluster, run: Runner, shard: int) -> Any:
    endpoint = run.site.shard_node(shard)
    return next(node for node in cluster.nodes if endpoint.endswith(f":{node.port}"))
