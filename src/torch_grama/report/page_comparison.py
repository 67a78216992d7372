"""The table of a data set: the runs of a page beside the numbers of the paper."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from torch_grama.report.held_results import is_old
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.page_cards import name_model
from torch_grama.report.paper_numbers import list_paper_tables, read_paper_numbers
from torch_grama.runs.run_files import RunFiles

# Tables about one model's settings or its speed; the first of the others wins where two agree.
_OTHER_QUESTIONS = ("ablation", "runtime")


@dataclass(frozen=True)
class PageRow:
    r"""A row of the table.

    Attributes:
        model: The model.
        source: Where the number comes from.
        value: The test value in the unit of the table, or :obj:`None`.
        text: As printed.
        deviation: The deviation as printed, or empty.
        validation: The validation value as printed, or empty.
        parameters: The number of parameters, or :obj:`None`.
        is_ours: Whether it is a run of this page.
        note: What is known about it.
    """

    model: str
    source: str
    value: float | None
    text: str
    deviation: str = ""
    validation: str = ""
    parameters: int | None = None
    is_ours: bool = False
    note: str = ""


@dataclass(frozen=True)
class PageTable:
    r"""The numbers of one data set and metric.

    Attributes:
        data: The data set.
        heading: The metric with its unit.
        higher_is_better: Its direction.
        rows: The rows, best first.
        sentence: How the best run stands beside the paper.
        origin: The tables of the paper that its numbers come from.
    """

    data: str
    heading: str
    higher_is_better: bool
    rows: Sequence[PageRow]
    sentence: str
    origin: str


def compare_runs(runs: Sequence[RunFiles]) -> list[PageTable]:
    r"""One table for each data set and metric of finished runs.

    Args:
        runs (sequence of RunFiles): The runs.
    """
    groups: dict[tuple[str, str], list[RunFiles]] = {}
    for run in runs:
        if run.is_finished:
            groups.setdefault((run.word("data"), run.word("metric")), []).append(run)
    return [_table(data, metric, found) for (data, metric), found in groups.items()]


def _table(data: str, metric: str, runs: Sequence[RunFiles]) -> PageTable:
    scale = scale_of(metric)
    ours = [_row(run, metric) for run in runs] + _means(runs, metric)
    paper, origin = _paper(data, metric)
    sign = -1 if scale.higher_is_better else 1
    rows = sorted([*ours, *paper], key=lambda row: (row.value is None, sign * (row.value or 0)))
    unit = " (%)" if scale.factor == 100 else ""
    return PageTable(
        data,
        f"test {scale.label}{unit}",
        scale.higher_is_better,
        rows,
        _sentence(ours, paper, scale.higher_is_better),
        "; ".join(origin),
    )


def _row(run: RunFiles, metric: str) -> PageRow:
    scale = scale_of(metric)
    test, val = run.number("test"), run.number("val")
    parameters = run.number("parameters")
    value = None if test is None else scale.factor * test
    known = (("seed", run.number("seed")), ("fold", run.number("fold")))
    return PageRow(
        model=name_model(run),
        source=run.name,
        value=value,
        text="not read" if value is None else scale.text(value),
        validation="" if val is None else scale.text(scale.factor * val),
        parameters=None if parameters is None else int(parameters),
        is_ours=True,
        note=", ".join(
            [f"{name} {value:.0f}" for name, value in known if value is not None] + _age(run)
        ),
    )


def _age(run: RunFiles) -> list[str]:
    version = run.environment.get("versions.torch_grama", "")
    if not is_old(run.word("model"), version):
        return []
    return [f"made by version {version}, and the model has changed since"]


def _means(runs: Sequence[RunFiles], metric: str) -> list[PageRow]:
    r"""The mean over runs of one model, where there are several."""
    scale = scale_of(metric)
    groups: dict[str, list[float]] = {}
    for run in runs:
        test = run.number("test")
        if test is not None:
            groups.setdefault(name_model(run), []).append(scale.factor * test)
    rows = []
    for model, values in groups.items():
        if len(values) > 1:
            mean, deviation = statistics.fmean(values), statistics.stdev(values)
            rows.append(
                PageRow(
                    model,
                    f"mean of {len(values)} runs here",
                    mean,
                    scale.text(mean),
                    f"± {scale.text_of_deviation(deviation, mean)}",
                    is_ours=True,
                )
            )
    return rows


def _paper(data: str, metric: str) -> tuple[list[PageRow], list[str]]:
    scale = scale_of(metric)
    rows: dict[str, PageRow] = {}
    origin: dict[str, None] = {}
    for table in list_paper_tables():
        if table.startswith(_OTHER_QUESTIONS):
            continue
        for cell in read_paper_numbers(table):
            if (cell.data, cell.metric) != (data, metric) or cell.row in rows:
                continue
            origin[cell.table] = None
            rows[cell.row] = PageRow(
                cell.row,
                "paper",
                cell.mean,
                cell.note or "-" if cell.mean is None else scale.text(cell.mean),
                ""
                if cell.mean is None or cell.deviation is None
                else f"± {scale.text_of_deviation(cell.deviation, cell.mean)}",
                note="" if cell.mean is None else cell.note,
            )
    return list(rows.values()), list(origin)


def _sentence(ours: Sequence[PageRow], paper: Sequence[PageRow], higher: bool) -> str:
    choose = max if higher else min
    mine = [row.value for row in ours if row.value is not None]
    theirs = [row for row in paper if row.value is not None]
    if not theirs:
        return "The paper prints no number for this data set and metric."
    if not mine:
        return "No run here has read its test part yet."
    best = choose(mine)
    beaten = sum((best > row.value) == higher for row in theirs if row.value not in (None, best))
    return (
        f"The best run here is ahead of {beaten} of the {len(theirs)} numbers that the paper "
        f"prints. Those are means over several seeds or folds, with the paper's budget; a single "
        f"run is one draw."
    )
