"""What the house tests look at: the files of the repository, and Python files as syntax trees."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headrace"
LUA = PACKAGE / "server" / "lua"


@cache
def files() -> tuple[Path, ...]:
    """Every file that belongs to the repository: tracked, or new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


def named(*suffixes: str, under: Path = ROOT) -> list[Path]:
    """The files with one of these suffixes below a folder."""
    return [path for path in files() if path.suffix in suffixes and path.is_relative_to(under)]


def short(path: Path) -> str:
    """The path as people write it: from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def nodes(path: Path) -> Iterator[ast.AST]:
    """Every node of a Python file's syntax tree."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))


def place(path: Path, node: ast.AST) -> str:
    """`file:line` of a node."""
    return f"{short(path)}:{getattr(node, 'lineno', 1)}"


def dotted(node: ast.AST) -> str:
    """`time.monotonic` of the expression `time.monotonic`; of anything that is no such chain, what can be told."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""
