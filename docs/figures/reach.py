"""How far a task asks, and how far a model looks before and after it has learned the task."""

from __future__ import annotations

import math
from functools import cache

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch_geometric.data import Batch

from figures.ink import Ink
from torch_grama import GRAMA
from torch_grama.analysis import Influence, ModelInput, influence_by_distance, influence_of_task
from torch_grama.datasets import generate_range
from torch_grama.datasets.audit import known_influence

HOPS, STEPS, SHOWN = 3, 200, 10


@cache
def measure() -> dict[str, tuple[list[float], float]]:
    """Returns the share of each distance, and the range, of the task and of the model."""
    torch.manual_seed(0)
    graphs = generate_range("shell", "line", HOPS, "copy", counts=(12, 0, 0))
    batch, one = Batch.from_data_list(list(graphs)), graphs[0]
    inputs = ModelInput(one.x, one.edge_index)
    model = GRAMA(1, 32, 1, seq_len=4, num_blocks=1, backbone="gcn", coefficients="naive")
    matrix = known_influence(f"range-shell-line-{HOPS}-copy")
    assert matrix is not None
    found = {"the task": _shares(influence_of_task([matrix(one.x, one.edge_index)], inputs))}
    found["GRAMA before training"] = _shares(influence_by_distance(model, inputs, exact=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, None, None, batch.batch, len(graphs))
        (out - batch.y).square().mean().backward()
        optimizer.step()
    found["GRAMA after training"] = _shares(influence_by_distance(model, inputs, exact=True))
    return found


def _shares(influence: Influence) -> tuple[list[float], float]:
    total = math.fsum(influence.total) or 1.0
    return [value / total for value in influence.total[: SHOWN + 1]], influence.influence_range


def draw(ink: Ink) -> Figure:
    figure, axes = plt.subplots(figsize=(8.2, 3.6), layout="constrained")
    for index, (name, (shares, reach)) in enumerate(measure().items()):
        axes.plot(
            shares,
            "sDo"[index] + ("--" if index == 0 else "-"),
            ms=4,
            color=ink.colors[index],
            label=f"{name}: ρ = {reach:.1f}",
        )
    axes.set(xlabel="distance in hops", ylabel="share of the influence", ylim=(0, 1.05))
    axes.legend(loc="upper right")
    return figure
