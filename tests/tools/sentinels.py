"""A primary, its replica, and three Sentinels that watch them."""

from __future__ import annotations

from typing import Any, cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.sentinel import Sentinel as SentinelClient

from tests.tools.processes import eventually
from tests.tools.servers import LOOPBACK, Flavour, Persistence, Process, Server


class Sentinel(Process):
    """One Sentinel: the same program in its other mode. It keeps what it learns in its configuration file."""

    def __init__(self, flavour: Flavour, service: str, primary: Server, quorum: int) -> None:
        super().__init__("sentinel", flavour)
        settings = [
            f"port {self.port}",
            f"bind {LOOPBACK}",
            "unixsocket admin.sock",
            f"sentinel monitor {service} {LOOPBACK} {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {service} 1000",
            f"sentinel failover-timeout {service} 3000",
        ]
        if primary.password:
            settings.append(f"sentinel auth-pass {service} {primary.password}")
        (self.directory / "sentinel.conf").write_text("\n".join(settings) + "\n")
        try:
            self.start()
            # it asks every 10 s and tells every 2 s by default, and a failover then takes 20 s
            self.ask("SENTINEL", "DEBUG", "INFO-PERIOD", 200, "PUBLISH-PERIOD", 700, "PING-PERIOD", 100)
        except BaseException:
            self.close()
            raise

    def command(self) -> list[str]:
        """The program in Sentinel mode."""
        return [str(self.program), str(self.directory / "sentinel.conf"), "--sentinel"]

    def ask(self, *words: object) -> Any:
        """One command to this Sentinel."""
        with self.admin() as client:
            return cast(Any, client).execute_command(*words)


class Sentinels:
    """`servers` are the first primary and its replica; who is primary now says `primary`."""

    def __init__(
        self, flavour: Flavour = "valkey", *, persistence: Persistence = "none", password: str | None = None
    ) -> None:
        self.service = "mymaster"
        self.password = password
        self.servers: list[Server] = []
        self.sentinels: list[Sentinel] = []
        try:
            first = Server(flavour, persistence=persistence, password=password)
            self.servers.append(first)
            second = Server(flavour, persistence=persistence, password=password, replica_of=first)
            self.servers.append(second)
            second.wait_for_replica()
            for _ in range(3):
                self.sentinels.append(Sentinel(flavour, self.service, first, quorum=2))
            eventually(lambda: all(self._complete(each) for each in self.sentinels), "the Sentinels met", 30)
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each Sentinel."""
        return [(LOOPBACK, each.port) for each in self.sentinels]

    @property
    def url(self) -> str:
        """`redis+sentinel://` with all of them and the service."""
        login = f":{self.password}@" if self.password else ""
        return f"redis+sentinel://{login}{','.join(f'{h}:{p}' for h, p in self.addresses)}/{self.service}"

    @property
    def primary(self) -> Server:
        """The server that the Sentinels name."""
        port = self._named(self.sentinels[0])
        return next(server for server in self.servers if server.port == port)

    @property
    def replica(self) -> Server:
        """The other one."""
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def client(self) -> SentinelClient:
        """A client of the Sentinels; `.master_for(service)` gives one of the primary."""
        return cast(Any, SentinelClient)(self.addresses, password=self.password)

    def failover(self) -> Server:
        """Makes the replica the primary, as an operator would; waits until all agree and the old one follows."""
        old, new = self.primary, self.replica
        eventually(self._accepts_failover, "a Sentinel accepts to fail over", 30)
        self.wait_for_primary(new)
        eventually(lambda: self._role(old) == b"slave", "the old primary follows", 30)
        old.wait_for_replica()
        eventually(lambda: all(self._complete(each) for each in self.sentinels), "the Sentinels see both", 30)
        return new

    def wait_for_primary(self, server: Server, within: float = 30) -> None:
        """Waits until every Sentinel names `server` and it has taken the role, e.g. after the other was killed."""

        def settled() -> bool:
            return all(self._named(each) == server.port for each in self.sentinels) and self._role(server) == b"master"

        eventually(settled, f"all Sentinels name the server on port {server.port}", within)

    def close(self) -> None:
        """Ends everything."""
        for process in [*self.sentinels, *self.servers]:
            process.close()

    def __enter__(self) -> Sentinels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accepts_failover(self) -> bool:
        try:
            self.sentinels[0].ask("SENTINEL", "FAILOVER", self.service)
        except ResponseError as error:
            if "INPROG" in str(error) or "NOGOODSLAVE" in str(error):
                return False
            raise
        return True

    def _named(self, sentinel: Sentinel) -> int:
        return int(cast(tuple[Any, Any], sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service))[1])

    def _role(self, server: Server) -> bytes:
        try:
            with server.admin() as client:
                return cast(Any, client).execute_command("ROLE")[0]
        except RedisConnectionError:  # a Sentinel cuts all connections of a server whose role it changes
            return b""

    def _complete(self, sentinel: Sentinel) -> bool:
        """Whether it knows the other two and a replica that is fit to take over."""
        copies = [_fields(copy) for copy in sentinel.ask("SENTINEL", "REPLICAS", self.service)]
        fit = [copy for copy in copies if copy["flags"] == "slave" and copy["master-link-status"] == "ok"]
        return len(fit) == 1 and len(sentinel.ask("SENTINEL", "SENTINELS", self.service)) == 2


def _fields(answer: Any) -> dict[str, str]:
    """A reply of names and values: a flat list in RESP2, a map in RESP3."""
    flat: list[Any] = (
        [part for pair in cast(dict[Any, Any], answer).items() for part in pair] if isinstance(answer, dict) else answer
    )
    words = [word.decode() if isinstance(word, bytes) else str(word) for word in flat]
    return dict(zip(words[::2], words[1::2], strict=True))
