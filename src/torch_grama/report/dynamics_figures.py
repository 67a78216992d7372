"""What an analysis found: poles, coefficients, responses of blocks, and a model's reach."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torch_grama.report import figure_parts as draw
from torch_grama.report.figure_parts import Figure, Trace, known, number
from torch_grama.runs.run_files import RunFiles, thin
from torch_grama.runs.safe_files import Matrix, Record, Row, round_off
from torch_grama.runs.words import clip

Block = tuple[str, Record]
Coefficients = tuple[str, Row, Row]

# Graphs whose poles or coefficients are drawn one by one.
_MAX_GRAPHS = 32
_MAX_BLOCKS = 32
# Epochs of a heat map over training.
_MAX_ROWS = 60
_FLOOR = 1e-12
_MAX_SERIES = 24
# What the page draws of the example graph.
_MAX_NODES = 400
_MAX_EDGES = 4000
_MAX_STEPS = 400


def dynamics_figures(run: RunFiles, key: str) -> list[Figure]:
    r"""Poles, coefficients and impulse responses, as far as they are known."""
    blocks = run.analysis.parts("blocks")[:_MAX_BLOCKS]
    named = [(block_name(block, index), block) for index, block in enumerate(blocks)]
    made = [_poles(run, named, key), _coefficients(run, named, key), _impulse(named, key)]
    return [figure for figure in made if figure is not None]


def block_name(block: Record, index: int) -> str:
    place, step = block.number("block"), block.number("step")
    name = f"block {index + 1 if place is None else int(place) + 1}"
    return name if step is None else f"{name}, step {int(step) + 1}"


def _poles(run: RunFiles, blocks: Sequence[Block], key: str) -> Figure | None:
    r"""The poles of every block on the complex plane, epoch by epoch where they were written."""
    views: list[draw.View] = []
    for epoch, found in _epochs(run, len(run.coefficients)):
        poles = [block.matrix("poles") for block in found]
        if poles and all(map(_are_pairs, poles)):
            marked = [_pole_marks(p, i, f"block {i + 1}") for i, p in enumerate(poles)]
            views.append((epoch, marked))
    final: list[Trace] = []
    largest: list[str] = []
    for index, (name, block) in enumerate(blocks):
        points = [pole for graph in block.cube("poles")[:_MAX_GRAPHS] for pole in graph]
        if _are_pairs(points):
            final.append(_pole_marks(points, index, name))
            modulus = max(math.hypot(*known(point)) for point in points)
            largest.append(f"block {len(largest) + 1} {number(modulus)}")
    if final:
        views.append(("best weights, every graph", final))
    if not views:
        return None
    reach = max([1.0, *(abs(v) for _, data in views for trace in data for v in _values(trace))])
    span = [-1.15 * min(reach, 4), 1.15 * min(reach, 4)]
    angles = [2 * math.pi * i / 128 for i in range(129)]
    circle = ([round(f(a), 4) for a in angles] for f in (math.cos, math.sin))
    return Figure(
        f"poles-{key}",
        "Poles",
        "How a block treats its own past: inside the circle it forgets, on it it remembers, "
        "outside it grows.",
        [draw.guide("unit circle", *circle), *views[-1][1]],
        draw.axis("real part", span=span, equal=True),
        draw.axis("imaginary part", span=span),
        f"Largest modulus: {', '.join(largest[:12])}." if largest else "",
        views=views,
        control="slider",
        height=420,
    )


def _coefficients(run: RunFiles, blocks: Sequence[Block], key: str) -> Figure | None:
    r"""Heat maps of the coefficients: over blocks, over graphs, over training."""
    means: list[Coefficients] = []
    by_graph: list[draw.View] = []
    for name, block in blocks:
        phi, theta = (block.matrix(part)[:_MAX_GRAPHS] for part in ("phi", "theta"))
        if not phi or len(phi) != len(theta):
            continue
        means.append((name, draw.means_of(phi), draw.means_of(theta)))
        graphs = [f"graph {i + 1}" for i in range(len(phi))]
        if len(graphs) > 1:
            rows = list(zip(graphs, phi, theta, strict=True))
            by_graph.append((f"{name}, graph by graph", [_heat_map(rows)]))
    views: list[draw.View] = [("all blocks, mean over graphs", [_heat_map(means)])] if means else []
    views += [*by_graph, *_over_training(run)]
    if not views:
        return None
    words = [
        f"{name}: phi {draw.numbers(phi)}; theta {draw.numbers(theta)}"
        for name, phi, theta in means
    ]
    return Figure(
        f"coefficients-{key}",
        "Coefficients",
        "Weights of the past states (φ) and of past outputs of the backbone (θ), newest first.",
        views[0][1],
        draw.axis(""),
        draw.axis(""),
        "; ".join(words[:8]),
        views=views,
        control="list",
        height=420,
    )


def _impulse(blocks: Sequence[Block], key: str) -> Figure | None:
    r"""The response of every block to a unit input, with the span over graphs."""
    traces: list[Trace] = []
    words = []
    for index, (name, block) in enumerate(blocks):
        response = block.matrix("impulse_response")
        if not response:
            continue
        mean = draw.means_of(response)
        if len(response) > 1:
            lags = [known(lag) for lag in zip(*response, strict=True)]
            low, high = ([choose(lag, default=None) for lag in lags] for choose in (min, max))
            band = {"kind": "band", "top": high}
            traces.append(draw.line(name, range(len(mean)), low, index) | band)
        traces.append(draw.line(name, range(len(mean)), mean, index))
        memory = known(block.row("memory_length"))
        lasting = len(memory) < len(response)
        words.append(f"{name} {'never forgets' if lasting else f'{max(memory):.0f} lags'}")
    if not traces:
        return None
    return Figure(
        f"impulse-{key}",
        "Impulse response",
        "What is left of an input of 1 after so many steps, without the backbone; bands span "
        "the graphs.",
        traces,
        draw.axis("lag", whole=True),
        draw.axis("response", zero=True),
        f"Memory: {', '.join(words[:12])}.",
        height=420,
    )


def _epochs(run: RunFiles, most: int) -> Iterator[tuple[str, list[Record]]]:
    r"""The blocks that were written while training, with the name of the epoch."""
    for place in thin(len(run.coefficients), most):
        entry = run.coefficients[place]
        epoch = entry.number("epoch") or 0
        yield f"epoch {epoch:.0f}", entry.parts("blocks")[:_MAX_BLOCKS]


def _over_training(run: RunFiles) -> list[draw.View]:
    rows: dict[int, list[Coefficients]] = {}
    for epoch, blocks in _epochs(run, _MAX_ROWS):
        for index, block in enumerate(blocks):
            phi, theta = block.row("phi"), block.row("theta")
            if phi:
                rows.setdefault(index, []).append((epoch, phi, theta))
    return [
        (f"block {index + 1}, over training", [_heat_map(found)])
        for index, found in rows.items()
        if len({(len(phi), len(theta)) for _, phi, theta in found}) == 1 and len(found) > 1
    ]


def _heat_map(rows: Sequence[Coefficients]) -> Trace:
    p = max(len(phi) for _, phi, _ in rows)
    q = max(len(theta) for _, _, theta in rows)
    names = [f"φ{i + 1}" for i in range(p)] + [f"θ{i + 1}" for i in range(q)]
    low = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    values = [[*phi, *[None] * (p - len(phi)), *theta] for _, phi, theta in rows]
    bound = max([abs(v) for row in values for v in known(row)] or [1.0]) or 1.0
    return draw.heat_map(
        [name.translate(low) for name in names],
        [name for name, _, _ in rows],
        values,
        (-bound, bound),
    )


def _pole_marks(points: Matrix, index: int, name: str) -> Trace:
    x, y = ([point[place] for point in points] for place in (0, 1))
    # open signs: those of two blocks often lie on each other
    return draw.marks(name, x, y, index, 6, open=True)


def _are_pairs(points: Matrix) -> bool:
    return bool(points) and all(len(known(point)) == 2 for point in points)


def _values(trace: Trace) -> list[float]:
    return [v for name in ("x", "y") for v in trace[name] if v is not None]  # type: ignore[attr-defined]


def influence_figures(runs: Sequence[RunFiles]) -> list[Figure]:
    r"""Share of the output's sensitivity that comes from each distance, of all models together."""
    shares: list[Trace] = []
    nodes: list[Trace] = []
    ranges: list[str] = []
    for label, entry in _series(runs, "influence"):
        total, mean = entry.row("total"), entry.row("mean")
        whole = sum(known(total)) + (entry.number("beyond") or 0)
        if whole <= 0 or len(shares) >= _MAX_SERIES:
            continue
        index = len(shares)
        share, one = ([_over(v, whole, _FLOOR) for v in values] for values in (total, mean))
        bars = [_over(v, whole) for v in entry.row("total_error")]
        style = {"sign": draw.sign(index)}
        shares.append(draw.line(label, range(len(share)), share, index, errors=bars) | style)
        nodes.append(draw.line(label, range(len(one)), one, index) | style)
        reach = number(entry.number("influence_range"))
        ranges.append(f"{label}: influence range {reach} hops")
    if not shares:
        return []
    distance = draw.axis("distance in hops", whole=True)
    words = f"{'; '.join(ranges[:12])}."
    return [
        Figure(
            "influence-total",
            "From all nodes at a distance together",
            "The share of the influence on a node's output that comes from all nodes at this "
            "distance; bars are 95 % intervals.",
            shares,
            distance,
            draw.axis("share of influence", log=True),
            words,
        ),
        Figure(
            "influence-node",
            "From one node at a distance",
            "The same share divided by the number of nodes at this distance.",
            nodes,
            distance,
            draw.axis("influence of one node", log=True),
            words,
        ),
    ]


