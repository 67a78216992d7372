"""The influence range of every model of a page, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_grama.report.figure_parts import number
from torch_grama.report.number_lists import mapping_of
from torch_grama.report.reach_figures import series_of
from torch_grama.runs.run_files import RunFiles, as_number


@dataclass(frozen=True)
class ReachRow:
    r"""A row of the table.

    Attributes:
        model: The model.
        reach: Its influence range in hops, or :obj:`None`.
        text: As printed, with the confidence interval.
        method: Whether it is exact.
    """

    model: str
    reach: float | None
    text: str
    method: str


def reach_rows(runs: Sequence[RunFiles]) -> list[ReachRow]:
    r"""One row for each model whose influence was measured.

    Args:
        runs (sequence of RunFiles): The runs.
    """
    rows = []
    for run in runs:
        for name, value in mapping_of(run.analysis.get("influence")).items():
            entry = mapping_of(value)
            reach = as_number(entry.get("influence_range"))
            error = as_number(entry.get("influence_range_error"))
            samples = as_number(entry.get("num_samples"))
            exact = entry.get("exact") is True
            rows.append(
                ReachRow(
                    series_of(run, name, len(runs) > 1),
                    reach,
                    number(reach) + ("" if error is None else f" ± {number(error, 2)}"),
                    "exact" if exact else f"{number(samples)} sampled nodes a graph",
                )
            )
    return rows
