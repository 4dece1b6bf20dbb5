"""Random calls on a real server against the model: 15,000 steps, the same ones each time.

`HEADRACE_MODEL_STEPS=1000000` runs more, and other ones each time; a failure prints the calls that lead to it.
"""

from __future__ import annotations

import os
from typing import Any, cast

import redis
from hypothesis import HealthCheck, settings
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
    with client:
        run_state_machine_as_test(cast(Any, lambda: _engine(client)), settings=chosen)


def _engine(client: redis.Redis) -> Engine:
    engine = Engine()
    engine.client = client
    return engine
