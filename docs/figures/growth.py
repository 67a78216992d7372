"""Scale and roughness of the states along a deep model, before any training."""

from __future__ import annotations

from functools import cache

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch_geometric.datasets import KarateClub

from figures.ink import Ink
from torch_grama import GRAMA
from torch_grama.analysis import measure_smoothness
from torch_grama.baselines import GCN

DEPTH, BLOCKS = 64, 8


@cache
def measure() -> dict[str, tuple[list[float], list[float]]]:
    """Returns root mean square and Dirichlet energy of the states after each application."""
    data = KarateClub()[0]
    sizes = {"seq_len": DEPTH // BLOCKS, "num_blocks": BLOCKS}
    found = {}
    for name, build in {
        'GRAMA, gain "auto"': lambda: GRAMA(34, 32, 4, **sizes),
        "GRAMA, no gain (the paper)": lambda: GRAMA(34, 32, 4, gain=None, **sizes),
        "GCN": lambda: GCN(34, 32, 4, num_layers=DEPTH),
    }.items():
        torch.manual_seed(0)
        smoothness = measure_smoothness(build(), data)
        found[name] = (list(smoothness.size), list(smoothness.energy))
    return found


def draw(ink: Ink) -> Figure:
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.2), layout="constrained")
    for index, (name, (size, energy)) in enumerate(measure().items()):
        style = {"color": ink.colors[index], "label": name, "ls": ("-", "--", ":")[index]}
        axes[0].semilogy(size, **style)
        axes[1].plot(energy, **style)
    axes[0].set(title="Root mean square of the states", xlabel="applications of the backbone")
    axes[1].set(title="Dirichlet energy of the states", xlabel="applications of the backbone")
    axes[0].legend()
    return figure
