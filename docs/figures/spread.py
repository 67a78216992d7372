"""How the influence of one node spreads over a grid, recurrence by recurrence."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from figures.ink import Ink
from figures.small_graphs import grid
from torch_grama import GRAMA
from torch_grama.analysis import ModelInput, influence_spread

SIDE = 9


def draw(ink: Ink) -> Figure:
    torch.manual_seed(0)
    edge_index, _ = grid(SIDE, SIDE)
    model = GRAMA(2, 16, 1, seq_len=4, num_blocks=2, coefficients="naive", gain=1.0)
    inputs = ModelInput(torch.randn(SIDE * SIDE, 2), edge_index)
    steps = influence_spread(model, inputs, source=SIDE * (SIDE // 2) + SIDE // 2)
    figure, axes = plt.subplots(1, len(steps), figsize=(10.5, 1.75), layout="constrained")
    norms = steps.view(-1, SIDE, SIDE)
    share = (norms / norms.amax(dim=(1, 2), keepdim=True)).clamp(min=1e-4).log10()
    share[norms == 0] = torch.nan
    for step, (panel, values) in enumerate(zip(axes, share, strict=True)):
        image = panel.imshow(values, cmap=ink.ramp, vmin=-4, vmax=0)
        title = "given" if step == 0 else f"block {(step - 1) // 4 + 1}\nstep {(step - 1) % 4 + 1}"
        panel.set_title(title, size=8.5)
        panel.set(xticks=[], yticks=[])
        panel.grid(False)
        for spine in panel.spines.values():
            spine.set(visible=True, color=ink.faint)
    bar = figure.colorbar(image, ax=axes, shrink=0.75, ticks=[-4, -2, 0])
    bar.ax.set_yticklabels(["$10^{-4}$", "$10^{-2}$", "1"])
    bar.outline.set_visible(False)
    return figure
