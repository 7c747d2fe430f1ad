"""Sphinx settings of the documentation; `scripts/build-docs` builds it."""

from importlib.metadata import version as version_of
from typing import Any

project = "unswayed"
author = "the unswayed developers"
release = version_of("unswayed")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["conf.py"]
nitpick_ignore_regex = [(".*", ".*")]  # types of other packages have no pages here

myst_heading_anchors = 4  # a link to a heading that is not there is a warning
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "signature"
autodoc_preserve_defaults = True  # as they are written: a lambda has no other text
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_inherit_docstrings = False
napoleon_google_docstring = False
napoleon_attr_annotations = False  # signatures have them

smartquotes = False  # --option stays as it is typed

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"unswayed {release}"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which browsers refuse for local files


def setup(app: Any) -> None:
    """Let signatures of dataclasses be parsed, so that names of types are short."""
    app.connect("autodoc-process-signature", _without_factories)


def _without_factories(*event: Any) -> tuple[str | None, str | None]:
    signature, returned = event[-2:]
    return signature and signature.replace("<factory>", "..."), returned
