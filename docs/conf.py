"""How `make docs` builds these pages: Markdown in, HTML out, every warning an error, no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Headrace"
author = "The Headrace authors"
html_title = "Headrace"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4


def setup(app: Sphinx) -> None:
    """Diagrams stay plain text: a forge draws them, and the pages need no script from elsewhere."""
    app.add_lexer("mermaid", TextLexer)
