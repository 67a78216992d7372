"""The words for the forms in which a comparison can be had."""

from __future__ import annotations

from collections.abc import Callable

from torch_grama.report.comparison import Comparison
from torch_grama.report.comparison_page import to_html
from torch_grama.report.comparison_text import to_csv, to_latex, to_markdown, to_text

FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
    "html": to_html,
}
