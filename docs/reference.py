"""Puts the reference together while these pages are built: from signatures, docstrings, and the table of options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import headrace
from headrace import errors
from headrace.protocol.options import DEFAULT_NAMES, SPECS, JobOptions
from headrace.queues.settings import LaneSettings

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: made by others of these classes, never by hand: how, is not of interest
_HANDLES = ("Queue", "Lane", "TaskRules", "Job", "Claim")
#: for the rooms above the queues
_INTERNAL = {"engine", "at_site", "end", "size", "shard", "key"}
_DEFAULTS = {
    "id": "generated",
    "run_at": "now",
    "priority": "`50`",
    "lane": "none",
    "task": "none",
    "if_exists": "`'update'`",
    "update_data": "`True`",
    "update_run_at": "`True`",
    "reset_counts": "as `update_data`",
}
_LANES = {"priority": "that of its jobs", "weight": "`1`", "quantum": "`4`"}


def _type(annotation: Any) -> str:
    """The text of an annotation in a TypedDict."""
    return annotation.__forward_arg__


def _default(name: str) -> str:
    """An option's default as people write it: seconds, None."""
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    if name not in SPECS:
        return "`True` where the call names the option" if name.startswith("update_") else "`None`"
    value = SPECS[name].default
    if value == -1 or value is None:
        return "`None`"
    return f"`{value / 1000:g}`" if "Duration" in _type(JobOptions.__annotations__[name]) else f"`{value}`"


class _Table(Directive):
    """A table in reStructuredText, made here."""

    def rows(self) -> list[tuple[str, ...]]:
        """The head and the rows."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """The parsed table."""
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in self.rows():
            lines += [("   * - " if i == 0 else "     - ") + cell for i, cell in enumerate(row)]
        holder: Any = nodes.container()
        self.state.nested_parse(StringList(lines, source="reference.py"), 0, holder)
        return list(holder.children)


class JobOptionsTable(_Table):
    """Name, type and default of every option of an enqueue."""

    def rows(self) -> list[tuple[str, ...]]:
        """One an option; those that a queue can preset are marked."""
        rows = [("option", "type", "default", "preset by a queue")]
        for name, kind in JobOptions.__annotations__.items():
            preset = "yes" if name in DEFAULT_NAMES else ""
            rows.append((f"`{name}`", f"`{_type(kind)}`", _default(name), preset))
        return rows


class LaneSettingsTable(_Table):
    """Name and type of every setting of a lane."""

    def rows(self) -> list[tuple[str, ...]]:
        """One a setting."""
        rows = [("setting", "type", "usual")]
        for name, kind in LaneSettings.__annotations__.items():
            rows.append((f"`{name}`", f"`{_type(kind)}`", _LANES.get(name, "none")))
        return rows


class ErrorTree(Directive):
    """The tree of all errors, as their module draws it."""

    def run(self) -> list[nodes.Node]:
        """A block of text."""
        text = (errors.__doc__ or "").partition("\n\n")[2].rstrip()
        return [nodes.literal_block(text, text, language="text")]


#: what autodoc takes apart, and how it is written in the code
_WRITTEN = [
    (re.compile(r": ~?(?:\w+\.)*Unpack\[~?[\w.]+\]"), ""),
    (re.compile(r"~?datetime\.datetime \| float \| int"), "Time"),
    (re.compile(r"~?datetime\.timedelta \| float \| int"), "Duration"),
    (re.compile(r"<factory>"), "{}"),
]
_STEPS = re.compile(r"~?(?:\w+\.)*Generator\[.* \| [\w.~]*Command, ~?(?:typing\.)?Any, (.*)\]")


def _signature(app: Sphinx, what: str, name: str, *more: Any) -> tuple[str | None, str | None]:
    """Types as people write them; an operation is written as steps, and answers what these end with."""
    signature, returns = more[-2:]
    if what == "class" and name.rpartition(".")[2] in _HANDLES:
        return "", None
    for pattern, text in _WRITTEN:
        signature = signature and pattern.sub(text, signature)
    return signature, returns and _STEPS.sub(r"\1", returns)


def _docstring(app: Sphinx, what: str, name: str, *more: Any) -> None:
    """Values in quotes are code: no curled quotes around them."""
    lines: list[str] = more[-1]
    for i, line in enumerate(lines):
        parts = re.split(r"(`[^`]*`)", line)
        parts[::2] = [re.sub(r"""("[^"]*"|'')""", r"`\1`", part) for part in parts[::2]]
        lines[i] = "".join(parts)


def _skip(app: Sphinx, what: str, name: str, *more: Any) -> bool | None:
    """Leave out the asynchronous twins, of which the page says that there are, and what is for the rooms above."""
    return True if name in _INTERNAL or name in _twins() else None


def _twins() -> set[str]:
    """The names of all asynchronous methods that have a plain one."""
    names = {name for kind in (headrace.Headrace, headrace.Queue, headrace.Job, headrace.Claim) for name in dir(kind)}
    return {"a" + name for name in names} & names


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("job-options", JobOptionsTable)
    app.add_directive("lane-settings", LaneSettingsTable)
    app.add_directive("error-tree", ErrorTree)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
