"""The tables of a page: runs beside the numbers of the paper, and settings beside each other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch_grama.report.held_results import is_old
from torch_grama.report.metric_scale import MetricScale, scale_of
from torch_grama.report.page_cards import name_model
from torch_grama.report.paper_numbers import list_paper_tables, read_paper_numbers
from torch_grama.runs.result import deviation
from torch_grama.runs.run_files import RunFiles

# Tables about one model's settings or its speed; the first of the others wins where two agree.
_OTHER_QUESTIONS = ("ablation", "runtime")


@dataclass(frozen=True)
class PageRow:
    r"""A row of the table of a data set."""

    model: str  #: the model
    source: str  #: where the number comes from
    value: float | None  #: the test value in the unit of the table, or :obj:`None`
    text: str  #: as printed
    deviation: str = ""  #: the deviation as printed, or empty
    validation: str = ""  #: the validation value as printed, or empty
    parameters: int | None = None  #: the number of parameters, or :obj:`None`
    is_ours: bool = False  #: whether it is a run of this page
    note: str = ""  #: what is known about it


@dataclass(frozen=True)
class PageTable:
    r"""The numbers of one data set and metric."""

    data: str  #: the data set
    scale: MetricScale  #: how its metric is printed
    rows: Sequence[PageRow]  #: the rows, best first
    sentence: str  #: how the best run stands beside the paper; empty if that has no number
    origin: str  #: the tables of the paper that its numbers come from


def compare_runs(runs: Sequence[RunFiles]) -> list[PageTable]:
    r"""One table for each data set and metric of finished runs that can be compared."""
    groups: dict[tuple[str, str], list[RunFiles]] = {}
    for run in runs:
        if run.is_finished:
            groups.setdefault((run.word("data"), run.word("metric")), []).append(run)
    tables = [_table(data, metric, found) for (data, metric), found in groups.items()]
    return [table for table in tables if len(table.rows) > 1]


def setting_rows(
    runs: Sequence[RunFiles], part: Literal["settings", "environment"]
) -> list[tuple[str, list[str], bool]]:
    r"""Lays the settings of runs side by side, or their environments: the name of each, its value
    in each run, empty where a run has none, and whether the runs differ; those that do come first.
    """
    texts = [run.settings if part == "settings" else run.environment for run in runs]
    rows = []
    for name in dict.fromkeys(name for own in texts for name in own):
        values = [own.get(name, "") for own in texts]
        rows.append((name, values, len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row[2])


def _table(data: str, metric: str, runs: Sequence[RunFiles]) -> PageTable:
    scale = scale_of(metric)
    ours = [_row(run, scale) for run in runs] + _means(runs, scale)
    paper, origin = _paper(data, metric)
    sign = -1 if scale.higher_is_better else 1
    rows = sorted([*ours, *paper], key=lambda row: (row.value is None, sign * (row.value or 0)))
    return PageTable(data, scale, rows, _sentence(ours, paper, scale), "; ".join(origin))


def _row(run: RunFiles, scale: MetricScale) -> PageRow:
    test, val, parameters = map(run.number, ("test", "val", "parameters"))
    notes = [(name, run.number(name)) for name in ("seed", "fold")]
    words = [f"{name} {value:.0f}" for name, value in notes if value is not None]
    version = run.environment.get("versions.torch_grama", "")
    if is_old(run.word("model"), version):
        words.append(f"made by version {version}, and the model has changed since")
    return PageRow(
        model=name_model(run),
        source=run.name,
        value=None if test is None else scale.factor * test,
        text="not read" if test is None else scale.text(scale.factor * test),
        validation="" if val is None else scale.text(scale.factor * val),
        parameters=None if parameters is None else int(parameters),
        is_ours=True,
        note=", ".join(words),
    )


def _means(runs: Sequence[RunFiles], scale: MetricScale) -> list[PageRow]:
    r"""The mean over runs of one model, where there are several."""
    groups: dict[str, list[float]] = {}
    for run in runs:
        test = run.number("test")
        if test is not None:
            groups.setdefault(name_model(run), []).append(scale.factor * test)
    rows = []
    for model, values in groups.items():
        if len(values) > 1:
            source, mean = f"mean of {len(values)} runs here", statistics.fmean(values)
            spread = _spread(scale, mean, deviation(values))
            rows.append(PageRow(model, source, mean, scale.text(mean), spread, is_ours=True))
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
            row = PageRow(cell.row, "paper", None, cell.note or "-")
            if cell.mean is not None:
                spread = _spread(scale, cell.mean, cell.deviation)
                text = scale.text(cell.mean)
                row = PageRow(cell.row, "paper", cell.mean, text, spread, note=cell.note)
            rows[cell.row] = row
    return list(rows.values()), list(origin)


def _spread(scale: MetricScale, mean: float, deviation: float | None) -> str:
    return "" if deviation is None else f"± {scale.text_of_deviation(deviation, mean)}"


def _sentence(ours: Sequence[PageRow], paper: Sequence[PageRow], scale: MetricScale) -> str:
    theirs = [row.value for row in paper if row.value is not None]
    best = scale.best(row.value for row in ours if row.value is not None)
    if not theirs:
        return ""
    if best is None:
        return "No run here has read its test part yet."
    beaten = sum((best > value) == scale.higher_is_better for value in theirs if value != best)
    return (
        f"The best run here is ahead of {beaten} of the {len(theirs)} numbers that the paper "
        f"prints. Those are means over several seeds or folds, with the paper's budget; a single "
        f"run is one draw."
    )
