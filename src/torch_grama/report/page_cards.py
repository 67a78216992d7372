"""The cards and tables of a page: runs, and the paper's numbers and settings beside each other."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch_grama.report.dynamics_figures import block_name, reach_text
from torch_grama.report.figure_parts import known, number
from torch_grama.report.held_results import (
    MetricScale,
    is_old,
    list_paper_tables,
    read_paper_numbers,
    scale_of,
)
from torch_grama.report.verdict import ROUNDING, judge_run, judge_stability
from torch_grama.runs.result import deviation
from torch_grama.runs.run_files import RunFiles
from torch_grama.runs.safe_files import Row
from torch_grama.runs.words import format_seconds

MEANINGS = {
    "largest pole": "the factor per step by which a state fades or grows, without the backbone",
    "margin": "how far this is below 1",
    "Σ|φ| ≤ 1": "whether the coefficients alone prove stability",
    "stable": "whether no pole lies outside the circle",
    "memory": "steps until less than 0.001 of an input is left",
    "closed-loop radius": "the measured factor per step, with the backbone",
    "closed-loop bound": "an upper limit of the closed-loop radius",
}
"""What the columns of the table of blocks mean."""
# Tables about one model's settings or its speed; the first of the others wins where two agree.
_OTHER_QUESTIONS = ("ablation", "runtime")
_REPEAT = ("seed", "data.fold")


@dataclass(frozen=True)
class Card:
    r"""The summary of a run."""

    name: str  #: its name
    what: str  #: data and model
    state: str  #: ``"finished"`` or how far it came
    headline: str  #: the largest number, with its unit
    caption: str  #: what that number is
    facts: Sequence[tuple[str, str, str]]  #: further numbers: name, value and what it means
    verdicts: Sequence[str]  #: sentences about learning, reach and stability


def summarize_run(run: RunFiles) -> Card:
    metric = run.word("metric") or run.facts.part("metric").word("name", "", 40)
    scale = scale_of(metric)
    unit = " %" if scale.factor == 100 else ""
    test, val = run.number("test"), run.number("val")
    history = known(run.columns.get(f"val/{metric}", ()))
    if val is None:
        val = scale.best(history)
    shown, part = (test, "test") if test is not None else (val, "validation")
    facts: list[tuple[str, str, str]] = []
    if test is not None and val is not None:
        text = scale.text(scale.factor * val) + unit
        facts.append((f"validation {scale.label}", text, "the score that chose the best epoch"))
    best, epochs = run.number("best_epoch"), run.number("epochs")
    if best is not None and epochs is not None:
        text = f"{best:.0f} of {epochs:.0f}"
        facts.append(("best epoch", text, "all numbers here are of its weights"))
    elif run.num_epochs:
        most = run.settings.get("trainer.max_epochs", "?")
        facts.append(("epochs so far", f"{run.num_epochs} of at most {most}", "it is not done"))
    parameters, seconds = run.number("parameters"), run.number("seconds")
    if parameters is not None:
        facts.append(("parameters", f"{parameters:,.0f}", "numbers that training sets"))
    if seconds is not None:
        facts.append(("time", format_seconds(seconds), "training and evaluation"))
    influence = run.analysis.part("influence").part("model")
    if influence.number("influence_range") is not None:
        text = f"{reach_text(influence)} hops"
        facts.append(("influence range", text, "mean distance of the nodes that the model uses"))
    return Card(
        name=run.name,
        what=", ".join(filter(None, [run.word("data", "data unknown"), run.model])),
        state="finished" if run.is_finished else "unfinished",
        headline="-" if shown is None else scale.text(scale.factor * shown) + unit,
        caption="" if shown is None else f"{part} {scale.label}",
        facts=facts,
        verdicts=[*judge_run(run), *judge_stability(run.analysis)],
    )


def block_rows(run: RunFiles) -> list[dict[str, str]]:
    r"""The table of the blocks of a run, heading to text, the worst of all graphs; empty without an
    analysis.
    """
    rows = []
    for index, block in enumerate(run.analysis.parts("blocks")[:64]):
        memory, loop = block.row("memory_length"), block.part("closed_loop")
        lags = known(memory)
        lasting = len(lags) < len(memory)
        rows.append(
            {
                "block": block_name(block, index),
                "backbone": block.word("backbone", "-", 40),
                "largest pole": _extreme(max, block.row("radius")),
                "margin": _extreme(min, block.row("margin")),
                "Σ|φ| ≤ 1": _yes(block.items("satisfies_condition")),
                "stable": _yes(block.items("stable")),
                "memory": "unbounded" if lasting else f"{max(lags):.0f} lags" if lags else "-",
                "closed-loop bound": _extreme(max, loop.row("bound")),
                "closed-loop radius": _extreme(max, loop.row("radius")),
            }
        )
    return rows


def _yes(values: Sequence[object]) -> str:
    yes = sum(map(bool, values))
    if 0 < yes < len(values):
        return f"{yes} of {len(values)} graphs"
    return "-" if not values else "yes" if yes else "no"


def _extreme(choose: Callable[[Sequence[float]], float], values: Row) -> str:
    value = choose(known(values)) if known(values) else None
    return "0" if value is not None and abs(value) < ROUNDING else number(value, 4)


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
    sentence: str  #: how the best run on validation stands beside the paper, if that has numbers
    origin: str  #: the tables of the paper that its numbers come from


def compare_runs(runs: Sequence[RunFiles]) -> list[PageTable]:
    r"""One table for each data set and metric of finished runs that can be compared."""
    groups: dict[tuple[str, str], list[RunFiles]] = {}
    for run in runs:
        if run.is_finished:
            groups.setdefault((_name_data(run), run.word("metric")), []).append(run)
    tables = [_table(data, metric, found) for (data, metric), found in groups.items()]
    return [table for table in tables if len(table.rows) > 1]


def _name_data(run: RunFiles) -> str:
    """With its options, which make a data set another one; those of own files say how to read."""
    prefix, name = "data.options.", run.word("data")
    options = {
        option.removeprefix(prefix): value
        for option, value in run.settings.items()
        if option.startswith(prefix) and not run.facts.part("form")
    }
    words = ", ".join(f"{option} {value}" for option, value in sorted(options.items()))
    return f"{name} ({words})" if words else name


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
    return PageTable(data, scale, rows, _sentence(runs, paper, scale), "; ".join(origin))


def _row(run: RunFiles, scale: MetricScale) -> PageRow:
    test, val, parameters = map(run.number, ("test", "val", "parameters"))
    notes = [(name, run.number(name)) for name in ("seed", "fold")]
    words = [f"{name} {value:.0f}" for name, value in notes if value is not None]
    version = run.environment.get("versions.torch_grama", "")
    if is_old(run.word("model"), version):
        words.append(f"made by version {version}, and the model has changed since")
    return PageRow(
        model=run.model,
        source=run.name,
        value=None if test is None else scale.factor * test,
        text="not read" if test is None else scale.text(scale.factor * test),
        validation="" if val is None else scale.text(scale.factor * val),
        parameters=None if parameters is None else int(parameters),
        is_ours=True,
        note=", ".join(words),
    )


def _means(runs: Sequence[RunFiles], scale: MetricScale) -> list[PageRow]:
    r"""The mean over runs that differ in seed and fold alone, where there are several."""
    groups: dict[tuple[str, frozenset[tuple[str, str]]], list[float]] = {}
    for run in runs:
        test = run.number("test")
        if test is not None:
            shared = frozenset(item for item in run.settings.items() if item[0] not in _REPEAT)
            groups.setdefault((run.model, shared), []).append(scale.factor * test)
    rows = []
    for (model, _), values in groups.items():
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


def _sentence(runs: Sequence[RunFiles], paper: Sequence[PageRow], scale: MetricScale) -> str:
    theirs = [row.value for row in paper if row.value is not None]
    if not theirs:
        return ""
    read = [
        (val, scale.factor * test)
        for run in runs
        if (val := run.number("val")) is not None and (test := run.number("test")) is not None
    ]
    chosen = scale.best(val for val, _ in read)
    best = next((test for val, test in read if val == chosen), None)
    if best is None:
        return "No run here has read its test part yet."
    beaten = sum((best > value) == scale.higher_is_better for value in theirs if value != best)
    return (
        f"The best run here on validation is ahead of {beaten} of the {len(theirs)} numbers that "
        f"the paper prints. Those are means over several seeds or folds, with the paper's budget; "
        f"a single run is one draw."
    )
