"""Did it learn? The curves of all runs in common figures."""

from __future__ import annotations

from collections.abc import Sequence

from torch_grama.report.figure_parts import (
    SIGNS,
    Figure,
    Trace,
    axis,
    color,
    line,
    number,
    plain,
    scale_for,
)
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.number_lists import known
from torch_grama.runs.run_files import RunFiles

TRAIN, VAL = "train/loss", "val/loss"


def learning_figures(runs: Sequence[RunFiles]) -> list[Figure]:
    r"""The losses of all runs, and one figure for each validation metric.

    Args:
        runs (sequence of RunFiles): The runs.
    """
    losses: list[Trace] = []
    words, values = [], []
    metrics: dict[str, list[Trace]] = {}
    said: dict[str, list[str]] = {}
    for index, run in enumerate(runs):
        epochs = run.columns.get("epoch", ())
        for column, dash, what in ((TRAIN, "dot", "training"), (VAL, "solid", "validation")):
            found = run.columns.get(column, ())
            if not known(found):
                continue
            label = f"{run.name}, {what}" if len(runs) > 1 else what
            losses.append(_curve(label, epochs, found, index, dash))
            values += known(found)
            words.append(f"{label} from {number(known(found)[0])} to {number(known(found)[-1])}")
        for column, found in run.columns.items():
            name = column.removeprefix("val/")
            if column == VAL or not column.startswith("val/") or not known(found):
                continue
            scaled = [None if v is None else v * scale_of(name).factor for v in found]
            traces = metrics.setdefault(name, [])
            traces.append(_curve(run.name, epochs, scaled, index, None))
            best = best_point(run, epochs, scaled)
            text = f"{run.name} from {number(known(scaled)[0])} to {number(known(scaled)[-1])}"
            if best is not None:
                traces.append(_mark(run.name, best, index))
                text += f", kept weights of epoch {best[0]:.0f} with {number(best[1])}"
            said.setdefault(name, []).append(text)
    figures = []
    if losses:
        figures.append(
            Figure(
                "losses",
                "Loss",
                f"Loss against epoch: {'; '.join(words[:12])}.",
                losses,
                {"xaxis": axis("epoch"), "yaxis": axis("loss", **scale_for(values))},
            )
        )
    for place, (name, traces) in enumerate(metrics.items()):
        scale = scale_of(name)
        unit = " in %" if scale.factor == 100 else ""
        drawn = [v for trace in traces for v in _numbers(trace["y"])]
        figures.append(
            Figure(
                f"metric-{place}",
                f"Validation {scale.label}{unit}, {'higher' if scale.higher_is_better else 'lower'}"
                " is better",
                f"Validation {name} against epoch: {'; '.join(said[name][:12])}.",
                traces,
                {
                    "xaxis": axis("epoch"),
                    "yaxis": axis(f"validation {scale.label}{unit}", **scale_for(drawn)),
                },
            )
        )
    return figures


def best_point(
    run: RunFiles, epochs: Sequence[float | None], values: Sequence[float | None]
) -> tuple[float, float] | None:
    r"""Epoch, counted from 1, and value of the kept weights, where the curve still has it."""
    best = run.number("best_epoch")
    for epoch, value in zip(epochs, values, strict=False):
        if best is not None and epoch == best and value is not None:
            return best + 1, value
    return None


def _curve(
    name: str,
    epochs: Sequence[float | None],
    values: Sequence[float | None],
    index: int,
    dash: str | None,
) -> Trace:
    pairs = [
        (epoch + 1, float(f"{value:.5g}"))
        for epoch, value in zip(epochs, values, strict=False)
        if epoch is not None and value is not None
    ]
    trace = line(name, [e for e, _ in pairs], [v for _, v in pairs], index, dash)
    if len(pairs) == 1:
        trace["mode"] = "markers"
    return trace


def _mark(name: str, point: tuple[float, float], index: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(f"{name}, kept"),
        "showlegend": False,
        "x": [point[0]],
        "y": [float(f"{point[1]:.5g}")],
        "marker": {"color": color(index), "size": 11, "symbol": SIGNS[index % len(SIGNS)]},
    }


def _numbers(values: object) -> list[float]:
    return [v for v in values if isinstance(v, float)] if isinstance(values, list) else []
