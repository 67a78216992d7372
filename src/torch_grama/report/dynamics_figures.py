"""Is it stable, and what does it remember? Poles, coefficients and impulse responses of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch_grama.report.figure_parts import (
    DIVERGING,
    SIGNS,
    Figure,
    Trace,
    axis,
    color,
    line,
    number,
)
from torch_grama.report.number_lists import (
    Matrix,
    Row,
    columns_of,
    cube_of,
    known,
    mappings_of,
    matrix_of,
    mean_of,
    round_off,
    row_of,
)
from torch_grama.runs.run_files import RunFiles, as_number, thin

# Graphs whose poles or coefficients are drawn one by one.
_MAX_GRAPHS = 32
_MAX_BLOCKS = 32
# Epochs of a heat map over training.
_MAX_ROWS = 60


def pole_figure(run: RunFiles, key: str) -> Figure | None:
    r"""The poles of every block on the complex plane, epoch by epoch where they were written.

    Args:
        run (RunFiles): The run.
        key (str): What tells its figures from those of other runs.
    """
    views: list[tuple[str, list[Trace]]] = []
    for entry in run.coefficients:
        blocks = mappings_of(entry.get("blocks"))[:_MAX_BLOCKS]
        poles = [matrix_of(block.get("poles")) for block in blocks]
        if poles and all(map(_are_pairs, poles)):
            epoch = as_number(entry.get("epoch")) or 0
            views.append((f"epoch {epoch + 1:.0f}", [_marks(p, i) for i, p in enumerate(poles)]))
    blocks = mappings_of(run.analysis.get("blocks"))[:_MAX_BLOCKS]
    final: list[Trace] = []
    largest: list[float] = []
    for index, block in enumerate(blocks):
        graphs = cube_of(block.get("poles"))[:_MAX_GRAPHS]
        points = [pole for graph in graphs for pole in graph]
        if _are_pairs(points):
            final.append(_marks(points, index, block_name(block, index)))
            largest.append(max(math.hypot(*known(point)) for point in points))
    if final:
        views.append(("best weights, every graph", final))
    if not views:
        return None
    count = max(len(data) for _, data in views)
    views = [(label, [*data, *_nothing(len(data), count)]) for label, data in views]
    shown = views[-1]
    reach = max([1.0, *(abs(v) for _, data in views for trace in data for v in _xy(trace))])
    span = [-1.15 * min(reach, 4), 1.15 * min(reach, 4)]
    text = (
        "Poles of the blocks on the complex plane with the unit circle; inside it a block forgets, "
        "on it it remembers, outside it grows. "
    )
    if largest:
        words = [f"block {i + 1} {number(r)}" for i, r in enumerate(largest[:12])]
        text += f"Largest modulus: {', '.join(words)}."
    return Figure(
        f"poles-{key}",
        "Poles",
        text,
        [_circle(), *shown[1]],
        {
            "xaxis": axis("real part", range=span, zeroline=True, constrain="domain"),
            "yaxis": axis("imaginary part", range=span, scaleanchor="x", zeroline=True),
        },
        views=views if len(views) > 1 else (),
        control="slider" if len(views) > 1 else "",
        height=420,
    )


def coefficient_figure(run: RunFiles, key: str) -> Figure | None:
    r"""Heat maps of the coefficients: over blocks, over graphs, over training.

    Args:
        run (RunFiles): The run.
        key (str): What tells its figures from those of other runs.
    """
    views: list[tuple[str, list[Trace]]] = []
    blocks = mappings_of(run.analysis.get("blocks"))[:_MAX_BLOCKS]
    means: list[tuple[str, Row, Row]] = []
    by_graph: list[tuple[str, Matrix, Matrix]] = []
    for index, block in enumerate(blocks):
        phi = matrix_of(block.get("phi"))[:_MAX_GRAPHS]
        theta = matrix_of(block.get("theta"))[:_MAX_GRAPHS]
        if not phi or len(phi) != len(theta):
            continue
        name = block_name(block, index)
        means.append((name, _means(phi), _means(theta)))
        by_graph.append((f"{name}, graph by graph", phi, theta))
    if means:
        views.append(_view("all blocks, mean over graphs", means))
    for label, phi, theta in by_graph if len(by_graph) and len(by_graph[0][1]) > 1 else ():
        names = [f"graph {i + 1}" for i in range(len(phi))]
        views.append(_view(label, list(zip(names, phi, theta, strict=True))))
    views += _over_training(run)
    if not views:
        return None
    words = [f"{name}: phi {_list(phi)}; theta {_list(theta)}" for name, phi, theta in means[:8]]
    return Figure(
        f"coefficients-{key}",
        "Coefficients",
        "Autoregressive coefficients phi and moving-average coefficients theta, newest lag first. "
        + "; ".join(words),
        views[0][1],
        {
            "xaxis": axis("", type="category", side="bottom"),
            "yaxis": axis("", type="category", autorange="reversed", automargin=True),
            "margin": {"l": 80},
        },
        views=views if len(views) > 1 else (),
        control="list" if len(views) > 1 else "",
        height=420,
    )


def impulse_figure(run: RunFiles, key: str) -> Figure | None:
    r"""The response of every block to a unit input, with the span over graphs.

    Args:
        run (RunFiles): The run.
        key (str): What tells its figures from those of other runs.
    """
    traces: list[Trace] = []
    words = []
    for index, block in enumerate(mappings_of(run.analysis.get("blocks"))[:_MAX_BLOCKS]):
        response = matrix_of(block.get("impulse_response"))
        if not response:
            continue
        lags = columns_of(response)
        mean = [round_off(mean_of(lag)) for lag in lags]
        x = list(range(len(mean)))
        name = block_name(block, index)
        if len(response) > 1:
            traces += _band(x, lags, index)
        traces.append(line(name, x, mean, index))
        memory = known(row_of(block.get("memory_length")))
        lasting = len(memory) < len(response)
        words.append(f"{name} {'never forgets' if lasting else f'{max(memory):.0f} lags'}")
    if not traces:
        return None
    return Figure(
        f"impulse-{key}",
        "Impulse response",
        "Response of each block to a unit input, without the backbone's feedback, mean over "
        f"graphs with their span. Memory: {', '.join(words[:12])}.",
        traces,
        {"xaxis": axis("lag"), "yaxis": axis("response", zeroline=True)},
        height=420,
    )


def block_name(block: Mapping[str, object], index: int) -> str:
    r"""What a record of a block is called."""
    place = as_number(block.get("block"))
    step = as_number(block.get("step"))
    name = f"block {index + 1 if place is None else int(place) + 1}"
    return name if step is None else f"{name}, step {int(step) + 1}"


def _over_training(run: RunFiles) -> list[tuple[str, list[Trace]]]:
    rows: dict[int, list[tuple[str, Row, Row]]] = {}
    entries = [run.coefficients[i] for i in thin(len(run.coefficients), _MAX_ROWS)]
    for entry in entries:
        epoch = as_number(entry.get("epoch")) or 0
        for index, block in enumerate(mappings_of(entry.get("blocks"))[:_MAX_BLOCKS]):
            phi, theta = row_of(block.get("phi")), row_of(block.get("theta"))
            if phi:
                rows.setdefault(index, []).append((f"epoch {epoch + 1:.0f}", phi, theta))
    return [
        _view(f"block {index + 1}, over training", found)
        for index, found in rows.items()
        if len({(len(phi), len(theta)) for _, phi, theta in found}) == 1 and len(found) > 1
    ]


def _view(label: str, rows: Sequence[tuple[str, Row, Row]]) -> tuple[str, list[Trace]]:
    p = max(len(phi) for _, phi, _ in rows)
    q = max(len(theta) for _, _, theta in rows)
    names = [f"φ{_low(i + 1)}" for i in range(p)] + [f"θ{_low(i + 1)}" for i in range(q)]
    values = [[*phi, *[None] * (p - len(phi)), *theta] for _, phi, theta in rows]
    bound = max([abs(v) for row in values for v in known(row)] or [1.0]) or 1.0
    return label, [
        {
            "type": "heatmap",
            "x": names,
            "y": [name for name, _, _ in rows],
            "z": values,
            "zmin": -bound,
            "zmax": bound,
            "xgap": 1,
            "ygap": 1 if len(rows) <= 40 else 0,
            "colorscale": DIVERGING,
            "colorbar": {"thickness": 12, "outlinewidth": 0},
            "hovertemplate": "%{y}, %{x}: %{z:.4g}<extra></extra>",
            **({"texttemplate": "%{z:.2f}"} if len(rows) <= 12 and p + q <= 12 else {}),
        }
    ]


def _band(x: Sequence[int], lags: Matrix, index: int) -> list[Trace]:
    low = [min(known(lag), default=None) for lag in lags]
    high = [max(known(lag), default=None) for lag in lags]
    edge: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "line": {"width": 0, "color": color(index)},
        "showlegend": False,
        "hoverinfo": "skip",
    }
    return [
        {**edge, "y": low},
        {**edge, "y": high, "fill": "tonexty", "fillcolor": f"{color(index)}/0.18"},
    ]


def _marks(points: Matrix, index: int, name: str | None = None) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name or f"block {index + 1}",
        "x": [point[0] for point in points],
        "y": [point[1] for point in points],
        "marker": {
            "color": color(index),
            "size": 12,
            # open signs: those of two blocks often lie on each other
            "symbol": f"{SIGNS[index % len(SIGNS)]}-open",
            "line": {"width": 2.2},
        },
        "hovertemplate": "%{x:.4f} %{y:+.4f} i<extra>%{fullData.name}</extra>",
    }


def _nothing(have: int, want: int) -> list[Trace]:
    return [_marks([], index) | {"showlegend": False} for index in range(have, want)]


def _circle() -> Trace:
    angles = [2 * math.pi * i / 128 for i in range(129)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "unit circle",
        "x": [round(math.cos(a), 4) for a in angles],
        "y": [round(math.sin(a), 4) for a in angles],
        "line": {"color": "@muted", "width": 1.5},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _are_pairs(points: Matrix) -> bool:
    return bool(points) and all(len(known(point)) == 2 for point in points)


def _xy(trace: Trace) -> list[float]:
    return [v for name in ("x", "y") for v in trace[name] if v is not None]  # type: ignore[attr-defined]


def _means(matrix: Matrix) -> Row:
    return [round_off(mean_of(column)) for column in columns_of(matrix)]


def _list(values: Row) -> str:
    return ", ".join(number(value) for value in values[:8])


def _low(value: int) -> str:
    return str(value).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
