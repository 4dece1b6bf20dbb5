"""What the examples, the README and the guides show is run: in an empty folder, without a server, as a reader would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.shown import Shown, blocks, outputs, program, timeless

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GUIDES = [path for path in sorted((ROOT / "docs" / "guides").glob("*.md")) if blocks(path)]
README = blocks(ROOT / "README.md")


def run(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The program's end, run with an environment that names no server."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    command = [sys.executable, "-W", "error", str(program)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def check(shown: list[Shown], folder: Path) -> None:
    """Run blocks as one program in a folder: each prints what is shown below it, and nothing where nothing is."""
    file = folder / "program.py"
    file.write_text(program(shown), encoding="utf-8")
    done = run(file, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = outputs(done.stdout)
    assert [timeless(text) for text in printed] == [timeless(block.output) for block in shown]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_in_an_empty_folder(example: Path, tmp_path: Path) -> None:
    done = run(example, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), "an example shows something"


@pytest.mark.parametrize("number", range(len(README)))
def test_readme_program_prints_what_is_shown(number: int, tmp_path: Path) -> None:
    check([README[number]], tmp_path)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_guide_prints_what_is_shown(guide: Path, tmp_path: Path) -> None:
    check(blocks(guide), tmp_path)


def test_there_are_programs_to_run() -> None:
    assert EXAMPLES
    assert len(README) >= 2
    assert {guide.stem for guide in GUIDES} >= {"quickstart", "queues", "lanes", "failures", "shards", "operating"}
