"""How Sphinx builds these pages. `make docs` runs it; every warning is an error."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS / "extensions"), str(DOCS.parent / "src")]

from sphinx.application import Sphinx  # noqa: E402

import torch_grama.datasets  # noqa: E402
from torch_grama import __version__  # noqa: E402

for name in torch_grama.datasets.__all__:  # what loads when asked for is described too
    getattr(torch_grama.datasets, name)

project = "torch-grama"
author = "the torch-grama authors"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "drawings",
    "generated_pages",
    "mathml",
]
exclude_patterns = ["_build", "_generated"]
smartquotes_action = "qe"  # quotes and ellipses; an option keeps its two hyphens
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_mock_imports = ["ray", "optuna"]  # their part is described without them
autodoc_typehints = "none"  # the docstrings name the types
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Shapes"]


def skip_member(
    app: object, what: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Leaves out the fields of named tuples, which the text of their class explains."""
    return True if type(member).__name__ == "_tuplegetter" else None


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", skip_member)


html_theme = "furo"
html_title = f"torch-grama {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
if found := find_spec("ziamath"):  # it carries STIX Two Math, the font of the formulas
    html_static_path += [str(Path(str(found.origin)).parent / "fonts")]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "native"
