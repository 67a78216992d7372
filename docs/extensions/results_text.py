"""The numbers that are held, beside the paper's."""

from __future__ import annotations

import re

from markdown_text import code, table
from torch_grama.report.held_results import HeldNumber, explain_old, find_paper_number, gather
from torch_grama.report.pair_table import SUITE, kept_pairs, to_markdown
from torch_grama.reproduce.suite import RESULTS, find_configs, find_suite

HEADER = ["Data", "Model", "Metric", "Validation", "Test", "Runs", "Paper", "Hardware"]


def describe_results() -> str:
    """Returns the table of matched pairs and one of all kept numbers."""
    held, faults = gather([RESULTS])
    if faults:
        raise ValueError(f"Expected readable files in 'results' (got: {faults[0]})")
    if not held:
        return "No results are kept yet.\n"
    lines = kept_pairs(find_suite(SUITE, find_configs(None)).pairs(), held)
    text = table(HEADER, [describe(number) for number in held])
    parts = ["## Matched pairs", "", to_markdown(lines)]
    parts += ["## All numbers", "", text, explain_old(held)]
    # a number and its error stay on one line
    return re.sub(" ([±/]) ", "\u00a0\\1\u00a0", "\n".join(parts))


def describe(number: HeldNumber) -> list[str]:
    """Returns the cells of one number."""
    scale = number.scale
    return [
        number.data,
        code(number.model),
        f"{scale.label} {scale.arrow}",
        scale.text(number.validation),
        number.text or "not read",
        f"{len(number.runs)}, {code(number.budget)}",
        paper_text(number),
        number.runs[0].hardware,
    ]


def paper_text(number: HeldNumber) -> str:
    """Returns what the paper prints for the same model and data."""
    printed = find_paper_number(number.suite, number.data, number.model, number.metric)
    if printed is None or printed.mean is None:
        return "–"
    return number.scale.text(printed.mean)
