"""A real cluster of a few nodes on loopback, its slots dealt out by hand so that it forms in about 2 s."""

from __future__ import annotations

from typing import Any, cast

import redis
from redis.cluster import RedisCluster

from tests.tools.processes import Port, eventually
from tests.tools.servers import LOOPBACK, Flavour, Persistence, Server

SLOTS = 16384
FORMING = 1000
"""Node timeout in ms while it forms: a fresh primary waits that long before it dares to serve."""


class Node(Server):
    """A server that is a node of a cluster. It knows nobody until it is introduced."""

    def __init__(self, flavour: Flavour, persistence: Persistence) -> None:
        self.bus = Port()  # not the port + 10000 of the default, which nobody reserved
        cluster = {
            "cluster-enabled": "yes",
            "cluster-port": str(self.bus.number),
            "cluster-node-timeout": str(FORMING),
            "cluster-announce-ip": LOOPBACK,
        }
        super().__init__(flavour, persistence=persistence, config=cluster)

    def ask(self, *words: object) -> Any:
        """One command to this node itself, never redirected."""
        with self.admin() as client:
            return cast(Any, client).execute_command(*words)

    @property
    def id(self) -> str:
        """The node's name in the cluster."""
        return cast(bytes, self.ask("CLUSTER", "MYID")).decode()

    def knows(self) -> dict[str, str]:
        """CLUSTER INFO as this node sees it."""
        answer: Any = self.ask("CLUSTER", "INFO")
        if isinstance(answer, dict):
            return cast(dict[str, str], answer)
        return dict(line.split(":", 1) for line in cast(bytes, answer).decode().split())

    def close(self) -> None:
        """Ends the node."""
        super().close()
        self.bus.close()


class Cluster:
    """`n` primaries that share the slots evenly, each with `replicas` copies; `node_timeout` counts once it is formed.

    `nodes` holds the primaries first. A node can be paused, killed and restarted like any `Server`.
    """

    def __init__(
        self,
        n: int = 3,
        *,
        replicas: int = 0,
        flavour: Flavour = "valkey",
        persistence: Persistence = "none",
        node_timeout: int = 5000,
    ) -> None:
        self.nodes: list[Node] = []
        try:
            for _ in range(n * (1 + replicas)):
                self.nodes.append(Node(flavour, persistence))
            self._introduce(n)
            for index, copy in enumerate(self.nodes[n:]):
                copy.ask("CLUSTER", "REPLICATE", self.nodes[index % n].id)
            eventually(lambda: all(self._ready(node) for node in self.nodes), "the cluster is formed", 30)
            for copy in self.nodes[n:]:
                copy.wait_for_replica()
            for node in self.nodes:
                node.ask("CONFIG", "SET", "cluster-node-timeout", node_timeout)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """One node; the others are found through it."""
        return self.nodes[0].url

    def clients(self) -> list[redis.Redis]:
        """A plain client to each node."""
        return [node.client() for node in self.nodes]

    def client(self) -> RedisCluster:
        """A client that follows the slots; the caller closes it."""
        return cast(Any, RedisCluster).from_url(self.url)

    def close(self) -> None:
        """Ends all nodes."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _introduce(self, n: int) -> None:
        """Deals out the slots under distinct epochs, so that no two primaries have to settle a collision."""
        for index, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if index < n:
                node.ask("CLUSTER", "ADDSLOTSRANGE", SLOTS * index // n, SLOTS * (index + 1) // n - 1)
        for index, node in enumerate(self.nodes):
            for other in self.nodes[index + 1 :]:
                node.ask("CLUSTER", "MEET", LOOPBACK, other.port, other.bus.number)
        names = [node.id for node in self.nodes]  # until the handshake is over, a node goes by another name

        def met(node: Node) -> bool:
            known = str(node.ask("CLUSTER", "NODES"))
            return all(name in known for name in names)

        eventually(lambda: all(met(node) for node in self.nodes), "all nodes met", 30)

    def _ready(self, node: Node) -> bool:
        knows = node.knows()
        return knows["cluster_state"] == "ok" and knows["cluster_slots_ok"] == str(SLOTS)
