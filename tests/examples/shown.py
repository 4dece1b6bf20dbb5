"""The programs that documents show, and what they say that these print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", flags=re.MULTILINE | re.DOTALL)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
_END: Final = "-- end of a block --"


@dataclass(frozen=True, slots=True)
class Shown:
    """One block of Python, and the block of text right below it: what it prints."""

    code: str
    output: str


def blocks(document: Path) -> list[Shown]:
    """The Python blocks of a document, in order."""
    found = _BLOCK.findall(document.read_text(encoding="utf-8"))
    return [Shown(code, output) for code, output in found]


def program(shown: list[Shown]) -> str:
    """The blocks as one program, which marks where the output of each ends."""
    return "".join(f"{block.code}\nprint({_END!r}, flush=True)\n" for block in shown)


def outputs(printed: str) -> list[str]:
    """What each block of a program printed."""
    return printed.split(_END + "\n")[:-1]


def timeless(text: str) -> str:
    """Text in which all moments look alike: the one thing that differs between two runs of a document's programs."""
    return _MOMENT.sub("0000-00-00 00:00:00 UTC", text).rstrip()
