"""Matched pairs as a table and a picture: a backbone, GRAMA around it, and who is ahead; and the
table of the README, made from the result files and from nothing else.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch_grama.report.held_results import (
    HeldNumber,
    MetricScale,
    RunResult,
    list_paper_tables,
    read_paper_numbers,
    scale_of,
)
from torch_grama.runs.words import align, fit_columns, format_count

Pairs = Mapping[str, tuple[str, Sequence[tuple[str, str]]]]
"""Label of a data set to its metric and its pairs of rows."""
NOT_RUN = "not run"
SUITE, BUDGET = "pairs", "full"
HEAD = (
    *("data", "backbone", "alone", "with GRAMA", "gain", "verdict", "runs"),
    *("parameters", "s per epoch"),
)
NOTE = (
    "gain: how much better GRAMA is, with the standard error of the paired differences; win or "
    "loss: more than one standard error; parameters and seconds: alone, with GRAMA."
)

COLORS = {"win": "#0072b2", "tie": "#56b4e9", "loss": "#d55e00"}
"""Of the point with GRAMA; kept apart by eyes that see few colours."""
BEGIN = "<!-- results: made by `grama results --readme README.md` -->"
END = "<!-- end of results -->"
README_HEAD = (
    *("data", "metric", "with GRAMA", "its backbone", "backbone alone", "gain"),
    *("best other model, ours", "paper's GRAMA"),
)
GRAMA = "grama"


@dataclass(frozen=True)
class PairLine:
    r"""A backbone alone and GRAMA around it, on the folds and seeds that both were run on."""

    data: str  #: the data set
    metric: str  #: its metric
    backbone: str  #: the row of the backbone
    grama: str  #: the row of GRAMA around it
    runs: tuple[tuple[RunResult, RunResult], ...]  #: both sides, by fold and seed

    @property
    def scale(self) -> MetricScale:
        return scale_of(self.metric)

    @property
    def tests(self) -> tuple[list[float], list[float]]:
        values = [[self.scale.factor * (run.test or 0.0) for run in pair] for pair in self.runs]
        return [pair[0] for pair in values], [pair[1] for pair in values]

    @property
    def gains(self) -> list[float]:
        r"""How much better GRAMA is in each run, in the unit of the tables."""
        sign = 1.0 if self.scale.higher_is_better else -1.0
        return [sign * (with_it - alone) for alone, with_it in zip(*self.tests, strict=True)]

    @property
    def error(self) -> float | None:
        r"""The standard error of the mean gain; :obj:`None` for fewer than two runs."""
        if len(self.gains) < 2:
            return None
        return statistics.stdev(self.gains) / math.sqrt(len(self.gains))

    @property
    def verdict(self) -> str:
        r"""``win`` or ``loss`` of GRAMA by more than one standard error, ``tie``, or ``not run``;
        one run alone has no standard error and is a tie.
        """
        if not self.runs:
            return NOT_RUN
        gain = statistics.fmean(self.gains)
        if self.error is None or abs(gain) <= self.error:
            return "tie"
        return "win" if gain > 0 else "loss"

    def cells(self) -> list[str]:
        name = f"{self.data} ({self.scale.label} {self.scale.arrow})"
        if not self.runs:
            return [name, self.backbone, *["-"] * 3, NOT_RUN, *["-"] * 3]
        sides = tuple(zip(*self.runs, strict=True))
        scores = [statistics.fmean(values) for values in self.tests]
        gain = statistics.fmean(self.gains)
        size, *rest = (
            self.scale.text_of_deviation(value, min(scores))
            for value in (abs(gain), self.error)
            if value is not None
        )
        sizes = [round(statistics.fmean(run.parameters for run in side)) for side in sides]
        times = [
            statistics.fmean(run.seconds / max(1, run.epochs) for run in side) for side in sides
        ]
        return [
            *(name, self.backbone, *map(self.scale.text, scores)),
            " ± ".join((f"{'+' if gain >= 0 else '-'}{size}", *rest)),
            *(self.verdict, str(len(self.runs))),
            " / ".join(f"{size:,}" for size in sizes),
            " / ".join(f"{seconds:.2g}" for seconds in times),
        ]


def pair_up(pairs: Pairs, held: Iterable[HeldNumber]) -> list[PairLine]:
    r"""Sets the two sides of every pair beside each other."""
    numbers = {(number.data, number.model): number for number in held}
    lines = []
    for data, (metric, rows) in pairs.items():
        for backbone, grama in rows:
            sides = [numbers.get((data, row)) for row in (backbone, grama)]
            found = [
                {(run.fold, run.seed): run for run in (side.runs if side else ())} for side in sides
            ]
            both = [key for key in found[0] if key in found[1]]
            shared = [(found[0][key], found[1][key]) for key in both]
            runs = tuple(pair for pair in shared if all(run.test is not None for run in pair))
            measured = next((side.metric for side in sides if side), metric)
            lines.append(PairLine(data, measured, backbone, grama, runs))
    return lines


def kept_pairs(pairs: Pairs, held: Iterable[HeldNumber]) -> list[PairLine]:
    r"""The same of all kept numbers: those of the full budget of `grama reproduce pairs` count."""
    return pair_up(pairs, [n for n in held if (n.suite, n.budget) == (SUITE, BUDGET)])


def summarize(lines: Sequence[PairLine]) -> str:
    r"""Counts wins, ties and losses in one sentence."""
    verdicts = [line.verdict for line in lines]
    wins, ties, losses, rest = map(verdicts.count, ("win", "tie", "loss", NOT_RUN))
    pairs = format_count(len(verdicts) - rest, "pair")
    sentence = f"GRAMA: {wins} won, {ties} tied, {losses} lost of {pairs}"
    return f"{sentence}; {rest} not run." if rest else f"{sentence}."


def to_text(lines: Sequence[PairLine], width: int | None = None) -> str:
    r"""The table in columns of plain text; those that do not fit the width are left out."""
    rows = [HEAD, *(line.cells() for line in lines)]
    fitting = rows if width is None else fit_columns(rows, width)
    notes = [summarize(lines), NOTE]
    if left_out := HEAD[len(fitting[0]) :]:
        notes.append(f"Left out to fit the width: {', '.join(left_out)}.")
    if width is not None:
        notes = [textwrap.fill(note, width) for note in notes]
    return "\n".join([*align(fitting, right=(2, 3, 6, 7, 8)), "", *notes]) + "\n"


def to_markdown(lines: Sequence[PairLine]) -> str:
    table = [HEAD, ["---"] * len(HEAD), *(line.cells() for line in lines)]
    text = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([*text, "", summarize(lines), "", NOTE]) + "\n"


def to_csv(lines: Sequence[PairLine]) -> str:
    r"""One line per pair and run, with both test values and the gain as they were measured."""
    buffer = io.StringIO()
    write = partial(csv.writer(buffer, lineterminator="\n").writerow)
    write(["data", "metric", "backbone", "grama", "fold", "seed", "alone", "with_grama", "gain"])
    for line in lines:
        for (alone, with_it), gain in zip(line.runs, line.gains, strict=True):
            names = (line.data, line.metric, line.backbone, line.grama)
            tests = (alone.test, with_it.test)
            write([*names, alone.fold, alone.seed, *tests, gain / line.scale.factor])
    return buffer.getvalue()


FORMATS = {"text": to_text, "markdown": to_markdown, "csv": to_csv}


def draw_pairs(lines: Sequence[PairLine], path: Path) -> None:
    r"""Draws each pair as two points joined by a bar, one panel per data set; the thin line is the
    standard error of the gain.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels: dict[str, list[PairLine]] = {}
    for line in lines:
        if line.runs:
            panels.setdefault(line.data, []).append(line)
    heights = [len(own) + 0.8 for own in panels.values()]
    figure = Figure(figsize=(7.5, 0.9 + 0.42 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (data, own) in zip(axes, panels.items(), strict=True):
        for place, line in enumerate(reversed(own)):
            alone, with_it = (statistics.fmean(values) for values in line.tests)
            axis.plot([alone, with_it], [place, place], color="0.8", lw=5, zorder=1)
            axis.scatter(alone, place, color="#737373", s=42, label="alone", zorder=3)
            axis.scatter(with_it, place, color=COLORS[line.verdict], s=42, zorder=3)
            if line.error is not None:
                ends = [with_it - line.error, with_it + line.error]
                axis.plot(ends, [place, place], color="0.35", lw=1, zorder=2)
        axis.set_yticks(range(len(own)), [line.backbone for line in reversed(own)])
        axis.set_ylim(-0.6, len(own) - 0.4)
        direction = "higher" if own[0].scale.higher_is_better else "lower"
        axis.set_title(f"{data}: {own[0].scale.label}, {direction} is better", loc="left", size=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="x", color="0.92")
        axis.margins(x=0.12)
    for verdict, color in COLORS.items():
        axes[0].scatter([], [], color=color, s=42, label=f"with GRAMA: {verdict}")
    handles, labels = axes[0].get_legend_handles_labels()
    first = dict(zip(reversed(labels), reversed(handles), strict=True))
    names = ["alone", *(f"with GRAMA: {verdict}" for verdict in COLORS)]
    figure.legend(
        [first[name] for name in names], names, loc="outside lower center", ncols=4, frameon=False
    )
    # text as text, and the same bytes from the same numbers
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pairs"}):
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=metadata)


def build_readme_table(held: Sequence[HeldNumber], pairs: Pairs) -> str:
    r"""One row per data set: its best matched pair, the best other model, the paper's GRAMA.

    The pair whose GRAMA has the best validation score is shown, whatever its test score; likewise
    the best of the other models of all experiments. A sentence below counts all pairs.
    """
    full = [n for n in held if n.budget == BUDGET and n.mean is not None]
    lines = kept_pairs(pairs, held)
    rows = []
    for data, (metric, _) in pairs.items():
        scale = scale_of(metric)
        sign = 1.0 if scale.higher_is_better else -1.0
        run = [line for line in lines if line.data == data and line.runs]
        scores = [sign * statistics.fmean(pair[1].val for pair in line.runs) for line in run]
        pair = run[scores.index(max(scores))] if run else None
        others = [n for n in full if n.data == data and not n.model.startswith(GRAMA)]
        if pair:
            others = [n for n in others if n.model != pair.backbone]
        other = max(others, key=lambda n: sign * n.validation, default=None)
        alone, with_it, gain = pair.cells()[2:5] if pair else (NOT_RUN,) * 3
        rows.append(
            [
                *(data, f"{scale.label} {scale.arrow}", with_it, pair.backbone if pair else "-"),
                *(alone, gain, f"{other.text} ({other.model})" if other else NOT_RUN),
                _paper(data, metric),
            ]
        )
    text = [f"| {' | '.join(row)} |" for row in (README_HEAD, ["---"] * len(README_HEAD), *rows)]
    return "\n".join([*text, "", summarize(lines)])


def renew_table(text: str, held: Sequence[HeldNumber], pairs: Pairs) -> str:
    r"""Puts the table between its two markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"Expected the lines '{BEGIN}' and '{END}' in the text")
    return f"{before}{BEGIN}\n{build_readme_table(held, pairs)}\n{END}{after}"


def _paper(data: str, metric: str) -> str:
    numbers = [
        number.mean
        for table in list_paper_tables()
        for number in read_paper_numbers(table)
        if number.data == data and number.model.startswith(GRAMA) and number.mean is not None
    ]
    scale = scale_of(metric)
    best = scale.best(numbers)
    return "-" if best is None else scale.text(best)
