"""The graph on which a reader sees influence spread: checked, and small enough for the page."""

from __future__ import annotations

from torch_grama.report.number_lists import cube_of, mapping_of, matrix_of, row_of
from torch_grama.runs.run_files import RunFiles
from torch_grama.runs.words import clip

_MAX_NODES = 400
_MAX_EDGES = 4000
_MAX_STEPS = 400


def example_picture(run: RunFiles) -> dict[str, object] | None:
    r"""What the page draws of the example graph, or :obj:`None` where there is none of that form.

    Args:
        run (RunFiles): The run.

    Returns:
        Positions, edges, names of the nodes, the nodes that can be chosen, the names of the steps,
        and influence by chosen node, step and node.
    """
    example = mapping_of(run.analysis.get("example"))
    positions = matrix_of(example.get("positions"))
    spread = cube_of(example.get("spread"))
    count = len(positions)
    if not 0 < count <= _MAX_NODES or len(positions[0]) != 2 or not spread:
        return None
    nodes = [0 if node is None else int(node) for node in row_of(example.get("nodes"))]
    sources = _places(example.get("sources"), count)
    edges = [
        pair
        for pair in (_places(item, count) for item in _items(example.get("edges")))
        if len(pair) == 2
    ][:_MAX_EDGES]
    labels = [clip(label, 60) for label in _items(example.get("labels"))][:_MAX_STEPS]
    fits = (
        len(nodes) == count
        and len(sources) == len(spread)
        and len(labels) == len(spread[0])
        and len(spread[0][0]) == count
    )
    if not fits or any(value is None for place in positions for value in place):
        return None
    return {
        "nodes": nodes,
        "positions": positions,
        "edges": edges,
        "sources": sources,
        "labels": labels,
        "spread": [
            [[0 if v is None or v < 0 else float(f"{v:.3g}") for v in row] for row in one]
            for one in spread
        ],
    }


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _places(value: object, count: int) -> list[int]:
    r"""Whole numbers below a count; empty if one is anything else."""
    items = _items(value)
    good = all(type(item) is int and 0 <= item < count for item in items)
    return [item for item in items if isinstance(item, int)] if good else []
