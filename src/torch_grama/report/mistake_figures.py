"""Where a run is wrong: by class, by target, by label, by distance from the training nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch_grama.report import figure_parts as draw
from torch_grama.report.figure_parts import Figure, Trace, known, number
from torch_grama.runs.record import Record, round_off
from torch_grama.runs.run_files import RunFiles
from torch_grama.runs.words import clip

_MAX_CLASSES = 60


def error_figures(run: RunFiles, key: str, many: bool = False) -> list[Figure]:
    r"""Confusion matrix, predicted against true, answers of labels, errors by distance.

    Args:
        run (RunFiles): The run.
        key (str): What tells its figures from those of other runs.
        many (bool, optional): Whether the titles name the run. (default: :obj:`False`)
    """
    errors = run.analysis.part("errors")
    names = [draw.plain(clip(name, 40)) for name in run.facts.items("class_names")]
    found = [
        _confusion(errors.part("classes"), names, key),
        _against(errors.part("regression"), key),
        _labels(errors.part("labels"), names, key),
        _by_distance(errors.part("by_distance"), key),
    ]
    figures = [figure for figure in found if figure is not None]
    if many:
        figures = [replace(item, title=f"{run.name}: {item.title.lower()}") for item in figures]
    return figures


def _confusion(facts: Record, names: Sequence[str], key: str) -> Figure | None:
    counts = facts.matrix("confusion")
    if not counts or len(counts) != len(counts[0]) or len(counts) > _MAX_CLASSES:
        return None
    labels = _name(names, len(counts))
    wholes = [sum(known(row)) for row in counts]
    shown = draw.heat_map(
        labels,
        labels,
        [
            [round_off(v / whole) if whole and v is not None else 0.0 for v in row]
            for row, whole in zip(counts, wholes, strict=True)
        ],
        (0, 1),
        text=[[number(v, 4) for v in row] for row in counts],
        colorscale=draw.SEQUENTIAL,
        hovertemplate="true %{y}, predicted %{x}: %{text} (%{z:.1%})<extra></extra>",
    )
    shown["colorbar"] = {"thickness": 12, "outlinewidth": 0, "tickformat": ".0%"}
    if len(counts) <= 12:
        shown["texttemplate"] = "%{text}"
    return Figure(
        f"confusion-{key}",
        "Confusion matrix",
        f"True class by row, predicted class by column, share of each true class. Accuracy "
        f"{number(facts.number('accuracy'))}, balanced "
        f"{number(facts.number('balanced_accuracy'))}.",
        [shown],
        {
            "xaxis": draw.axis("predicted", type="category", automargin=True),
            "yaxis": draw.axis("true", type="category", autorange="reversed", automargin=True),
        },
        height=380,
    )


def _against(facts: Record, key: str) -> Figure | None:
    predicted, true = facts.matrix("predicted"), facts.matrix("true")
    if not predicted or len(predicted) != len(true) or len(predicted[0]) != len(true[0]):
        return None
    traces: list[Trace] = []
    for place in range(min(len(true[0]), 7)):
        x, y = ([row[place] for row in rows] for rows in (true, predicted))
        traces.append(draw.marks(f"target {place + 1}", x, y, draw.sign(place, 6, opacity=0.6)))
    targets = [value for row in true for value in known(row)] or [0.0]
    ends = [min(targets), max(targets)]
    return Figure(
        f"against-{key}",
        "Predicted against true",
        f"Predictions against targets, with the line where they are equal. Mean absolute error "
        f"{draw.numbers(facts.row('mae'))}; share of variance explained "
        f"{draw.numbers(facts.row('r2'))}.",
        [*traces, draw.guide("equal", ends, ends)],
        {"xaxis": draw.axis("true"), "yaxis": draw.axis("predicted")},
    )


def _labels(facts: Record, names: Sequence[str], key: str) -> Figure | None:
    parts = [
        ("found", facts.row("true_positive"), 2, ""),
        ("missed", facts.row("false_negative"), 4, "/"),
        ("false alarm", facts.row("false_positive"), 1, "x"),
    ]
    size = len(parts[0][1])
    if not size or any(len(values) != size for _, values, _, _ in parts):
        return None
    labels = _name(names, size)
    traces: list[Trace] = []
    for name, values, index, shape in parts:
        style = {"color": draw.color(index), "pattern": {"shape": shape}}
        traces.append({"type": "bar", "name": name, "x": labels, "y": values, "marker": style})
    return Figure(
        f"labels-{key}",
        "Answers of each label",
        "For each label how often yes was found, missed, or said wrongly.",
        traces,
        {
            "xaxis": draw.axis("label", type="category", automargin=True),
            "yaxis": draw.axis("count"),
            "barmode": "group",
        },
    )


def _by_distance(facts: Record, key: str) -> Figure | None:
    error, count = facts.row("error"), facts.row("num_nodes")
    if not known(error) or len(error) != len(count):
        return None
    style: Trace = {"mode": "lines+markers", "marker": {"size": 8, "color": draw.color(0)}}
    style |= {"text": [f"{number(n)} nodes" for n in count], "connectgaps": True}
    words = [f"{k} hops {number(v)}" for k, v in enumerate(error[:12]) if v is not None]
    return Figure(
        f"distance-{key}",
        "Error by distance from the training nodes",
        f"Mean error of nodes by hops from the nearest training node: {'; '.join(words)}.",
        [draw.line("error", range(len(error)), error, 0) | style],
        {"xaxis": draw.axis("hops", dtick=1), "yaxis": draw.axis("mean error", rangemode="tozero")},
    )


def _name(names: Sequence[str], count: int) -> list[str]:
    return [*names[:count], *map(str, range(len(names), count))]