def reach_rows(runs: Sequence[RunFiles]) -> list[tuple[str, float | None, str, str]]:
    r"""For each model whose influence was measured its name, its influence range in hops, the same
    as printed with the confidence interval, and the method.
    """
    rows = []
    for label, entry in _series(runs, "influence"):
        samples = number(entry.number("num_samples"))
        method = "exact" if entry.is_true("exact") else f"{samples} sampled nodes per graph"
        rows.append((label, entry.number("influence_range"), reach_text(entry), method))
    return rows


def reach_text(entry: Record) -> str:
    r"""The influence range of a model with its confidence interval; a dash if it is not known."""
    reach, error = (entry.number(f"influence_range{end}") for end in ("", "_error"))
    return number(reach) + ("" if error is None else f" ± {number(error, 2)}")


def smoothness_figure(runs: Sequence[RunFiles]) -> Figure | None:
    r"""Dirichlet energy along recurrences or layers: whether depth makes states alike."""
    traces: list[Trace] = []
    words, drawn = [], []
    for label, entry in _series(runs, "smoothness"):
        energy = entry.row("energy")
        if not known(energy) or len(traces) >= _MAX_SERIES:
            continue
        index = len(traces)
        curve = draw.line(label, range(len(energy)), energy, index, sign=draw.sign(index))
        traces.append(curve | {"text": [clip(item, 40) for item in entry.items("labels")]})
        drawn += known(energy)
        words.append(f"{label} {draw.span(energy)}")
    if not traces:
        return None
    return Figure(
        "smoothness",
        "Dirichlet energy",
        "How much the states of neighbours differ: 0 if they are the same, about 1 if they have "
        "nothing to do with each other.",
        traces,
        draw.axis("recurrence or layer", whole=True),
        draw.axis("Dirichlet energy", zero=True, **draw.scale_for(drawn)),
        f"{'; '.join(words[:12])}.",
    )


