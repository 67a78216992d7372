"""Poles of random coefficients under two constraints, and of a model before training."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.utils import erdos_renyi_graph

from figures.ink import Ink
from torch_grama import GRAMA
from torch_grama.analysis import characteristic_roots, spectral_radius
from torch_grama.nn.functional import normalize_l1, normalize_sum

ORDER, DRAWS = 8, 200
TOLERANCE = 1e-3  # a pole on the circle may come out a little off it


def draw(ink: Ink) -> Figure:
    torch.manual_seed(0)
    scores = torch.randn(DRAWS, ORDER, dtype=torch.float64).tanh()
    cases: list[tuple[str, Tensor]] = [
        ('constraint="sum"', normalize_sum(scores)),
        ('constraint="l1"', normalize_l1(scores)),
        ('a fresh GRAMA, selective, "sum"', fresh_coefficients()),
    ]
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
    angle = torch.linspace(0, 2 * torch.pi, 200)
    for index, (panel, (title, phi)) in enumerate(zip(axes, cases, strict=True)):
        roots = characteristic_roots(phi).flatten()
        outside = (spectral_radius(phi) > 1 + TOLERANCE).double().mean()
        panel.plot(angle.cos(), angle.sin(), color=ink.text, lw=1)
        panel.plot(
            roots.real,
            roots.imag,
            ".",
            color=ink.colors[index],
            ms=4,
            alpha=0.5,
            mew=0,
            rasterized=True,
        )
        panel.set(xlim=(-2.1, 2.1), ylim=(-2.1, 2.1), aspect="equal", xlabel="real part")
        panel.set_title(f"{title}\n{outside:.0%} of {len(phi)} have one outside")
    axes[0].set_ylabel("imaginary part")
    return figure


def fresh_coefficients() -> Tensor:
    """Returns the coefficients of the first block of untrained models on random graphs."""
    found = []
    for seed in range(DRAWS):
        torch.manual_seed(seed)
        model = GRAMA(4, 32, 2, seq_len=ORDER, num_blocks=1)
        edge_index = erdos_renyi_graph(20, 0.2)
        with torch.no_grad():
            _, blocks = model(torch.randn(20, 4), edge_index, return_coefficients=True)
        found.append(blocks[0].phi)
    return torch.cat(found).double()
