"""Fetching ahead: only from lanes that nothing limits or prefers (E10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.shard import Ask, Shard, Want

AHEAD = Want(2, ahead=3)


def test_plain_work_is_fetched_ahead(shard: Shard) -> None:
    shard.enqueue("q", [Ask(str(i), lane="x") for i in range(9)])
    assert len(shard.claim(AHEAD).jobs) == 5


@pytest.mark.parametrize("path", ["q", "q/g", "q/g/x"])
@pytest.mark.parametrize("settings", [{"c": 9}, {"rn": 9, "rw": 1_000}, {"p": 50}], ids=["cap", "rate", "priority"])
def test_limited_or_preferred_work_is_not(shard: Shard, path: str, settings: dict[str, Any]) -> None:
    shard.lane(path, **settings)
    shard.enqueue("q", [Ask(str(i), lane="g/x") for i in range(9)])
    assert len(shard.claim(AHEAD).jobs) == 2
    assert len(shard.claim(AHEAD).jobs) == 2


def test_behind_limited_work_plain_work_fills_up(shard: Shard) -> None:
    shard.lane("q/capped", c=1)
    shard.enqueue("q", [Ask(f"capped-{i}", lane="capped", prio=90) for i in range(2)])
    shard.enqueue("q", [Ask(str(i)) for i in range(9)])
    assert shard.claim(AHEAD).ids == ["capped-0", "0", "1", "2", "3"]
