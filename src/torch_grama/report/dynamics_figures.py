"""Is it stable, and what does it remember? Poles, coefficients and impulse responses of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torch_grama.report import figure_parts as draw
from torch_grama.report.figure_parts import Figure, Trace, known, number
from torch_grama.runs.record import Matrix, Record, Row
from torch_grama.runs.run_files import RunFiles, thin

Block = tuple[str, Record]
Coefficients = tuple[str, Row, Row]

# Graphs whose poles or coefficients are drawn one by one.
_MAX_GRAPHS = 32
_MAX_BLOCKS = 32
# Epochs of a heat map over training.
_MAX_ROWS = 60


def dynamics_figures(run: RunFiles, key: str) -> list[Figure]:
    r"""Poles, coefficients and impulse responses, as far as they are known.

    Args:
        run (RunFiles): The run.
        key (str): What tells its figures from those of other runs.
    """
    blocks = run.analysis.parts("blocks")[:_MAX_BLOCKS]
    named = [(block_name(block, index), block) for index, block in enumerate(blocks)]
    made = [_poles(run, named, key), _coefficients(run, named, key), _impulse(named, key)]
    return [figure for figure in made if figure is not None]


def block_name(block: Record, index: int) -> str:
    r"""What a record of a block is called."""
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
        views=views if len(views) > 1 else (),
        control="slider" if len(views) > 1 else "",
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
        views=views if len(views) > 1 else (),
        control="list" if len(views) > 1 else "",
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
