"""Settings and rules: the model's side, and which of them have to be refused."""

from __future__ import annotations

from typing import Any

from tests.model.jobs import chain
from tests.model.model import Model
from tests.tools.shard import Refused, Shard, attempt


def set_lane(model: Model, shard: Shard, path: str, drawn: dict[str, Any]) -> None:
    """Sets what was drawn on both sides, or sees that both refuse it."""
    settings = dict(drawn)
    if "/" in path and model.lane(path.partition("/")[0]).aging:
        settings.pop("p", None)  # see the test of priorities of lanes under aging
    if settings.get("ag", -1) != -1 and any(
        lane.prio is not None for other, lane in model.lanes.items() if other.startswith(path + "/")
    ):
        settings.pop("ag")
    expected = _refusal(model, path, settings)
    answer = attempt(lambda: shard.lane(path, **settings))
    if isinstance(answer, Refused):
        assert answer.code == expected, f"{path} {settings}: {answer}"
        return
    assert expected is None, f"{path} {settings} should be refused: {expected}"
    _apply(model, path, settings)


def _refusal(model: Model, path: str, settings: dict[str, Any]) -> str | None:
    if "ag" not in settings:
        return None
    if "/" in path:
        return "OPTION"
    placed = ("ready", "running", "parked")
    busy = any(job.status in placed for job in model.jobs.values() if path in chain(job.path))
    same = (settings["ag"] if settings["ag"] != -1 else None) == model.lane(path).aging
    return "CONFLICT" if busy and not same else None


def _apply(model: Model, path: str, settings: dict[str, Any]) -> None:
    lane = model.lane(path)
    lane.keep = "/" in path and "forget" not in settings
    given = {name: None if value == -1 else value for name, value in settings.items()}
    if "forget" in given:
        lane.cap, lane.rate, lane.prio, lane.not_before = None, None, None, 0
    lane.cap = given.get("c", lane.cap)
    lane.prio = given.get("p", lane.prio)
    lane.not_before = given.get("nb", lane.not_before) or 0
    if "rn" in given:
        lane.rate = (settings["rn"], settings["rw"]) if given["rn"] else None
    if not lane.rate:
        lane.starts = []
    if "fh" in settings:
        lane.failure_options = None if settings["fh"] == "-" else settings["fh"]
    if "ag" in given and given["ag"] != lane.aging:
        lane.aging, lane.birth = given["ag"], model.now


def set_rule(rules: dict[str, int], which: str, on: bool, until: int) -> int:
    """Sets a rule or takes it back; 1 when something changed."""
    if on:
        rules[which] = until
        return 1
    return int(rules.pop(which, None) is not None)
