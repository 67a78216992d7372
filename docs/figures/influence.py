"""How strongly a node's output depends on inputs k hops away, before any training."""

from __future__ import annotations

import math
from functools import cache

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch.nn import Module

from figures.ink import Ink
from figures.small_graphs import ring
from torch_grama import GRAMA
from torch_grama.analysis import ModelInput, influence_by_distance
from torch_grama.baselines import GCN

NODES, CHANNELS, SEEDS = 37, 32, 3


def models() -> dict[str, Module]:
    """Three models of depth 16, so that all reach 16 hops."""
    return {
        "GCN, 16 layers": GCN(4, CHANNELS, 2, num_layers=16),
        "GRAMA, gain 1": grama(gain=1.0),
        'GRAMA, gain "auto"': grama(gain="auto"),
    }


def grama(**options: object) -> GRAMA:
    return GRAMA(4, CHANNELS, 2, seq_len=8, num_blocks=2, **options)


@cache
def measure() -> dict[str, tuple[list[float], float]]:
    """Returns the share of each distance and the influence range, as means over seeds."""
    found: dict[str, list[tuple[list[float], float]]] = {}
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        inputs = ModelInput(torch.randn(NODES, 4), ring(NODES))
        for name, model in models().items():
            influence = influence_by_distance(model, inputs, exact=True)
            total = math.fsum(influence.total) or 1.0
            shares = [value / total for value in influence.total]
            found.setdefault(name, []).append((shares, influence.influence_range))
    return {
        name: (
            [math.fsum(column) / SEEDS for column in zip(*(s for s, _ in runs), strict=True)],
            math.fsum(rho for _, rho in runs) / SEEDS,
        )
        for name, runs in found.items()
    }


def draw(ink: Ink) -> Figure:
    figure, axes = plt.subplots(figsize=(8.2, 3.8), layout="constrained")
    for index, (name, (shares, reach)) in enumerate(measure().items()):
        axes.semilogy(
            shares,
            "oDs"[index] + "-",
            ms=4,
            color=ink.colors[index],
            label=f"{name}: ρ = {reach:.1f}",
        )
    axes.axvline(16, color=ink.text, lw=1, ls=":")
    axes.text(16.2, 0.5, "depth 16", va="top")
    axes.set(xlabel="distance in hops", ylabel="share of the influence", ylim=(1e-12, 1.2))
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure
