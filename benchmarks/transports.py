"""What a call costs through Headrace's transports, beside redis-py's own clients, on one server.

    python -m benchmarks.transports [calls]

Each line is the best of five rounds; the rounds of all lines take turns, so that a busy machine is busy for all.
The function does one SET and one ZADD, as the budget for `enqueue` says.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from typing import Any, cast

import redis.asyncio

from headrace import clock
from headrace.protocol.steps import Call, Effect
from headrace.server.connect import Site, open_site
from tests.tools.servers import Server

ROUNDS, TASKS, BATCH = 5, 100, 100
PAYLOAD = b"x" * 100
KEY = "{hr:0}meta"


class Probe:
    """A library of one function."""

    name = "transport_probe"
    source = f"""#!lua name={name}
redis.register_function('{name}_put', function(keys, args)
  redis.call('SET', '{{hr:0}}a', args[#args - 1])
  redis.call('ZADD', '{{hr:0}}b', 1, args[#args])
  return 1
end)"""

    def function(self, name: str) -> str:
        """Its full name."""
        return f"{self.name}_{name}"


def put(numbered: bool = True) -> Call:
    return Call("put", 0, (PAYLOAD, "member"), numbered=numbered)


def doing(effect: Effect) -> Generator[Effect, Any, Any]:
    return (yield effect)


def one_by_one(site: Site, calls: int) -> None:
    for _ in range(calls):
        site.run(doing(put()))


def in_lists(site: Site, calls: int) -> None:
    for _ in range(calls // BATCH):
        site.run(doing([put() for _ in range(BATCH)]))


def in_tasks(site: Site, calls: int) -> None:
    async def work() -> None:
        for _ in range(calls // TASKS):
            await site.arun(doing(put()))

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(TASKS)))

    asyncio.run(main())


def redis_one_by_one(client: Any, calls: int) -> None:
    name = Probe().function("put")
    for _ in range(calls):
        client.fcall(name, 1, KEY, PAYLOAD, "member")


def redis_in_pipelines(client: Any, calls: int) -> None:
    name = Probe().function("put")
    for _ in range(calls // BATCH):
        with client.pipeline(transaction=False) as pipe:
            for _ in range(BATCH):
                pipe.fcall(name, 1, KEY, PAYLOAD, "member")
            pipe.execute()


def redis_in_tasks(url: str, calls: int) -> None:
    name = Probe().function("put")

    async def work(client: Any) -> None:
        for _ in range(calls // TASKS):
            await client.fcall(name, 1, KEY, PAYLOAD, "member")

    async def main() -> None:
        async with cast(Any, redis.asyncio.Redis).from_url(url) as client:
            await asyncio.gather(*(work(client) for _ in range(TASKS)))

    asyncio.run(main())


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with Server() as server, open_site(server.unix_url, functions=Probe()) as site:
        client = server.admin()
        lines: dict[str, tuple[Callable[[], None], str]] = {
            "redis-py fcall": (lambda: redis_one_by_one(client, calls), ""),
            "Headrace, numbered call": (lambda: one_by_one(site, calls), "redis-py fcall"),
            "redis-py pipeline of 100": (lambda: redis_in_pipelines(client, calls), ""),
            "Headrace, list of 100": (lambda: in_lists(site, calls), "redis-py pipeline of 100"),
            "redis-py asyncio, 100 tasks": (lambda: redis_in_tasks(server.unix_url, calls), ""),
            "Headrace asyncio, 100 tasks": (lambda: in_tasks(site, calls), "redis-py asyncio, 100 tasks"),
        }
        one_by_one(site, 1)  # loads the library
        best = dict.fromkeys(lines, float("inf"))
        for _ in range(ROUNDS):
            for name, (run, _) in lines.items():
                started = clock.monotonic()
                run()
                best[name] = min(best[name], (clock.monotonic() - started) / calls * 1e6)
        for name, (_, rival) in lines.items():
            ratio = f"  {best[rival] / best[name]:.2f} x" if rival else ""
            print(f"{name:30} {best[name]:8.1f} us a call{ratio}")
        client.close()


if __name__ == "__main__":
    main()
