"""The benchmarks run: every one of them, once, at sizes that say nothing about speed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.__main__ import SUITES, main
from benchmarks.figures import Figure, percentile, ratio
from benchmarks.longest import longest


def test_every_benchmark_runs_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "out" / "figures.json"
    figures = main(["--tiny", "--json", str(kept), *SUITES])
    assert set(figures) == set(SUITES)
    for name, some in figures.items():
        assert any(figure.target is not None for figure in some), f"{name} has no target"
        assert all(math.isfinite(figure.value) for figure in some), name
    shown = capsys.readouterr().out
    assert all(figure.name in shown for some in figures.values() for figure in some)
    found = json.loads(kept.read_text(encoding="utf-8"))
    assert {name: len(some) for name, some in found["figures"].items()} == {n: len(f) for n, f in figures.items()}


def test_a_verdict_follows_from_value_and_target() -> None:
    assert Figure("speed", 0.9, "x", 0.9, at_least=True).met is True
    assert Figure("speed", 0.89, "x", 0.9, at_least=True).met is False
    assert Figure("size", 290, "B", 290).met is True
    assert Figure("size", 291, "B", 290).met is False
    assert Figure("size", 291, "B").met is None
    assert "MISSED" in Figure("size", 291, "B", 290).line()
    assert "met" in Figure("size", 289, "B", 290).line()


def test_ratios_compare_neighbours_and_take_the_middle_one() -> None:
    # The machine was three times as fast in the last repetition: the ratio does not show it.
    assert ratio("r", [50, 60, 180], [100, 100, 300], 0.5).value == pytest.approx(0.6)
    assert percentile(range(1, 101), 0.99) == 100
    assert percentile([3, 1, 2], 0.5) == 2


def test_a_call_that_was_held_up_once_does_not_count_as_long() -> None:
    assert longest([[1, 2, 90], [80, 3, 4], [1, 2, 5]]) == 4
    assert longest([[1, 9], [7]]) == 7


def test_a_benchmark_that_is_unknown_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["memroy"])
    assert "no benchmark is called memroy" in capsys.readouterr().err
