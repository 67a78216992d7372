"""The matrices that carry the given sequence and the new residuals to the new states."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor

from figures.ink import Ink
from torch_grama.nn.functional import arma_recurrence

L = R = 8


def draw(ink: Ink) -> Figure:
    phi = torch.tensor([0.7, -0.35, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05], dtype=torch.float64)
    theta = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.01, 0.01], dtype=torch.float64)
    matrices = {
        "M, part of the given states": respond(phi, theta, states=True),
        "M, part of the given residuals": respond(phi, theta, states=False),
        "H, of the new residuals": response(phi, theta),
    }
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1), layout="constrained")
    limit = 1.1
    for panel, (title, matrix) in zip(axes, matrices.items(), strict=True):
        image = panel.imshow(matrix, cmap=ink.diverging, vmin=-limit, vmax=limit)
        panel.set_title(title)
        panel.set(xticks=[], yticks=[], xlabel="oldest … newest")
        panel.grid(False)
    axes[0].set_ylabel("new state: last … first")
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.outline.set_visible(False)
    return figure


def respond(phi: Tensor, theta: Tensor, states: bool) -> Tensor:
    """Returns the new states [R, L] that unit impulses in the given sequence cause."""
    unit = torch.eye(L, dtype=torch.float64).view(L, L, 1)  # node k is an impulse at position k
    given = (unit, torch.zeros_like(unit)) if states else (torch.zeros_like(unit), unit)
    new, _ = arma_recurrence(*given, phi, theta, torch.zeros_like, num_recurrences=R)
    return new.squeeze(-1)


def response(phi: Tensor, theta: Tensor) -> Tensor:
    """Returns the new states [R, R] that unit impulses in the new residuals cause."""
    nothing = torch.zeros(L, R, 1, dtype=torch.float64)
    impulses = iter(torch.eye(R, dtype=torch.float64).unsqueeze(-1))
    new, _ = arma_recurrence(
        nothing, nothing, phi, theta, lambda _: next(impulses), num_recurrences=R
    )
    return new.squeeze(-1)
