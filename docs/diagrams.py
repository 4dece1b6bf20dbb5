"""Draws the state diagrams of these pages as SVG while they are built: no script to fetch, and readable in any theme.

A forge draws the Mermaid text by itself. Here, each arrow is a line of its own: where from, who, where to.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes
from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ARROW = re.compile(r"\s*(\S+)\s*-->\s*(\S+?)\s*:\s*(.+)")
_WIDTH, _BOX, _ROW, _GAP, _DOT = 730, 96, 34, 12, "[*]"
_STYLE = "font: 13px sans-serif; width: 100%; height: auto; color: var(--color-foreground-primary, currentColor)"


def arrows(text: str) -> list[tuple[str, str, str]]:
    """Source, target and label of each arrow of a Mermaid state diagram."""
    found = [_ARROW.fullmatch(line) for line in text.splitlines()]
    return [(m[1], m[2], m[3].strip()) for m in found if m]


def drawn(text: str) -> str:
    """The diagram as SVG: a box for each status an arrow starts from, its arrows beside it."""
    parts: list[str] = []
    y, before = 0, ""
    for source, target, label in arrows(text):
        if source != before:
            y += _GAP if before else 0
            parts.append(_state(source, 1, y))
            before = source
        parts += [_line(label, y + _ROW // 2), _state(target, _WIDTH - _BOX - 1, y)]
        y += _ROW
    defs = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="currentColor"/></marker></defs>'
    )
    return f'<svg viewBox="0 0 {_WIDTH} {y}" style="{_STYLE}" role="img">{defs}{"".join(parts)}</svg>'


def _state(name: str, x: int, y: int) -> str:
    middle, centre = y + _ROW // 2, x + _BOX // 2
    if name == _DOT:
        return f'<circle cx="{centre}" cy="{middle}" r="6" fill="currentColor"/>'
    box = f'<rect x="{x}" y="{middle - 12}" width="{_BOX}" height="24" rx="6" fill="none" stroke="currentColor"/>'
    return box + f'<text x="{centre}" y="{middle + 4}" text-anchor="middle" fill="currentColor">{escape(name)}</text>'


def _line(label: str, middle: int) -> str:
    start, end = _BOX + 8, _WIDTH - _BOX - 8
    line = f'<path d="M{start} {middle + 6}H{end}" stroke="currentColor" opacity=".6" marker-end="url(#tip)"/>'
    return line + f'<text x="{start + 8}" y="{middle + 1}" fill="currentColor">{escape(label)}</text>'


def _replace(app: Sphinx, tree: nodes.document) -> None:
    if app.builder.format != "html":
        return
    for block in list(tree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", drawn(block.astext()), format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Used by `conf.py`; where it does not draw, the text stays as it is."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("doctree-read", _replace)
    return {"parallel_read_safe": True}
