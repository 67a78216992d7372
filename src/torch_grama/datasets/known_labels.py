"""Labels computed anew where their definition is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.graph_property import shortest_paths
from torch_grama.datasets.ising import SIGMAS, couplings, local_fields
from torch_grama.datasets.ising import parse_name as parse_ising
from torch_grama.datasets.range_tasks import parse_range, reach_weights
from torch_grama.datasets.task_data import GraphTaskData

Floats = NDArray[np.float64]

_NUM_GRAPHS = 100


def compare_labels(task: GraphTaskData) -> tuple[float, str] | None:
    r"""Computes the labels of some graphs anew: the share that agrees, and what the labels should
    be; :obj:`None` where their definition is not known here.
    """
    family, _, rest = task.name.partition("-")
    maker = _FAMILIES.get(family)
    if maker is None:
        return None
    definition, compute = maker(task.name, rest)
    step = max(1, len(task.graphs) // _NUM_GRAPHS)
    agreed = []
    for graph in task.graphs[::step] if step > 1 else task.graphs:
        expected, found = compute(graph).reshape(-1), graph["y"].double().numpy().reshape(-1)
        agreed.append(np.isclose(found, expected, rtol=1e-4, atol=1e-4))
    return float(np.concatenate(agreed).mean()), definition


Compute = Callable[[Data], Floats]


def _distances(name: str, rest: str) -> tuple[str, Compute]:
    """Property and ECHO: hops from the marked source, to the farthest node, or at most."""
    word = rest.partition("-")[0]

    def compute(graph: Data) -> Floats:
        hops = shortest_paths(_adjacency(graph)[None])[0].astype(np.float64)
        if word.startswith("diam"):
            return np.asarray(hops.max())
        if word.startswith("ecc"):
            return np.asarray(hops.max(axis=1))
        return np.asarray(np.maximum(hops[int(graph["x"][:, 0].argmax())], 0))

    hops = {"d": "the longest shortest path", "e": "the distance of the farthest node"}
    return hops.get(word[:1], "the distance from the marked source"), compute


def _barbell(name: str, rest: str) -> tuple[str, Compute]:
    def compute(graph: Data) -> Floats:
        x = graph["x"].double().numpy().reshape(2, -1)
        return np.repeat(x.mean(axis=1)[::-1], x.shape[1])

    return "the mean of the other clique", compute


def _range(name: str, rest: str) -> tuple[str, Compute]:
    reach, _, hops, variant = parse_range(name)

    def compute(graph: Data) -> Floats:
        x = graph["x"][:, 0].double().numpy()
        pairs = x[None] if variant == "copy" else (x[:, None] - x) ** 2
        return np.asarray((reach_weights(_adjacency(graph)[None], reach, hops)[0] * pairs).sum(1))

    return "the sum over nodes at the stated distance", compute


def _ising(name: str, rest: str) -> tuple[str, Compute]:
    side, kind = parse_ising(name)

    def compute(graph: Data) -> Floats:
        spins = graph["x"].numpy().astype(np.int8).reshape(1, side, side)
        return local_fields(spins, couplings(side, SIGMAS[kind]))

    return "the field of the spin", compute


def _adjacency(graph: Data) -> NDArray[np.bool_]:
    size = int(graph.num_nodes or 0)
    matrix = np.zeros((size, size), dtype=bool)
    source, target = graph["edge_index"].numpy()
    matrix[source, target] = True
    return matrix


_FAMILIES: dict[str, Callable[[str, str], tuple[str, Compute]]] = {
    "property": _distances,
    "echo": _distances,
    "barbell": _barbell,
    "range": _range,
    "ising": _ising,
}