def example_picture(run: RunFiles) -> dict[str, object] | None:
    r"""What the page draws of the graph on which a reader sees influence spread, or :obj:`None`
    where there is none of that form and size.
    """
    example = run.analysis.part("example")
    positions, spread = example.matrix("positions"), example.cube("spread")
    count = len(positions)
    if not 0 < count <= _MAX_NODES or len(positions[0]) != 2 or not spread:
        return None
    nodes = [clip(name, 40) for name in example.items("names") or example.items("nodes")]
    sources = _places(example.items("sources"), count)
    pairs = [_places(item, count) for item in example.items("edges")]
    labels = [clip(label, 60) for label in example.items("labels")][:_MAX_STEPS]
    shape = (len(spread), len(spread[0]), len(spread[0][0]))
    if shape != (len(sources), len(labels), count) or len(nodes) != count:
        return None
    if any(value is None for place in positions for value in place):
        return None
    return {
        "nodes": nodes,
        "positions": positions,
        "edges": [pair for pair in pairs if len(pair) == 2][:_MAX_EDGES],
        "sources": sources,
        "labels": labels,
        "spread": [
            [[0 if v is None or v < 0 else float(f"{v:.3g}") for v in row] for row in one]
            for one in spread
        ],
    }


def _series(runs: Sequence[RunFiles], part: str) -> Iterator[tuple[str, Record]]:
    r"""What was measured of the models of runs, and of those they are compared with, with names."""
    many = len(runs) > 1
    for run in runs:
        measured = run.analysis.part(part)
        for name in measured:
            label = clip(name, 60)
            if name == "model":
                label = run.name if many else f"this run ({run.word('model', 'model')})"
            elif many:
                label = f"{run.name}: {label}"
            yield label, measured.part(name)


def _over(value: float | None, whole: float, least: float = -1.0) -> float | None:
    share = None if value is None else round_off(value / whole)
    return None if share is None or share < least else share


def _places(value: object, count: int) -> list[int]:
    r"""Whole numbers below a count; empty if one is anything else."""
    items = value if isinstance(value, list) else []
    return items if all(type(item) is int and 0 <= item < count for item in items) else []
