"""The documents point at things that exist, and the README shows running code early."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace
from headrace import errors
from tests.house.repo import ROOT, named, short

DOCUMENTS = named(".md")
FENCE = re.compile(r"^(```|~~~).*?^\1", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"`((?:tests|src|examples|benchmarks|docs|tools)/[\w./-]+)((?:::\w+)*)`")


def prose(path: Path) -> str:
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The headings of a document, as the fragments that link to them."""
    headings = re.findall(r"^#+ +(.+)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead(path: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return False
    name, _, fragment = target.partition("#")
    file = (path.parent / name).resolve() if name else path
    return not file.exists() or bool(fragment and file.suffix == ".md" and fragment not in anchors(file))


@pytest.mark.parametrize("path", DOCUMENTS, ids=short)
def test_links_resolve(path: Path) -> None:
    assert [target for target in LINK.findall(prose(path)) if dead(path, target)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=short)
def test_named_files_and_tests_exist(path: Path) -> None:
    missing: list[str] = []
    for name, selectors in TEST.findall(prose(path)):
        file = ROOT / name
        if not file.exists():
            missing.append(name)
            continue
        for selector in filter(None, selectors.split("::")):
            if not re.search(rf"(def|class) {selector}\b", file.read_text(encoding="utf-8")):
                missing.append(f"{name}::{selector}")
    assert not missing


def test_readme_runs_code_within_30_lines() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "```python" in lines[:30]


def test_decision_records_are_numbered_and_whole() -> None:
    records = named(".md", under=ROOT / "docs" / "decisions")
    numbers = [path.name[:4] for path in records if path.name != "index.md"]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    for path in records:
        if path.name != "index.md":
            text = path.read_text(encoding="utf-8")
            missing = [part for part in ("## Context", "## Decision", "## Consequence") if part not in text]
            assert not missing, f"{short(path)}: {missing}"


def test_the_reference_names_everything_public() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    tree = {name for name in headrace.__all__ if name in (errors.__doc__ or "")}
    assert {name for name in headrace.__all__ if f"headrace.{name}" not in text} <= tree
    assert "error-tree" in text
