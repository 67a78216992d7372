"""Open and closed loop: the backbone decides about growth as much as the poles."""

from __future__ import annotations

from functools import cache

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from figures.ink import Ink
from figures.small_graphs import ring
from torch_grama.analysis import closed_loop_bound, closed_loop_radius, operator_norm

NODES = 20
WEIGHTS = [0.0, 0.0625, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0]
CASES = {
    "φ = θ = (¼, ¼, ¼, ¼)": [0.25, 0.25, 0.25, 0.25],
    "φ = θ = (¼, −¼, ¼, −¼), l1": [0.25, -0.25, 0.25, -0.25],
}


@cache
def measure() -> dict[str, tuple[list[float], list[float]]]:
    """Returns radius and bound for each weight of the backbone."""
    edge_index, edge_weight = gcn_norm(ring(NODES))
    adjacency = to_dense_adj(edge_index, edge_attr=edge_weight)[0].double()
    point = torch.zeros(NODES, 1, dtype=torch.float64)
    found = {}
    for name, values in CASES.items():
        phi = theta = torch.tensor([values], dtype=torch.float64)
        radii, bounds = [], []
        for weight in WEIGHTS:

            def loop(x: Tensor, weight: float = weight) -> Tensor:
                return weight * (adjacency @ x)

            radii.append(float(closed_loop_radius(phi, theta, loop, point)))
            bounds.append(float(closed_loop_bound(phi, theta, operator_norm(loop, point))))
        found[name] = (radii, bounds)
    return found


def draw(ink: Ink) -> Figure:
    figure, axes = plt.subplots(figsize=(7.2, 3.3), layout="constrained")
    for index, (name, (radii, bounds)) in enumerate(measure().items()):
        axes.plot(WEIGHTS, radii, "o-", ms=4, color=ink.colors[index], label=f"{name}: radius")
        axes.plot(WEIGHTS, bounds, "--", color=ink.colors[index], label="its bound")
    axes.axhline(1, color=ink.text, lw=1)
    axes.set(xlabel="weight w of the backbone, GNN(f) = w Â f", ylabel="growth a recurrence")
    axes.legend()
    return figure
