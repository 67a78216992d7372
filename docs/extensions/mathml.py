"""Formulas as MathML: browsers draw them without a script and without the network."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

# What latex2mathml does not know, in words that it knows.
_SYNONYMS = {
    r"\\boldsymbol(?=[{\\ ])": r"\\mathbf",
    r"\\lVert|\\rVert": r"\\|",
    r"\\lvert|\\rvert": "|",
    r"\\tfrac": r"\\frac",
    r"\\arg(?![a-z])": r"\\operatorname{arg}",
}
_UNKNOWN = re.compile(r"<m\w+>\\+[A-Za-z]+")

logger = logging.getLogger(__name__)


def to_mathml(formula: str, display: str) -> str:
    """Converts LaTeX; complains, as a warning, about a command that would be shown as it is."""
    if "\\begin" not in formula and ("&" in formula or r"\\" in formula):
        # the empty group keeps a bracket at the beginning from being read as an option
        formula = rf"\begin{{align*}} {{}} {formula} \end{{align*}}"
    for pattern, replacement in _SYNONYMS.items():
        formula = re.sub(pattern, replacement, formula)
    mathml: str = convert(formula, display=display)
    unknown = _UNKNOWN.search(mathml)
    if unknown:
        logger.warning("Expected LaTeX that becomes MathML (got %s in %s)", unknown[0], formula)
    return mathml


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    formula = node.astext().strip()
    translator.body.append(f'<div class="formula">{to_mathml(formula, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
