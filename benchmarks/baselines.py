"""What everything is compared with: redis-py with hiredis doing next to nothing, over the same socket."""

from __future__ import annotations

from typing import Any

from benchmarks.sizes import PAYLOAD

BARE = """#!lua name=bare
redis.register_function('bare', function(keys, args)
  redis.call('SET', keys[1], args[1])
  redis.call('ZADD', keys[2], args[2], args[3])
  return 1
end)"""


def load_bare(client: Any) -> None:
    """Load the bare function: one SET and one ZADD."""
    client.function_load(BARE, replace=True)


def bare_call(client: Any, i: int) -> None:
    """One call of the bare function, with a key and a member of its own."""
    client.fcall("bare", 2, f"{{bare}}k{i}", "{bare}z", PAYLOAD, i, i)


def pipelined_sets(client: Any, n: int) -> None:
    """As many SETs of a payload, each on a key of its own, 100 in a pipeline."""
    for begin in range(0, n, 100):
        with client.pipeline(transaction=False) as pipe:
            for i in range(begin, min(begin + 100, n)):
                pipe.set(f"k{i}", PAYLOAD)
            pipe.execute()
