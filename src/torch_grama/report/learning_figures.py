"""Did it learn, and where is it wrong? Curves of all runs, and the errors of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch_grama.report import figure_parts as draw
from torch_grama.report.figure_parts import Figure, Trace, known, number
from torch_grama.report.held_results import scale_of
from torch_grama.runs.run_files import RunFiles
from torch_grama.runs.safe_files import Record, round_off
from torch_grama.runs.words import clip

TRAIN, VAL = "train/loss", "val/loss"
_MAX_CLASSES = 60


def learning_figures(runs: Sequence[RunFiles]) -> list[Figure]:
    r"""The losses of all runs, and one figure for each validation metric."""
    names = [name for run in runs for name, values in run.columns.items() if known(values)]
    metrics = [name for name in dict.fromkeys(names) if name.startswith("val/") and name != VAL]
    figures = [_loss_figure(runs)] if {TRAIN, VAL} & set(names) else []
    return figures + [_metric_figure(runs, name, place) for place, name in enumerate(metrics)]


def _loss_figure(runs: Sequence[RunFiles]) -> Figure:
    traces: list[Trace] = []
    words, drawn = [], []
    for index, run in enumerate(runs):
        for column, dash, what in ((TRAIN, "2 3", "training"), (VAL, "", "validation")):
            values = run.columns.get(column, ())
            if known(values):
                label = f"{run.name}, {what}" if len(runs) > 1 else what
                traces.append(_curve(label, run, values, index, dash))
                words.append(f"{label} {draw.span(values)}")
                drawn += known(values)
    text = "What training reduces, after each epoch: dotted on training data, solid on validation."
    y = draw.axis("loss", **draw.scale_for(drawn))
    return Figure(
        "losses",
        "Loss",
        text,
        traces,
        draw.axis("epoch", whole=True),
        y,
        f"{'; '.join(words[:12])}.",
    )


def _metric_figure(runs: Sequence[RunFiles], column: str, place: int) -> Figure:
    name = column.removeprefix("val/")
    scale = scale_of(name)
    label = f"{scale.label}{' in %' if scale.factor == 100 else ''}"
    traces: list[Trace] = []
    words, drawn = [], []
    for index, run in enumerate(runs):
        values = [None if v is None else v * scale.factor for v in run.columns.get(column, ())]
        if not known(values):
            continue
        traces.append(_curve(run.name, run, values, index, None))
        words.append(f"{run.name} {draw.span(values)}")
        drawn += known(values)
        # the curve may have been thinned at the epoch whose weights were kept
        kept = run.number("best_epoch")
        epochs = run.columns.get("epoch", ())
        best = next((v for e, v in zip(epochs, values, strict=False) if e == kept), None)
        if kept is not None and best is not None:
            point = float(f"{best:.5g}")
            traces.append(draw.marks("best epoch", [kept], [point], index, 6, legend=False))
            words[-1] += f", best epoch {kept:.0f} with {number(best)}"
    return Figure(
        f"metric-{place}",
        f"Validation {label}, {'higher' if scale.higher_is_better else 'lower'} is better",
        "The score on validation data; the mark is the best epoch, whose weights were kept.",
        traces,
        draw.axis("epoch", whole=True),
        draw.axis(f"validation {label}", **draw.scale_for(drawn)),
        f"{'; '.join(words[:12])}.",
    )


def _curve(
    name: str, run: RunFiles, values: Sequence[float | None], index: int, dash: str | None
) -> Trace:
    pairs = [
        (epoch, float(f"{value:.5g}"))
        for epoch, value in zip(run.columns.get("epoch", ()), values, strict=False)
        if epoch is not None and value is not None
    ]
    mark = {"sign": draw.sign(index)} if len(pairs) == 1 else {}
    return draw.line(name, [e for e, _ in pairs], [v for _, v in pairs], index, dash, **mark)


def error_figures(run: RunFiles, key: str, many: bool = False) -> list[Figure]:
    r"""Confusion matrix, predicted against true, answers of labels, errors by distance."""
    errors = run.analysis.part("errors")
    names = [clip(name, 40) for name in run.facts.items("class_names")]
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
            [round_off(100 * v / whole) if whole and v is not None else 0.0 for v in row]
            for row, whole in zip(counts, wholes, strict=True)
        ],
        (0, 100),
        text=[[number(v, 4) for v in row] for row in counts],
        unit="%",
    )
    return Figure(
        f"confusion-{key}",
        "Confusion matrix",
        "How many of each true class (row) were predicted as which class (column).",
        [shown],
        draw.axis("predicted"),
        draw.axis("true"),
        f"Accuracy {number(facts.number('accuracy'))}, balanced "
        f"{number(facts.number('balanced_accuracy'))}.",
        height=380,
    )


def _against(facts: Record, key: str) -> Figure | None:
    predicted, true = facts.matrix("predicted"), facts.matrix("true")
    if not predicted or len(predicted) != len(true) or len(predicted[0]) != len(true[0]):
        return None
    traces: list[Trace] = []
    for place in range(min(len(true[0]), 7)):
        x, y = ([row[place] for row in rows] for rows in (true, predicted))
        traces.append(draw.marks(f"target {place + 1}", x, y, place, 4))
    targets = [value for row in true for value in known(row)] or [0.0]
    ends = [min(targets), max(targets)]
    return Figure(
        f"against-{key}",
        "Predicted against true",
        "Each point is a prediction; on the line it equals the true value.",
        [*traces, draw.guide("equal", ends, ends)],
        draw.axis("true"),
        draw.axis("predicted"),
        f"Mean absolute error {draw.numbers(facts.row('mae'))}; share of variance explained "
        f"{draw.numbers(facts.row('r2'))}.",
    )


def _labels(facts: Record, names: Sequence[str], key: str) -> Figure | None:
    parts = [
        ("found", facts.row("true_positive"), 2),
        ("missed", facts.row("false_negative"), 4),
        ("false alarm", facts.row("false_positive"), 1),
    ]
    size = len(parts[0][1])
    if not size or any(len(values) != size for _, values, _ in parts):
        return None
    labels = _name(names, size)
    traces: list[Trace] = [
        {"kind": "bars", "name": name, "x": labels, "y": values, "color": index}
        for name, values, index in parts
    ]
    return Figure(
        f"labels-{key}",
        "Answers of each label",
        "How often a yes of each label was found, missed, or predicted where the truth is no.",
        traces,
        draw.axis("label"),
        draw.axis("count", zero=True),
    )


def _by_distance(facts: Record, key: str) -> Figure | None:
    error, count = facts.row("error"), facts.row("num_nodes")
    if not known(error) or len(error) != len(count):
        return None
    far = [k for k, value in enumerate(error) if value is not None]
    texts = [f"{number(count[k])} nodes" for k in far]
    words = [f"{k} hops {number(v)}" for k, v in enumerate(error[:12]) if v is not None]
    return Figure(
        f"distance-{key}",
        "Error by distance from the training nodes",
        "Mean error of nodes that are so many edges away from the nearest training node.",
        [draw.line("error", far, known(error), 0, sign="circle", text=texts)],
        draw.axis("hops", whole=True),
        draw.axis("mean error", zero=True),
        f"{'; '.join(words)}.",
    )


def _name(names: Sequence[str], count: int) -> list[str]:
    return [*names[:count], *map(str, range(len(names), count))]
