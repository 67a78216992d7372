"""Tasks whose formula is known: their labels computed anew, and how far they ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.catalogue import find
from torch_grama.datasets.graph_property import shortest_paths
from torch_grama.datasets.ising import SIGMAS, couplings, local_fields
from torch_grama.datasets.range_tasks import reach_weights, task_influence
from torch_grama.datasets.task_data import GraphTaskData

Floats = NDArray[np.float64]
Matrix = Callable[[Tensor, Tensor], Tensor]
"""From the inputs ``[N, F]`` and the edges of a graph to the sizes ``[N, N]`` of the derivative of
the target of each node by the value of each."""

_NUM_GRAPHS = 100


@dataclass(frozen=True)
class _Formula:
    definition: str  # what the labels should be
    labels: Callable[[Data], Floats]
    influence: Matrix | None = None


def compare_labels(task: GraphTaskData) -> tuple[float, str] | None:
    r"""Computes the labels of some graphs anew: the share that agrees, and what the labels should
    be; :obj:`None` where their definition is not known here.
    """
    formula = _find(task.name)
    if formula is None:
        return None
    step = max(1, len(task.graphs) // _NUM_GRAPHS)
    agreed = []
    for graph in task.graphs[::step] if step > 1 else task.graphs:
        expected, found = formula.labels(graph).reshape(-1), graph["y"].double().numpy().reshape(-1)
        agreed.append(np.isclose(found, expected, rtol=1e-4, atol=1e-4))
    return float(np.concatenate(agreed).mean()), formula.definition


def known_influence(name: str) -> Matrix | None:
    r"""Returns what computes the influence of a task; :obj:`None` where its formula is unknown.

    Known are the barbells, the range tasks and the Ising model.

    Example:
        >>> barbell = known_influence("barbell-2")
        >>> barbell(torch.zeros(4, 1), torch.tensor([[0, 1, 2], [1, 2, 3]]))[0]
        tensor([0.0000, 0.0000, 0.5000, 0.5000], dtype=torch.float64)
    """
    formula = _find(name)
    return None if formula is None else formula.influence


def _distances(name: str) -> _Formula:
    """Property and ECHO: hops from the marked source, to the farthest node, or at most."""
    word = name.split("-")[1]

    def labels(graph: Data) -> Floats:
        matrix = _adjacency(graph["edge_index"], graph.num_nodes or 0)
        hops: Floats = shortest_paths(matrix)[0].astype(np.float64)
        if word.startswith("diam"):
            return np.asarray(hops.max())
        if word.startswith("ecc"):
            return np.asarray(hops.max(axis=1))
        return np.asarray(np.maximum(hops[int(graph["x"][:, 0].argmax())], 0))

    hops = {"d": "the longest shortest path", "e": "the distance of the farthest node"}
    return _Formula(hops.get(word[:1], "the distance from the marked source"), labels)


def _barbell(name: str) -> _Formula:
    def labels(graph: Data) -> Floats:
        x = graph["x"].double().numpy().reshape(2, -1)
        return np.repeat(x.mean(axis=1)[::-1], x.shape[1])

    def influence(x: Tensor, edge_index: Tensor) -> Tensor:
        size = len(x) // 2
        clique = torch.arange(len(x)) // size
        return (clique[:, None] != clique).double() / size

    return _Formula("the mean of the other clique", labels, influence)


def _range(name: str) -> _Formula:
    reach, _, hops, variant = find(name).arguments

    def labels(graph: Data) -> Floats:
        x = graph["x"][:, 0].double().numpy()
        pairs = x[None] if variant == "copy" else (x[:, None] - x) ** 2
        weights = reach_weights(_adjacency(graph["edge_index"], len(x)), reach, hops)[0]
        return np.asarray((weights * pairs).sum(1))

    def influence(x: Tensor, edge_index: Tensor) -> Tensor:
        values = x[:, 0].double().cpu().numpy()[None]
        adjacency = _adjacency(edge_index, len(x))
        return torch.from_numpy(task_influence(adjacency, values, reach, hops, variant)[0])

    return _Formula("the sum over nodes at the stated distance", labels, influence)


def _ising(name: str) -> _Formula:
    side, kind = find(name).arguments
    strength = couplings(side, SIGMAS[kind])

    def labels(graph: Data) -> Floats:
        spins = graph["x"].numpy().astype(np.int8).reshape(1, side, side)
        return local_fields(spins, strength)

    def influence(x: Tensor, edge_index: Tensor) -> Tensor:
        # a target changes with its own spin by all that the others contribute
        row, line = np.divmod(np.arange(side * side), side)
        found = strength[(row[:, None] - row) % side, (line[:, None] - line) % side]
        spins = x[:, 0].double().cpu().numpy()
        return torch.from_numpy(found + np.diag(np.abs(found @ spins)))

    return _Formula("the field of the spin", labels, influence)


def _adjacency(edge_index: Tensor, size: int) -> NDArray[np.bool_]:
    """The matrix of one graph ``[1, N, N]``."""
    matrix = np.zeros((1, size, size), dtype=bool)
    source, target = edge_index.cpu().numpy()
    matrix[0, source, target] = True
    return matrix


_FAMILIES: dict[str, Callable[[str], _Formula]] = {
    "property": _distances,
    "echo": _distances,
    "barbell": _barbell,
    "range": _range,
    "ising": _ising,
}


def _find(name: str) -> _Formula | None:
    make = _FAMILIES.get(name.partition("-")[0])
    return None if make is None else make(name)
