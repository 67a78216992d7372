"""How far a task asks: derivatives of targets by inputs, where the formula of the task is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from torch_grama.datasets.ising import SIGMAS, couplings
from torch_grama.datasets.ising import parse_name as parse_ising
from torch_grama.datasets.range_tasks import parse_range, task_influence

Matrix = Callable[[Tensor, Tensor], Tensor]
"""From the inputs ``[N, F]`` and the edges of a graph to the sizes ``[N, N]`` of the derivative of
the target of each node by the value of each."""


def known_influence(name: str) -> Matrix | None:
    r"""Returns what computes the influence of a task; :obj:`None` where its formula is unknown.

    Known are the barbells, the range tasks and the Ising model.

    Example:
        >>> barbell = known_influence("barbell-2")
        >>> barbell(torch.zeros(4, 1), torch.tensor([[0, 1, 2], [1, 2, 3]]))[0]
        tensor([0.0000, 0.0000, 0.5000, 0.5000], dtype=torch.float64)
    """
    family = name.partition("-")[0]
    return {"barbell": _barbell, "range": _range, "ising": _ising}.get(family, _unknown)(name)


def _unknown(name: str) -> None:
    return None


def _barbell(name: str) -> Matrix:
    def matrix(x: Tensor, edge_index: Tensor) -> Tensor:
        size = len(x) // 2
        clique = torch.arange(len(x)) // size
        return (clique[:, None] != clique).double() / size

    return matrix


def _range(name: str) -> Matrix:
    reach, _, hops, variant = parse_range(name)

    def matrix(x: Tensor, edge_index: Tensor) -> Tensor:
        adjacency = np.zeros((1, len(x), len(x)), dtype=bool)
        source, target = edge_index.cpu().numpy()
        adjacency[0, source, target] = True
        values = x[:, 0].double().cpu().numpy()[None]
        return torch.from_numpy(task_influence(adjacency, values, reach, hops, variant)[0])

    return matrix


def _ising(name: str) -> Matrix:
    side, kind = parse_ising(name)
    strength = couplings(side, SIGMAS[kind])

    def matrix(x: Tensor, edge_index: Tensor) -> Tensor:
        # a target changes with its own spin by all that the others contribute
        row, line = np.divmod(np.arange(side * side), side)
        found = strength[(row[:, None] - row) % side, (line[:, None] - line) % side]
        spins = x[:, 0].double().cpu().numpy()
        return torch.from_numpy(found + np.diag(np.abs(found @ spins)))

    return matrix
