"""How `make docs` builds these pages: Markdown in, HTML out, every warning an error, no network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for diagrams.py

project = "Headrace"
author = "The Headrace authors"
html_title = "Headrace"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False

extensions = ["myst_parser", "diagrams"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
