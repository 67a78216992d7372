"""The table of results in the README, made from the result files and from nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from torch_grama.report.held_results import HeldNumber
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.pair_table import BUDGET, NOT_RUN, PairLine, Pairs, kept_pairs, summarize
from torch_grama.report.paper_numbers import list_paper_tables, read_paper_numbers

BEGIN = "<!-- results: made by `grama results --readme README.md` -->"
END = "<!-- end of results -->"
HEAD = (
    *("data", "metric", "with GRAMA", "its backbone", "backbone alone", "gain"),
    *("best other model, ours", "paper's GRAMA"),
)
GRAMA = "grama"


def build_readme_table(held: Sequence[HeldNumber], pairs: Pairs) -> str:
    r"""One row per data set: its best matched pair, the best other model, the paper's GRAMA.

    The pair whose GRAMA has the best validation score is shown, whatever its test score; likewise
    the best of the other models of all experiments. A sentence below counts all pairs.

    Args:
        held (sequence of HeldNumber): Our numbers; those of the full budget count.
        pairs (mapping): Label of a data set to its metric and its pairs of rows.
    """
    full = [n for n in held if n.budget == BUDGET and n.mean is not None]
    lines = kept_pairs(pairs, held)
    rows = []
    for data, (metric, _) in pairs.items():
        scale = scale_of(metric)
        sign = 1.0 if scale.higher_is_better else -1.0
        run = [line for line in lines if line.data == data and line.runs]
        pair = max(run, key=lambda line: sign * _validation(line), default=None)
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
    text = [f"| {' | '.join(row)} |" for row in (HEAD, ["---"] * len(HEAD), *rows)]
    return "\n".join([*text, "", summarize(lines)])


def renew_table(text: str, held: Sequence[HeldNumber], pairs: Pairs) -> str:
    r"""Puts the table between its two markers.

    Args:
        text (str): A text with the markers.
        held (sequence of HeldNumber): Our numbers.
        pairs (mapping): Label of a data set to its metric and its pairs of rows.

    Raises:
        ValueError: If a marker is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"Expected the lines '{BEGIN}' and '{END}' in the text")
    return f"{before}{BEGIN}\n{build_readme_table(held, pairs)}\n{END}{after}"


def _validation(line: PairLine) -> float:
    return statistics.fmean(with_it.val for _, with_it in line.runs)


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
