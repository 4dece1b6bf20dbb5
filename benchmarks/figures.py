"""Figures, their targets and verdicts; how they are printed and kept."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from headrace import clock


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `target` is a bound from below when `at_least`, else from above; None: for information."""

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None when there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def line(self) -> str:
        """The figure as a line of the report."""
        target = "" if self.target is None else f"{'>=' if self.at_least else '<='} {number(self.target)}"
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        return f"  {self.name:<58}{number(self.value):>9} {self.unit:<5}{target:>9}  {verdict:<6}  {self.note}".rstrip()


def number(value: float) -> str:
    """A number with three digits that matter; whole ones in full."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def ratio(name: str, ours: Sequence[float], raw: Sequence[float], target: float | None, note: str = "") -> Figure:
    """The median of what ours makes of the raw baseline, repetition by repetition (both are rates)."""
    return Figure(name, median(a / b for a, b in zip(ours, raw, strict=True)), "x", target, True, note)


def spread(values: Sequence[float]) -> str:
    """All repetitions, for a note."""
    return " ".join(number(value) for value in values)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def keep(path: Path, figures: dict[str, list[Figure]], server: str) -> None:
    """Write the figures as JSON, with where and when they were measured."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    found = {name: [asdict(figure) | {"met": figure.met} for figure in some] for name, some in figures.items()}
    when = datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"measured": when, "machine": machine, "server": server, "figures": found}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")
