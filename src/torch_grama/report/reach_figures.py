"""How far information travels, whether states become alike, and where a run is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch_grama.report.figure_parts import (
    SEQUENTIAL,
    SIGNS,
    Figure,
    Trace,
    axis,
    color,
    line,
    log_scale,
    number,
    plain,
    scale_for,
)
from torch_grama.report.number_lists import (
    known,
    mapping_of,
    matrix_of,
    round_off,
    row_of,
)
from torch_grama.runs.run_files import RunFiles, as_number
from torch_grama.runs.words import clip

_FLOOR = 1e-12
_MAX_CLASSES = 60
_MAX_SERIES = 24


def series_of(run: RunFiles, name: str, many: bool) -> str:
    r"""What the model of a run, or one it is compared with, is called in a figure."""
    if name == "model":
        return run.name if many else f"this run ({run.word('model', 'model')})"
    return f"{run.name}: {clip(name, 60)}" if many else clip(name, 60)


def influence_figures(runs: Sequence[RunFiles]) -> list[Figure]:
    r"""Share of the output's sensitivity that comes from each distance, of all models together.

    Args:
        runs (sequence of RunFiles): The runs.
    """
    shares: list[Trace] = []
    nodes: list[Trace] = []
    words, drawn = [], []
    for run in runs:
        for name, value in mapping_of(run.analysis.get("influence")).items():
            entry = mapping_of(value)
            total, mean = row_of(entry.get("total")), row_of(entry.get("mean"))
            whole = sum(known(total)) + (as_number(entry.get("beyond")) or 0)
            if whole <= 0 or len(shares) >= _MAX_SERIES:
                continue
            index = len(shares)
            label = series_of(run, name, len(runs) > 1)
            share = _above([_over(v, whole) for v in total])
            one = _above([_over(v, whole) for v in mean])
            drawn += known(share)
            marker = {"symbol": SIGNS[index % len(SIGNS)], "size": 7, "color": color(index)}
            style: Trace = {"mode": "lines+markers", "marker": marker}
            error = row_of(entry.get("total_error"))
            if error:
                bars = [_over(v, whole) for v in error]
                style["error_y"] = {"type": "data", "array": bars, "thickness": 1, "width": 2}
            shares.append(line(label, range(len(share)), share, index) | style)
            style.pop("error_y", None)
            nodes.append(line(label, range(len(one)), one, index) | style)
            reach = number(as_number(entry.get("influence_range")))
            words.append(f"{label}: influence range {reach} hops")
    if not shares:
        return []
    scale = log_scale(drawn)
    far = max(len(trace["x"]) for trace in shares)  # type: ignore[arg-type]
    hops = axis("distance in hops", **({"dtick": 1} if far <= 16 else {}))
    text = "; ".join(words[:12])
    return [
        Figure(
            "influence-total",
            "From all nodes at a distance together",
            f"Share of the influence on a node's output by distance in hops. {text}.",
            shares,
            {"xaxis": hops, "yaxis": axis("share of influence", **scale)},
        ),
        Figure(
            "influence-node",
            "From one node at a distance",
            f"Influence of a single node by distance in hops, on the same scale. {text}.",
            nodes,
            {"xaxis": hops, "yaxis": axis("influence of one node", **scale)},
        ),
    ]


def smoothness_figure(runs: Sequence[RunFiles]) -> Figure | None:
    r"""Dirichlet energy along recurrences or layers: whether depth makes states alike.

    Args:
        runs (sequence of RunFiles): The runs.
    """
    traces: list[Trace] = []
    words, drawn = [], []
    for run in runs:
        for name, value in mapping_of(run.analysis.get("smoothness")).items():
            entry = mapping_of(value)
            energy = row_of(entry.get("energy"))
            labels = entry.get("labels")
            if not known(energy) or len(traces) >= _MAX_SERIES:
                continue
            index = len(traces)
            label = series_of(run, name, len(runs) > 1)
            texts = [plain(clip(item, 40)) for item in labels] if isinstance(labels, list) else []
            marker = {"symbol": SIGNS[index % len(SIGNS)], "size": 7, "color": color(index)}
            trace = line(label, range(len(energy)), energy, index)
            trace |= {"mode": "lines+markers", "marker": marker, "text": texts}
            traces.append(trace)
            drawn += known(energy)
            words.append(f"{label} from {number(known(energy)[0])} to {number(known(energy)[-1])}")
    if not traces:
        return None
    return Figure(
        "smoothness",
        "Dirichlet energy",
        "Normalised Dirichlet energy of the states after each recurrence or layer; towards 0 the "
        "states of neighbours become alike, 1 knows nothing of the edges. "
        f"{'; '.join(words[:12])}.",
        traces,
        {
            "xaxis": axis("recurrence or layer", dtick=1 if len(drawn) < 24 else None),
            "yaxis": axis("Dirichlet energy", rangemode="tozero", **scale_for(drawn)),
        },
    )


def error_figures(run: RunFiles, key: str, many: bool = False) -> list[Figure]:
    r"""Confusion matrix, predicted against true, answers of labels, errors by distance.

    Args:
        run (RunFiles): The run.
        key (str): What tells its figures from those of other runs.
        many (bool, optional): Whether the titles name the run. (default: :obj:`False`)
    """
    errors = mapping_of(run.analysis.get("errors"))
    names = run.facts.get("class_names")
    classes = [plain(clip(name, 40)) for name in names] if isinstance(names, list) else []
    found = [
        _confusion(mapping_of(errors.get("classes")), classes, key),
        _against(mapping_of(errors.get("regression")), key),
        _labels(mapping_of(errors.get("labels")), classes, key),
        _by_distance(mapping_of(errors.get("by_distance")), key),
    ]
    figures = [figure for figure in found if figure is not None]
    if many:
        figures = [replace(item, title=f"{run.name}: {item.title.lower()}") for item in figures]
    return figures


def _confusion(entry: object, names: Sequence[str], key: str) -> Figure | None:
    facts = mapping_of(entry)
    counts = matrix_of(facts.get("confusion"))
    if not counts or len(counts) != len(counts[0]) or len(counts) > _MAX_CLASSES:
        return None
    labels = [names[i] if i < len(names) else str(i) for i in range(len(counts))]
    shares = [
        [0.0 if not sum(known(row)) or v is None else v / sum(known(row)) for v in row]
        for row in counts
    ]
    shown: Trace = {
        "type": "heatmap",
        "x": labels,
        "y": labels,
        "z": [[round_off(v) for v in row] for row in shares],
        "text": [[number(v, 4) for v in row] for row in counts],
        "zmin": 0,
        "zmax": 1,
        "xgap": 1,
        "ygap": 1,
        "colorscale": SEQUENTIAL,
        "colorbar": {"thickness": 12, "outlinewidth": 0, "tickformat": ".0%"},
        "hovertemplate": "true %{y}, predicted %{x}: %{text} (%{z:.1%})<extra></extra>",
    }
    if len(counts) <= 12:
        shown["texttemplate"] = "%{text}"
    return Figure(
        f"confusion-{key}",
        "Confusion matrix",
        f"True class by row, predicted class by column, share of each true class. Accuracy "
        f"{number(as_number(facts.get('accuracy')))}, balanced "
        f"{number(as_number(facts.get('balanced_accuracy')))}.",
        [shown],
        {
            "xaxis": axis("predicted", type="category", automargin=True),
            "yaxis": axis("true", type="category", autorange="reversed", automargin=True),
        },
        height=380,
    )


def _against(entry: object, key: str) -> Figure | None:
    facts = mapping_of(entry)
    predicted, true = matrix_of(facts.get("predicted")), matrix_of(facts.get("true"))
    if not predicted or len(predicted) != len(true) or len(predicted[0]) != len(true[0]):
        return None
    traces: list[Trace] = []
    for place in range(min(len(true[0]), 7)):
        x, y = [row[place] for row in true], [row[place] for row in predicted]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"target {place + 1}",
                "x": x,
                "y": y,
                "marker": {
                    "color": color(place),
                    "symbol": SIGNS[place % len(SIGNS)],
                    "size": 6,
                    "opacity": 0.6,
                },
            }
        )
    targets = [value for row in true for value in known(row)] or [0.0]
    low, high = min(targets), max(targets)
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "equal",
            "x": [low, high],
            "y": [low, high],
            "line": {"color": "@muted", "width": 1.5},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )
    mae = ", ".join(number(v) for v in row_of(facts.get("mae"))[:8])
    return Figure(
        f"against-{key}",
        "Predicted against true",
        f"Predictions against targets, with the line where they are equal. Mean absolute error "
        f"{mae}; share of variance explained "
        f"{', '.join(number(v) for v in row_of(facts.get('r2'))[:8])}.",
        traces,
        {"xaxis": axis("true"), "yaxis": axis("predicted")},
    )


def _labels(entry: object, names: Sequence[str], key: str) -> Figure | None:
    facts = mapping_of(entry)
    parts = [
        ("found", row_of(facts.get("true_positive")), 2),
        ("missed", row_of(facts.get("false_negative")), 4),
        ("false alarm", row_of(facts.get("false_positive")), 1),
    ]
    size = len(parts[0][1])
    if not size or any(len(values) != size for _, values, _ in parts):
        return None
    labels = [names[i] if i < len(names) else str(i) for i in range(size)]
    shapes = ("", "/", "x")
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": name,
            "x": labels,
            "y": values,
            "marker": {"color": color(index), "pattern": {"shape": shape}},
        }
        for (name, values, index), shape in zip(parts, shapes, strict=True)
    ]
    return Figure(
        f"labels-{key}",
        "Answers of each label",
        "For each label how often yes was found, missed, or said wrongly.",
        traces,
        {
            "xaxis": axis("label", type="category", automargin=True),
            "yaxis": axis("count"),
            "barmode": "group",
        },
    )


def _by_distance(entry: object, key: str) -> Figure | None:
    facts = mapping_of(entry)
    error, count = row_of(facts.get("error")), row_of(facts.get("num_nodes"))
    if not known(error) or len(error) != len(count):
        return None
    trace = line("error", range(len(error)), error, 0)
    trace |= {
        "mode": "lines+markers",
        "text": [f"{number(n)} nodes" for n in count],
        "marker": {"size": 8, "color": color(0)},
        "connectgaps": True,
    }
    return Figure(
        f"distance-{key}",
        "Error by distance from the training nodes",
        "Mean error of nodes by hops from the nearest training node: "
        + "; ".join(f"{k} hops {number(v)}" for k, v in enumerate(error[:12]) if v is not None)
        + ".",
        [trace],
        {"xaxis": axis("hops", dtick=1), "yaxis": axis("mean error", rangemode="tozero")},
    )


def _over(value: float | None, whole: float) -> float | None:
    return None if value is None else round_off(value / whole)


def _above(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None or v < _FLOOR else v for v in values]
