"""Random calls on a real server against the model: 15,000 steps, the same ones each time.

`HEADRACE_MODEL_STEPS=1000000` runs more, and other ones each time: it prints its seed, and HEADRACE_MODEL_SEED repeats
it. A failure prints the fewest calls that lead to it.
"""

from __future__ import annotations

import os
import random
from typing import Any, cast

import redis
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Engine
from tests.tools.servers import Server

STEPS_OF_ONE = 50


def test_the_engine_does_what_the_model_says(valkey: Server) -> None:
    asked = os.environ.get("HEADRACE_MODEL_STEPS")
    steps = int(asked or 15_000)
    chosen = settings(
        max_examples=max(1, steps // STEPS_OF_ONE),
        stateful_step_count=STEPS_OF_ONE,
        deadline=None,
        database=None,
        derandomize=asked is None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    client: redis.Redis = valkey.admin()

    def engine() -> Engine:
        made = Engine()
        made.client = client
        return made

    if asked:
        number = int(os.environ.get("HEADRACE_MODEL_SEED") or random.randrange(1 << 32))
        print(f"{steps} steps; HEADRACE_MODEL_SEED={number}")
        seed(number)(engine)
    with client:
        run_state_machine_as_test(cast(Any, engine), settings=chosen)
