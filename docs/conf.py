"""How Sphinx builds the documentation: `make docs` writes it to docs/_build/html."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GALLERY = ROOT / "examples" / "gallery"
SOURCE = "https://github.com/trellis-learn/trellis/blob/main"
sys.path[:0] = [str(DOCS), str(ROOT / "src")]

from public_api import write_pages  # noqa: E402

project = "Trellis"
author = "The Trellis developers"
copyright = author
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "gallery/**/*.ipynb", "gallery/**/*.py"]
templates_path = ["_templates"]
suppress_warnings = [
    "autosummary.import_cycle",
    "config.cache",  # sphinx-gallery's configuration holds a function
]

toc_object_entries_show_parents = "hide"  # fit() in place of SequenceLabeler.fit()

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"  # the signatures say them in the source; here names and defaults are enough
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "Trellis"
html_sidebars: dict[str, list[str]] = {"index": [], "choose": []}  # pages without others below them
html_static_path = ["_static"]
html_css_files = ["trellis.css"]
html_js_files = ["trellis.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "github_url": "https://github.com/trellis-learn/trellis",
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

GALLERY_SECTIONS = ("sequences", "hidden_states", "graphs", "networks", "speech", "evaluation")
sphinx_gallery_conf = {
    "examples_dirs": str(GALLERY),
    "gallery_dirs": "gallery",
    "subsection_order": [f"../examples/gallery/{section}" for section in GALLERY_SECTIONS],
    "within_subsection_order": "FileNameSortKey",
    # what has not changed since the last build is not run again; GALLERY=0 runs nothing
    "plot_gallery": os.environ.get("GALLERY", "1") != "0",
    "reset_modules": ("matplotlib", "gallery_style.use_style"),
    "image_srcset": ["2x"],
    "capture_repr": (),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}


def adapt_page(app: Any, name: str, text: list[str]) -> None:
    """Links from a page to a script or folder of the gallery lead to its page, and those to other files
    outside docs/ to the repository."""
    page = re.sub(r"\]\((?:\.\./)+examples/(gallery[\w/]*)\.py\)", r"](/\1.rst)", text[0])
    page = re.sub(r"\]\((?:\.\./)+examples/(gallery[\w/]*)/\)", r"](/\1/index.rst)", page)
    text[0] = re.sub(r"\]\((?:\.\./)+(?=[\w.])", f"]({SOURCE}/", page)
    if name.startswith("gallery/"):  # lines of code need the room
        text[0] = f":html_theme.sidebar_secondary.remove: true\n\n{text[0]}"


def setup(app: Any) -> None:
    write_pages(DOCS / "api")
    app.connect("source-read", adapt_page)
