"""Lets long names in tables break after a slash, a colon or an underscore: without blanks, they pushed all else out."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LONG = 30


def broken(name: str) -> str:
    """The name as HTML, with places where a line may end; what is copied from the page has none of them."""
    return re.sub(r"(/|::|_)(?=\w)", r"\1<wbr>", escape(name))


def _let_break(app: Sphinx, doctree: Any) -> None:
    if app.builder.format != "html":
        return
    for table in doctree.findall(nodes.table):
        for literal in list(table.findall(nodes.literal)):
            text: str = literal.astext()
            if len(text) > _LONG and " " not in text:
                html = f'<code class="docutils literal notranslate">{broken(text)}</code>'
                literal.replace_self(nodes.raw("", html, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", _let_break)
    return {"parallel_read_safe": True}
