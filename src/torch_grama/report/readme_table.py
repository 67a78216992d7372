"""The table of results in the README, made from the result files and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from torch_grama.report.held_results import HeldNumber, explain_old
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.paper_numbers import list_paper_tables, read_paper_numbers

BEGIN = "<!-- results: made by `grama results --readme README.md` -->"
END = "<!-- end of results -->"
GRAMA = "grama"
TUNED = "tuned-"
# they compare GRAMA with itself, have a table of their own, or many columns of one kind
LEFT_OUT = ("ablation", "pairs", "transfer")
BUDGET = "full"
NOTHING = (
    "No numbers of the full budget are kept yet: `grama reproduce` and `grama results --keep`."
)


def build_readme_table(held: Sequence[HeldNumber]) -> str:
    r"""One row per data set: GRAMA, the best other model, the paper's GRAMA.

    Among our variants of a data set the one with the best validation score is shown, whatever its
    test score; likewise among the other models. Numbers made before a model changed have a mark.
    Sentences below the table name the data sets on which GRAMA is behind, and the backbones that
    alone, plain or tuned, are ahead of GRAMA around them. Ablations, matched pairs and the
    task of carrying a value are left out. Without any number it is a sentence that says so.

    Args:
        held (sequence of HeldNumber): Our numbers; those of the full budget count.
    """
    lines = [
        "| data | metric | GRAMA, ours | its variant | best other model, ours | paper's GRAMA |",
        "|---|---|---|---|---|---|",
    ]
    cells = {
        (n.suite, n.data): n.metric
        for n in held
        if n.budget == BUDGET and n.mean is not None and not n.suite.startswith(LEFT_OUT)
    }
    if not cells:
        return NOTHING
    behind, backbones, printed = [], [], []
    for (suite, data), metric in sorted(cells.items(), key=lambda cell: _by_number(*cell[0])):
        scale = scale_of(metric)
        own = [n for n in held if (n.suite, n.data, n.budget) == (suite, data, BUDGET)]
        grama = _best([n for n in own if n.model.startswith(GRAMA)])
        other = _best([n for n in own if not n.model.startswith(GRAMA)])
        found = [number for number in (grama, other) if number]
        printed += found
        if grama and other and _is_behind(grama, other):
            behind.append(data)
        if ahead := _backbones_ahead(own):
            backbones.append(f"{data} ({', '.join(ahead)})")
        texts = [
            *(data, f"{scale.label} {scale.arrow}"),
            *((grama.text, grama.model) if grama else ("not run", "-")),
            f"{other.text} ({other.model})" if other else "not run",
            _paper(suite, data, metric),
        ]
        lines.append(f"| {' | '.join(texts)} |")
    if old := explain_old(printed):
        lines += ["", old]
    if behind:
        lines += ["", f"GRAMA is behind the best other model on: {', '.join(behind)}."]
    if backbones:
        lines += ["", f"A backbone alone is ahead of GRAMA around it on: {', '.join(backbones)}."]
    return "\n".join(lines)


def renew_table(text: str, held: Sequence[HeldNumber]) -> str:
    r"""Puts the table between its two markers.

    Args:
        text (str): A text with the markers.
        held (sequence of HeldNumber): Our numbers.

    Raises:
        ValueError: If a marker is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"Expected the lines '{BEGIN}' and '{END}' in the text")
    return f"{before}{BEGIN}\n{build_readme_table(held)}\n{END}{after}"


def _by_number(suite: str, data: str) -> tuple[str, str, int]:
    """A key that puts a distance of 10 behind one of 3."""
    word, _, number = data.rpartition("-")
    return (suite, word, int(number)) if number.isdecimal() else (suite, data, 0)


def _best(numbers: Sequence[HeldNumber]) -> HeldNumber | None:
    known = [number for number in numbers if number.mean is not None]
    higher = bool(known) and known[0].scale.higher_is_better
    return (max if higher else min)(known, key=lambda number: number.validation, default=None)


def _backbones_ahead(numbers: Sequence[HeldNumber]) -> list[str]:
    """The models, plain or tuned, that are ahead of the row of GRAMA around them."""
    known = {number.model: number for number in numbers if number.mean is not None}
    around = {model: known.get(f"{GRAMA}-{model.removeprefix(TUNED)}") for model in known}
    return [m for m, grama in around.items() if grama is not None and _is_behind(grama, known[m])]


def _is_behind(grama: HeldNumber, other: HeldNumber) -> bool:
    assert grama.mean is not None
    assert other.mean is not None
    sign = 1 if grama.scale.higher_is_better else -1
    return sign * grama.mean < sign * other.mean


def _paper(suite: str, data: str, metric: str) -> str:
    numbers = [
        number.mean
        for number in (read_paper_numbers(suite) if suite in list_paper_tables() else ())
        if number.data == data and number.model.startswith(GRAMA) and number.mean is not None
    ]
    scale = scale_of(metric)
    best = scale.best(numbers)
    return "-" if best is None else scale.text(best)
