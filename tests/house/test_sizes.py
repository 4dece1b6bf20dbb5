"""A file is one thought: short enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from tests.house.repo import PACKAGE, named, nodes, place, short

LONGEST = 500
MEDIAN = 120
SCREEN = 60


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_file_is_too_long() -> None:
    too_long = {short(path): lines(path) for path in named(".py", ".lua") if lines(path) > LONGEST}
    assert not too_long, f"over {LONGEST} lines: {too_long}"


@pytest.mark.parametrize("suffix", [".py", ".lua"])
def test_most_files_are_short(suffix: str, record_property: Callable[[str, object], None]) -> None:
    sizes = sorted(lines(path) for path in named(suffix, under=PACKAGE))
    middle = median(sizes) if sizes else 0
    record_property(f"median{suffix}", middle)
    print(f"{len(sizes)} {suffix} files: median {middle} lines, longest {sizes[-1:]}")
    assert middle <= MEDIAN


def test_functions_fit_a_screen() -> None:
    too_long: dict[str, int] = {}
    for path in named(".py", under=PACKAGE):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > SCREEN:
                    too_long[f"{place(path, node)} {node.name}"] = size
    assert not too_long, f"over {SCREEN} lines: {too_long}"
