"""How `make docs` builds these pages: Markdown in, HTML out, every warning an error, no network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the extensions beside this file

project = "Headrace"
author = "The Headrace authors"
html_title = "Headrace"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "diagrams", "layout", "reference"]
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
default_role = "code"  # in docstrings, as in these pages
add_module_names = False
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
