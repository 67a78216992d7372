"""GRAMA in one picture: L given graphs, R new ones a block, S blocks, orders p and q."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

from figures.ink import Ink
from figures.small_graphs import HOUSE_EDGES, HOUSE_PLACES, both_ways, draw_house
from torch_grama import GRAMA, Coefficients

L, R, S, P, Q = 4, 3, 2, 3, 2
STEP, GAP = 1.3, 1.35
STATES, RESIDUALS = 1.9, 0.0
BRACKET = 4.05


def draw(ink: Ink) -> Figure:
    figure, axes = plt.subplots(figsize=(9.4, 3.9))
    given, blocks = run_model()
    x_given = STEP + 1.45
    x_blocks = [x_given + L * STEP + GAP + s * (R * STEP + 0.55) for s in range(S)]
    x_out = x_blocks[-1] + R * STEP + 0.1
    middle = STATES + 0.42

    draw_house(axes, ink, 0.0, STATES, 1.0, torch.linspace(0, 1, len(HOUSE_PLACES)))
    axes.text(0.45, STATES + 1.05, "your graph", ha="center")
    arrow(axes, ink, (1.3, middle), (x_given - 0.25, middle), "$g_0 \\ldots g_3$")
    for k in range(L):
        draw_pair(axes, ink, x_given + k * STEP, given[0][k], given[1][k], k)
    bracket(axes, ink, x_given - 0.1, x_given + (L - 1) * STEP + 1.0, BRACKET, f"L = {L} given")
    for s, (states, residuals) in enumerate(blocks):
        left = x_blocks[s] - 0.17
        for r in range(R):
            draw_pair(axes, ink, x_blocks[s] + r * STEP, states[r], residuals[r], L + s * R + r)
        frame = FancyBboxPatch((left, RESIDUALS - 0.58), R * STEP, 3.93, boxstyle="round,pad=0.08")
        frame.set(facecolor="none", edgecolor=ink.colors[0], linewidth=1.2)
        axes.add_patch(frame)
        bracket(axes, ink, left, left + R * STEP, BRACKET, f"block {s + 1}: R = {R} new")
    bracket(axes, ink, x_blocks[0] - 0.2, x_out - 0.3, BRACKET + 0.65, f"S = {S} blocks")
    arrow(axes, ink, (x_out - 0.12, middle), (x_out + 0.5, middle), "")
    axes.text(x_out + 0.58, middle, "readout", va="center")
    axes.text(x_given - 0.25, RESIDUALS + 0.2, "residuals δ", ha="right", size=10)
    axes.text(x_given - 0.25, STATES - 0.05, "states f", ha="right", size=10, va="top")
    draw_first_step(axes, ink, x_given, x_blocks[0])
    axes.set(xlim=(-0.3, x_out + 1.75), ylim=(-1.05, 5.15), aspect="equal")
    axes.axis("off")
    return figure


def run_model() -> tuple[tuple[Tensor, Tensor], list[tuple[Tensor, Tensor]]]:
    """Runs a small model and returns the size of every state and residual, from 0 to 1."""
    torch.manual_seed(3)
    orders = Coefficients(ar_order=P, ma_order=Q)
    model = GRAMA(4, 16, 2, L, S, num_recurrences=R, coefficients=orders)
    edge_index = both_ways(HOUSE_EDGES)
    with torch.no_grad():
        pair = model.embedding(torch.randn(len(HOUSE_PLACES), 4))
        pairs = [pair]
        for block in model.blocks:
            pair = block(*pair, edge_index)
            pairs.append(pair)
    sizes = [tuple(scale(part.norm(dim=-1)) for part in pair) for pair in pairs]
    return sizes[0], sizes[1:]


def scale(sizes: Tensor) -> Tensor:
    return sizes / sizes.amax(dim=1, keepdim=True).clamp(min=1e-12)


def draw_pair(axes: Axes, ink: Ink, x: float, state: Tensor, residual: Tensor, k: int) -> None:
    """Draws a state and, below it, the residual of the same index."""
    draw_house(axes, ink, x, STATES, 0.95, state)
    draw_house(axes, ink, x + 0.12, RESIDUALS, 0.7, residual)
    axes.text(x + 0.42, STATES + 0.87, f"$f^{{({k})}}$", ha="center", size=10)
    axes.text(x + 0.42, RESIDUALS - 0.5, f"$δ^{{({k})}}$", ha="center", size=10)


def draw_first_step(axes: Axes, ink: Ink, x_given: float, x_new: float) -> None:
    """Draws which elements the first new state is made of."""
    ar, ma, gnn = ink.colors[1], ink.colors[2], ink.colors[0]
    newest = x_given + (L - 1) * STEP
    for i in range(1, P + 1):
        start = (newest - (i - 1) * STEP + 0.5, STATES + 1.2)
        curve(axes, ar, start, (x_new + 0.3, STATES + 1.17), -0.16)
    label = f"p = {P} states, weights φ"
    axes.text(newest - 0.6 * STEP, STATES - 0.14, label, color=ar, ha="center", va="top")
    for j in range(1, Q + 1):
        start = (newest - (j - 1) * STEP + 0.85, RESIDUALS + 0.4)
        curve(axes, ma, start, (x_new + 0.02, STATES + 0.12), 0.1)
    label = f"q = {Q} residuals, weights θ"
    axes.text(newest - 0.55 * STEP, RESIDUALS - 0.72, label, color=ma, ha="center", va="top")
    curve(axes, gnn, (newest + 1.0, STATES + 0.42), (x_new + 0.15, RESIDUALS + 0.6), 0.0)
    axes.text(newest + 1.32, STATES + 0.42, "GNN", color=gnn, weight="bold")
    curve(axes, gnn, (x_new + 0.42, RESIDUALS + 0.62), (x_new + 0.42, STATES - 0.1), 0.0)


def arrow(
    axes: Axes, ink: Ink, start: tuple[float, float], end: tuple[float, float], text: str
) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=ink.text))
    axes.text((start[0] + end[0]) / 2, start[1] + 0.15, text, ha="center")


def curve(
    axes: Axes, color: str, start: tuple[float, float], end: tuple[float, float], bend: float
) -> None:
    patch = FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>")
    patch.set(color=color, linewidth=1.3, zorder=4, mutation_scale=9)
    axes.add_patch(patch)


def bracket(axes: Axes, ink: Ink, left: float, right: float, y: float, text: str) -> None:
    """Draws a bracket over a range, with a text above it."""
    axes.plot([left, left, right, right], [y - 0.1, y, y, y - 0.1], color=ink.text, lw=1.0)
    axes.text((left + right) / 2, y + 0.08, text, ha="center", va="bottom", weight="bold")
