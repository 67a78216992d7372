"""The numbers that are held, beside the paper's."""

from __future__ import annotations

from pathlib import Path

from markdown_text import code, table
from torch_grama.report.held_results import HeldNumber, gather
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.paper_numbers import list_paper_tables, read_paper_numbers

RESULTS = Path(__file__).resolve().parents[2] / "results"
HEADER = ["Data", "Model", "Metric", "Validation", "Test", "Runs", "Paper", "Hardware"]


def describe_results() -> str:
    """Returns a table of all kept numbers of models, or a sentence where there are none."""
    held, faults = gather([RESULTS])
    if faults:
        raise ValueError(f"Expected readable files in 'results' (got: {faults[0]})")
    if not held:
        return "No results are kept yet.\n"
    return table(HEADER, [describe(number) for number in held])


def describe(number: HeldNumber) -> list[str]:
    """Returns the cells of one number."""
    scale = scale_of(number.metric)
    spread = "" if number.deviation is None else f" ± {scale.text(number.deviation)}"
    return [
        number.data,
        code(number.model),
        f"{scale.label} {'↑' if scale.higher_is_better else '↓'}",
        scale.text(number.validation),
        "not read" if number.mean is None else f"{scale.text(number.mean)}{spread}",
        f"{len(number.runs)}, {code(number.budget)}",
        paper_text(number),
        number.runs[0].hardware,
    ]


def paper_text(number: HeldNumber) -> str:
    """Returns what the paper prints for the same model and data."""
    if number.suite not in list_paper_tables():
        return "–"
    for printed in read_paper_numbers(number.suite):
        same = (printed.model, printed.data, printed.metric)
        if same == (number.model, number.data, number.metric) and printed.mean is not None:
            return scale_of(number.metric).text(printed.mean)
    return "–"
