"""How far information travels, and whether states become alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch_grama.report import figure_parts as draw
from torch_grama.report.figure_parts import Figure, Trace, known, number
from torch_grama.runs.record import Record, round_off
from torch_grama.runs.run_files import RunFiles
from torch_grama.runs.words import clip

_FLOOR = 1e-12
_MAX_SERIES = 24
# What the page draws of the example graph.
_MAX_NODES = 400
_MAX_EDGES = 4000
_MAX_STEPS = 400


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

    Args:
        run (RunFiles): The run.

    Returns:
        Positions, edges, names of the nodes, the nodes that can be chosen, the names of the steps,
        and influence by chosen node, step and node.
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
