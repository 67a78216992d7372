"""Impulse responses: how long one residual is felt."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from figures.ink import Ink
from torch_grama.analysis import impulse_response, memory_length

LENGTH = 32
CASES = {
    "φ = (0.6): fades": [0.6],
    "φ = (1.2, −0.5): swings and fades": [1.2, -0.5],
    "φ = (¼, ¼, ¼, ¼): sums to one, never fades": [0.25] * 4,
    "φ = (0.9, −0.95): poles near the circle": [0.9, -0.95],
}


def draw(ink: Ink) -> Figure:
    figure, axes = plt.subplots(1, 4, figsize=(10.5, 2.5), layout="constrained", sharey=True)
    for index, (panel, (title, values)) in enumerate(zip(axes, CASES.items(), strict=True)):
        phi = torch.tensor(values, dtype=torch.float64)
        response = impulse_response(phi, None, LENGTH)
        memory = float(memory_length(phi, tolerance=1e-2))
        lags = range(len(response))
        panel.vlines(lags, 0, response, color=ink.colors[index], lw=1.6)
        panel.plot(lags, response, ".", color=ink.colors[index])
        panel.axhline(0, color=ink.faint, lw=0.8)
        felt = "felt for ever" if memory == float("inf") else f"felt (≥ 1 %) until lag {memory:.0f}"
        name, _, rest = title.partition(": ")
        panel.set_title(f"{name}\n{rest}\n{felt}", size=8.5)
        panel.set_xlabel("lag")
    axes[0].set_ylabel("response to one residual")
    return figure
