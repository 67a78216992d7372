"""Graphs that fit into a figure, and how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from figures.ink import Ink

# A small graph with a triangle, a square and a tail, by hand.
HOUSE_EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (3, 4), (1, 5), (5, 6)]
HOUSE_PLACES = [
    (0.0, 0.0),
    (1.0, 0.0),
    (1.0, 0.95),
    (0.0, 0.95),
    (0.5, 1.6),
    (1.75, 0.35),
    (2.1, 1.2),
]


def both_ways(edges: Sequence[tuple[int, int]]) -> Tensor:
    """Returns ``edge_index`` with every edge in both directions."""
    pairs = torch.tensor(edges).t()
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def grid(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Returns ``edge_index`` and the places of the nodes."""
    nodes = torch.arange(rows * columns).view(rows, columns)
    edges = torch.cat(
        [
            torch.stack([nodes[:, :-1].flatten(), nodes[:, 1:].flatten()]),
            torch.stack([nodes[:-1].flatten(), nodes[1:].flatten()]),
        ],
        dim=1,
    )
    places = torch.stack([nodes.flatten() % columns, nodes.flatten() // columns], dim=1)
    return torch.cat([edges, edges.flip(0)], dim=1), places.float()


def ring(num_nodes: int) -> Tensor:
    """Returns ``edge_index`` of a ring."""
    nodes = torch.arange(num_nodes)
    edges = torch.stack([nodes, (nodes + 1) % num_nodes])
    return torch.cat([edges, edges.flip(0)], dim=1)


def draw_house(
    axes: Axes, ink: Ink, x: float, y: float, size: float, values: Tensor, edge_color: str = ""
) -> None:
    """Draws the small graph with its lower left corner at a place; values in [0, 1] colour it."""
    import matplotlib

    places = [(x + size * a / 2.1, y + size * b / 2.1) for a, b in HOUSE_PLACES]
    lines = [(places[a], places[b]) for a, b in HOUSE_EDGES]
    axes.add_collection(LineCollection(lines, colors=edge_color or ink.faint, lw=0.9, zorder=2))
    colors = matplotlib.colormaps[ink.ramp]([0.15 + 0.8 * float(v) for v in values])
    axes.scatter(
        *zip(*places, strict=True),
        s=34 * size**2,
        c=colors,
        edgecolors=ink.text,
        linewidths=0.5,
        zorder=3,
    )
