"""Did it learn? The curves of all runs in common figures."""

from __future__ import annotations

from collections.abc import Sequence

from torch_grama.report import figure_parts as draw
from torch_grama.report.figure_parts import Figure, Trace, known, number
from torch_grama.report.metric_scale import scale_of
from torch_grama.runs.run_files import RunFiles

TRAIN, VAL = "train/loss", "val/loss"


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
