"""What no source file of the package does, whatever room it is in."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.repo import PACKAGE, dotted, named, nodes, place, short

CLOCKS = re.compile(
    r"^time\.(time|monotonic|perf_counter|process_time|thread_time)(_ns)?$|^time\.(gmtime|localtime|strftime|ctime)$"
    r"|(^|\.)(datetime|date)\.(now|utcnow|today)$"
)
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"}
UNSAFE_CALLS = {"eval", "exec", "builtins.eval", "builtins.exec", "yaml.load", "yaml.unsafe_load"}
# The braces of a hash tag around a value: f"{{{tag}}}..." or "{%s}..." or "{" + tag.
HASH_TAG = re.compile(r"\{$|^\}|\{%s\}|\{\{\}\}")


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or ""]
    return []


def clock_reads(path: Path) -> list[str]:
    found: list[str] = []
    for node in nodes(path):
        direct = isinstance(node, ast.ImportFrom) and node.module == "time" and [alias.name for alias in node.names]
        if direct and direct != ["sleep"]:
            found.append(f"{place(path, node)} from time import {', '.join(direct)}")
        if isinstance(node, ast.Import) and any(alias.name == "time" and alias.asname for alias in node.names):
            found.append(f"{place(path, node)} {ast.unparse(node)}: under another name it is not seen")
        if isinstance(node, ast.Attribute) and CLOCKS.search(dotted(node)):
            found.append(f"{place(path, node)} {dotted(node)}")
        if isinstance(node, ast.Call) and re.search(r"loop(\(\))?\.time$", ast.unparse(node.func)):
            found.append(f"{place(path, node)} {ast.unparse(node)}")
    return found


def test_only_one_file_reads_a_clock() -> None:
    found = [read for path in named(".py", under=PACKAGE) if path != PACKAGE / "clock.py" for read in clock_reads(path)]
    assert not found, f"read the clock through headrace.clock: {found}"
    assert clock_reads(PACKAGE / "clock.py"), "the check itself sees nothing any more"


def key_names(path: Path) -> list[str]:
    found: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            if any(isinstance(part, str) and HASH_TAG.search(part) for part in parts):
                found.append(f"{place(path, node)} {ast.unparse(node)}")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            for side in (node.left, node.right):
                if isinstance(side, ast.Constant) and isinstance(side.value, str) and HASH_TAG.search(side.value):
                    found.append(f"{place(path, node)} {ast.unparse(node)}")
    return found


def test_key_names_are_built_in_one_place() -> None:
    keys = PACKAGE / "protocol" / "keys.py"
    found = [name for path in named(".py", under=PACKAGE) if path != keys for name in key_names(path)]
    assert not found, f"build key names in protocol/keys.py: {found}"
    assert key_names(keys), "the check itself sees nothing any more"


def test_nothing_is_unpickled_or_evaluated() -> None:
    found: list[str] = []
    for path in named(".py", under=PACKAGE):
        for node in nodes(path):
            unsafe = [name for name in imported(node) if name.split(".")[0] in UNSAFE_MODULES]
            found += [f"{place(path, node)} import {name}" for name in unsafe]
            if isinstance(node, ast.Call) and dotted(node.func) in UNSAFE_CALLS:
                found.append(f"{place(path, node)} {dotted(node.func)}()")
    assert not found, f"data is only ever decoded, never run: {found}"


def test_no_room_imports_the_public_namespace() -> None:
    """The namespace imports the rooms; a room that imported it back would stand above itself."""
    rooms = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    found: list[str] = []
    for path in named(".py", under=PACKAGE):
        if path.is_relative_to(PACKAGE / "cli"):
            continue
        for node in nodes(path):
            whole = isinstance(node, ast.Import) and "headrace" in imported(node)
            names = {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else set[str]()
            if whole or (imported(node) == ["headrace"] and names - rooms):
                found.append(f"{place(path, node)} {ast.unparse(node)}")
    assert not found, f"import from the module that defines it: {found}"


def test_every_room_says_what_lives_there() -> None:
    silent: list[str] = []
    for path in named(".py", under=PACKAGE):
        if path.name == "__init__.py":
            says = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            if len(says) < 40:
                silent.append(short(path))
    assert not silent, f"no docstring, or hardly one: {silent}"


def test_every_module_has_a_docstring() -> None:
    silent = [
        short(path)
        for path in named(".py")
        if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent, f"say in one sentence what the file is for: {silent}"
