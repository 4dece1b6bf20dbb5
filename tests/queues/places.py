"""Where the tests of queues run, and a stranger's hands that reach behind the engine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis.exceptions import MovedError

from headrace import Headrace
from headrace.protocol import keys
from headrace.server.connect import open_site
from tests.tools.servers import Server

_numbers = itertools.count(1)


def fresh() -> str:
    """A namespace that nobody has used on the servers of this run."""
    return f"t{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Place:
    """Servers shared by many tests, each in its own namespace."""

    name: str
    url: str
    shards: int
    servers: Sequence[Server]

    def open(self, namespace: str, *, test_clock: bool = False, **options: Any) -> Headrace:
        """Another app on a namespace, as another process would have it."""
        if test_clock:
            return Headrace.at_site(open_site(self.url, namespace=namespace, test_clock=True), shards=self.shards)
        return Headrace(self.url, namespace=namespace, shards=self.shards, **options)

    def hands(self, namespace: str) -> Hands:
        """Hands on the keys of a namespace."""
        return Hands(self, namespace)


class Hands:
    """Plain commands on the keys of one namespace, past every check of the engine."""

    def __init__(self, place: Place, namespace: str) -> None:
        self.place = place
        self.namespace = namespace
        self.clients = [cast(Any, server.admin()) for server in place.servers]

    def key(self, name: str, shard: int = 0) -> str:
        """The full name of a key."""
        return keys.tag(self.namespace, shard) + name

    def __call__(self, command: str, name: str, *args: object, shard: int = 0) -> Any:
        """One command on one key, on whatever node holds it; MEMORY answers the bytes that it takes."""
        key = self.key(name, shard)
        words = ["MEMORY", "USAGE", key] if command == "MEMORY" else [command, key, *args]
        for client in self.clients:
            try:
                return client.execute_command(*words)
            except MovedError:
                continue
        raise AssertionError(f"no node holds {key}")

    def every(self, *words: object) -> list[Any]:
        """A command to each node."""
        return [client.execute_command(*words) for client in self.clients]

    def names(self) -> dict[str, str]:
        """All keys there are, with their types; without the tag where there is one shard only."""
        found: dict[str, str] = {}
        for client in self.clients:
            for raw in client.scan_iter(match="{" + self.namespace + ":*", count=1000):
                name = raw.decode()
                short = name.removeprefix(self.key("")) if self.place.shards == 1 else name
                found[short] = client.type(raw).decode()
        return found

    def calls(self) -> int:
        """How many functions were called on these servers so far."""
        stats = [client.info("commandstats") for client in self.clients]
        return sum(node.get("cmdstat_fcall", {}).get("calls", 0) for node in stats)

    def clean(self) -> None:
        """Remove every key of the namespace."""
        for client in self.clients:
            for raw in list(client.scan_iter(match="{" + self.namespace + ":*", count=1000)):
                client.unlink(raw)

    def close(self) -> None:
        """Close the connections."""
        for client in self.clients:
            client.close()


class Clock:
    """The time of a namespace that was opened with a test clock: it stands still until it is moved."""

    def __init__(self, hands: Hands, start: float = 1_000_000.0) -> None:
        self._hands = hands
        self.now = start
        self.set(start)

    def set(self, seconds: float) -> None:
        """Make it that time, on all shards."""
        self.now = seconds
        for shard in range(self._hands.place.shards):
            self._hands("SET", "clock", round(seconds * 1000), shard=shard)

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.set(self.now + seconds)
