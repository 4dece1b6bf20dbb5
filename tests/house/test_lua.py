"""The rules of the function library's sources, as far as they can be read off the text."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.repo import LUA, named, short

SOURCES = named(".lua", under=LUA)
FORBIDDEN = {
    r"call\(\s*['\"](?i:keys|scan|randomkey|flushall|flushdb|script|eval)['\"]": "walks the keyspace, or empties it",
    r"math\.random": "claim ids come from the caller and a server sequence",
    r"os\.(time|clock|date)": "the server's TIME is the only clock",
    r"\bloadstring\b|\bload\(": "text is never run",
}


def header(path: Path) -> str:
    """The comment that a file opens with."""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.lstrip("- "))
    return "\n".join(lines)


def test_every_file_opens_with_a_header() -> None:
    silent = [short(path) for path in SOURCES if len(header(path)) < 30]
    assert not silent, f"the first lines say what the file does, as comments: {silent}"


def test_a_transition_says_what_goes_in_and_out() -> None:
    for path in SOURCES:
        if path.parent == LUA:
            says = header(path).lower()
            missing = [word for word in ("keys", "arg", "repl", "event") if word not in says]
            assert not missing, f"the header of {short(path)} names keys, arguments, reply and events; no {missing}"


def test_no_line_is_too_long() -> None:
    long = [
        f"{short(path)}:{i}"
        for path in SOURCES
        for i, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert not long, f"lines of at most 120 characters: {long}"


def test_no_file_does_what_is_forbidden() -> None:
    for path in SOURCES:
        code = "\n".join(line.split("--", 1)[0] for line in path.read_text(encoding="utf-8").splitlines())
        for pattern, why in FORBIDDEN.items():
            assert not re.search(pattern, code), f"{short(path)}: {pattern} ({why})"
