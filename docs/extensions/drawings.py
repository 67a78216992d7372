"""The directive ``drawing``: a figure that the library drew, in the colours of the reader's theme.

:::{drawing} poles
:alt: What is to be seen.

The caption.
:::
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from figures.gallery import draw_all, figure_file
from figures.ink import INKS

FOLDER = Path("_generated") / "figures"


class Drawing(SphinxDirective):
    """One figure with two images, of which the theme shows one."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if not self.options.get("alt"):
            raise self.error(f"Expected ':alt:' to say what is to be seen in '{name}' (got none)")
        figure = nodes.figure("", align="center")
        for ink in INKS:
            uri = f"/{figure_file(FOLDER, name, ink).as_posix()}"
            relative, _ = self.env.relfn2path(uri)
            figure += nodes.image(
                "", uri=relative, alt=self.options["alt"], classes=[f"only-{ink.theme}"]
            )
        caption = nodes.caption()
        parsed = self.parse_content_to_nodes()
        for paragraph in parsed:
            caption += paragraph.children if isinstance(paragraph, nodes.paragraph) else paragraph
        if parsed:
            figure += caption
        return [figure]


def draw_figures(app: Sphinx) -> None:
    """Draws what is missing, or older than the file that draws it."""
    draw_all(Path(app.srcdir) / FOLDER)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("drawing", Drawing)
    app.connect("builder-inited", draw_figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
