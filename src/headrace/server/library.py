"""The function library: its Lua files put together into one text, named by the hash of that text.

Each file in `lua/` is one function: its body sees `keys` and `args`, and its header says what flags it needs.
The files in `lua/shared/` come before them, in the order of their names. `00_clock_server.lua` and
`00_clock_test.lua` are the only difference between the library that serves and the one that tests use.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FLAGS = re.compile(r"^-- Flags: *(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Library:
    """One version of the server's functions."""

    name: str
    prefix: str
    source: str
    functions: tuple[str, ...]

    def function(self, name: str) -> str:
        """The name under which the server knows a function of this version."""
        return self.prefix + name


def _transition(name: str, text: str) -> str:
    found = _FLAGS.search(text)
    flags = [flag for flag in (found.group(1) if found else "").replace(",", " ").split() if flag != "none"]
    quoted = ", ".join(f"'{flag}'" for flag in flags)
    return (
        f"redis.register_function{{function_name = '@PREFIX@{name}', flags = {{ {quoted} }},\n"
        f"callback = function(keys, args)\n{text}\nend}}\n"
    )


@cache
def library(test_clock: bool = False) -> Library:
    """The library that serves, or with `test_clock` the one whose time a test may set."""
    root = files("headrace.server") / "lua"
    unused = "00_clock_server.lua" if test_clock else "00_clock_test.lua"
    shared = sorted(f.name for f in (root / "shared").iterdir() if f.name.endswith(".lua") and f.name != unused)
    names = sorted(f.name for f in root.iterdir() if f.name.endswith(".lua"))
    parts = [(root / "shared" / name).read_text("utf-8") for name in shared]
    parts += [_transition(name.removesuffix(".lua"), (root / name).read_text("utf-8")) for name in names]
    text = "\n".join(parts)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    prefix = f"hr_{digest}_"
    source = f"#!lua name=headrace_{digest}\n" + text.replace("@PREFIX@", prefix)
    functions = tuple(name.removesuffix(".lua") for name in names)
    return Library(f"headrace_{digest}", prefix, source, functions)
