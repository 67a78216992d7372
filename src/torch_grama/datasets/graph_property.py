"""Graph property prediction: diameter, shortest paths from a source and eccentricity.

The graphs are of ten random families, as the multitask benchmark of PNA mixes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactFile, CompactGraphs
from torch_grama.datasets.entry import Entry
from torch_grama.datasets.raw_arrays import Array
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

Adjacency: TypeAlias = NDArray[np.bool_]
Random: TypeAlias = np.random.RandomState

_POWER_LAW_EXPONENT = 3
_POWER_LAW_TRIES = 10_000
SEED = 1234
COUNTS = (5120, 640, 1280)
# Number of graphs of each size: the validation and the test part end at 29 nodes.
SIZES: tuple[tuple[int, int], ...] = (
    *((size, 512) for size in range(25, 35)),
    *((size, 128) for size in range(25, 30)),
    *((size, 256) for size in range(25, 30)),
)
_VERSION = 1
# What stands behind a published name: the column order assumed by the published loaders is not the
# order in which the generator writes the columns.
_COLUMN = {"diameter": "diameter", "sssp": "laplacian", "eccentricity": "sssp"}
_MISNAMED = {
    "sssp": "SSSP is the graph Laplacian applied to the random input column; labels='true' gives "
    "shortest paths",
    "eccentricity": "eccentricity is the distance from the source; labels='true' gives "
    "eccentricities",
}


def generate_property(
    seed: int = SEED, sizes: tuple[tuple[int, int], ...] = SIZES, report: Report | None = None
) -> CompactGraphs:
    r"""Generates the graphs of the property benchmark with all their targets.

    Graphs are drawn as in the multitask benchmark of `PNA
    <https://arxiv.org/abs/2004.05718>`_: a family with its probability, shuffled nodes, toggled
    edges; a graph with an isolated node is drawn again from the same family. The input has two
    columns: a mark on a uniformly drawn source and a :math:`U[0, 1)` value :math:`v`. The targets
    are raw:

    - ``sssp`` (node): hops from the source, 0 where there is no path;
    - ``eccentricity`` (node): largest finite distance from the node;
    - ``laplacian`` (node): :math:`(D - A) v`;
    - ``diameter`` (graph): largest finite distance.

    Args:
        seed (int, optional): The same seed gives the same bytes. (default: :obj:`1234`)
        sizes (tuple, optional): Pairs of a number of nodes and a number of graphs.
            (default: the published 5,120 + 640 + 1,280 graphs)
        report (callable, optional): Told about the progress. (default: :obj:`None`)
    """
    random = np.random.RandomState(seed)
    total = sum(count for _, count in sizes)

    def batches() -> Iterator[tuple[Adjacency, dict[str, Array]]]:
        done = 0
        for size, count in sizes:
            adjacency = np.stack([draw_graph(size, random) for _ in range(count)])
            values = random.random_sample((count, size)).astype(np.float32)
            yield adjacency, _targets(adjacency, values, random.randint(0, size, size=count))
            done += count
            if report is not None:
                report("generating graphs", done, total)

    return CompactGraphs.from_matrices(batches())


def shortest_paths(adjacency: Adjacency) -> NDArray[np.int16]:
    r"""Hop distances of all pairs, for many graphs of one size at once."""
    steps = adjacency.astype(np.float32)
    distance = np.where(adjacency, 1, -1).astype(np.int16)
    distance[:, np.arange(adjacency.shape[1]), np.arange(adjacency.shape[1])] = 0
    frontier, hops = steps, 1
    while bool(frontier.any()):
        hops += 1
        reached = (frontier @ steps > 0) & (distance < 0)
        distance[reached] = hops
        frontier = reached.astype(np.float32)
    return distance


def load_property(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    """Generates the graphs once and hands out the column the task's name stands for."""
    task, labels = entry.arguments
    name = _COLUMN[task] if labels == "published" else task
    everything = storage.generated(
        f"property-seed{seed}-v{_VERSION}",
        lambda: CompactFile(generate_property(seed, SIZES, storage.report)),
    ).graphs
    columns = everything.columns
    graphs = everything.with_columns({"x": columns["x"], "y": columns[name]})
    notes = ["Targets are raw, as behind the published numbers."]
    if name != task:
        notes.append(f"Labels 'published': what the published tables call {_MISNAMED[task]}.")
    return entry.task(
        graphs,
        [consecutive_fold(COUNTS)],
        FeatureEncoding("float", 2),
        notes=tuple(notes),
        source=f"torch_grama.datasets.generate_property(seed={seed}), column '{name}'",
    )


def _targets(
    adjacency: Adjacency, values: NDArray[np.float32], source: NDArray[np.int64]
) -> dict[str, Array]:
    """Inputs and targets of graphs of one size, rows concatenated."""
    count, size, _ = adjacency.shape
    distance = shortest_paths(adjacency)
    mark = np.zeros((count, size), dtype=np.float32)
    mark[np.arange(count), source] = 1.0
    wide = values.astype(np.float64)
    neighbours = np.einsum("gij,gj->gi", adjacency.astype(np.float64), wide)
    targets: dict[str, Array] = {
        "sssp": np.maximum(distance[np.arange(count), source], 0),
        "eccentricity": distance.max(axis=2),
        "laplacian": adjacency.sum(axis=2) * wide - neighbours,
        "diameter": distance.max(axis=(1, 2)),
    }
    rows = {name: target.reshape(-1, 1).astype(np.float32) for name, target in targets.items()}
    return {"x": np.stack([mark, values], axis=2).reshape(-1, 2), **rows}


def erdos_renyi(num_nodes: int, random: Random) -> Adjacency:
    r"""Every pair is an edge with one probability, itself :math:`U[0, 1)`."""
    probability = random.random_sample()
    draws = random.random_sample((num_nodes, num_nodes))
    return _mirror(np.triu(draws < probability, k=1))


def barabasi_albert(num_nodes: int, random: Random) -> Adjacency:
    r"""Preferential attachment of :math:`m = \lfloor u (N - 1) \rfloor + 1` edges per node.

    The growth starts from a star of :math:`m + 1` nodes.
    """
    m = int(random.random_sample() * (num_nodes - 1)) + 1
    adjacency = np.zeros((num_nodes, num_nodes), dtype=bool)
    adjacency[0, 1 : m + 1] = True
    degree = np.zeros(num_nodes)
    degree[0], degree[1 : m + 1] = m, 1
    for new in range(m + 1, num_nodes):
        # m distinct nodes, drawn one after another in proportion to their degree: the m smallest
        # of independent exponential times with the degrees as rates.
        times = -np.log1p(-random.random_sample(new)) / degree[:new]
        chosen = np.argsort(times, kind="stable")[:m]
        adjacency[chosen, new] = True
        degree[chosen] += 1
        degree[new] = m
    return _mirror(adjacency)


def grid(num_nodes: int, random: Random) -> Adjacency:
    r"""A grid as square as the number of nodes allows; a path for a prime."""
    rows = _largest_divisor(num_nodes)
    columns = num_nodes // rows
    across = np.kron(np.eye(rows, dtype=bool), _path(columns))
    return _mirror(across | np.kron(_path(rows), np.eye(columns, dtype=bool)))


def caveman(num_nodes: int, random: Random) -> Adjacency:
    r"""Separate cliques, as many as the rows of the grid."""
    clique = np.arange(num_nodes) // (num_nodes // _largest_divisor(num_nodes))
    return _mirror(np.triu(clique[:, None] == clique, k=1))


def power_law_tree(num_nodes: int, random: Random) -> Adjacency:
    r"""A tree whose degrees follow a power law with exponent 3.

    Degrees are rounded Pareto draws; single ones are drawn again until they sum to
    :math:`2 (N - 1)`. The nodes of degree above 1 form a path, in ascending order, and carry the
    leaves, as in networkx.
    """
    degrees = _pareto(num_nodes, num_nodes, random)
    fresh = _pareto(_POWER_LAW_TRIES, num_nodes, random)
    places = random.randint(0, num_nodes, size=_POWER_LAW_TRIES)
    total = int(degrees.sum())
    for place, degree in zip(places.tolist(), fresh.tolist(), strict=True):
        if total == 2 * (num_nodes - 1):
            break
        total += degree - int(degrees[place])
        degrees[place] = degree
    else:
        raise RuntimeError(f"Found no degrees of a tree in {_POWER_LAW_TRIES} steps")
    inner = np.sort(degrees[degrees > 1])
    # Nodes 0 .. k + 1 are the path, its ends being leaves; the other leaves follow.
    adjacency = line(num_nodes, random)
    adjacency[len(inner) + 1 :, len(inner) + 2 :] = False
    adjacency[len(inner) + 2 :, len(inner) + 1 :] = False
    parents = np.repeat(np.arange(1, len(inner) + 1), inner - 2)
    leaves = len(inner) + 2 + np.arange(len(parents))
    adjacency[parents, leaves] = adjacency[leaves, parents] = True
    return adjacency


def ladder(num_nodes: int, random: Random) -> Adjacency:
    r"""Two rails joined by rungs; an odd node is tied to the first."""
    half = num_nodes // 2
    upper = _path(num_nodes)
    upper[half - 1, half] = upper[2 * half - 1, 2 * half :] = False
    rungs = np.arange(half)
    upper[rungs, rungs + half] = True
    upper[0, 2 * half :] = True
    return _mirror(upper)


def line(num_nodes: int, random: Random) -> Adjacency:
    return _mirror(_path(num_nodes))


def star(num_nodes: int, random: Random) -> Adjacency:
    r"""One centre, all others its leaves."""
    upper = np.zeros((num_nodes, num_nodes), dtype=bool)
    upper[0, 1:] = True
    return _mirror(upper)


def caterpillar(num_nodes: int, random: Random) -> Adjacency:
    r"""A path of :math:`B \sim U\{1, \dots, N - 1\}` nodes, the others hanging on it."""
    backbone = int(random.randint(1, num_nodes))
    return _hang(num_nodes, backbone, num_nodes, random)


def lobster(num_nodes: int, random: Random) -> Adjacency:
    r"""A caterpillar of :math:`F \sim U\{B + 1, \dots, N\}` nodes, the others on its leaves."""
    backbone = int(random.randint(1, num_nodes))
    first_ring = int(random.randint(backbone + 1, num_nodes + 1))
    return _hang(num_nodes, backbone, first_ring, random)


FAMILIES: dict[str, tuple[float, Callable[[int, Random], Adjacency]]] = {
    "erdos-renyi": (0.20, erdos_renyi),
    "barabasi-albert": (0.20, barabasi_albert),
    "grid": (0.05, grid),
    "caveman": (0.05, caveman),
    "tree": (0.15, power_law_tree),
    "ladder": (0.05, ladder),
    "line": (0.05, line),
    "star": (0.05, star),
    "caterpillar": (0.10, caterpillar),
    "lobster": (0.10, lobster),
}
"""The families with their probabilities."""


def draw_graph(num_nodes: int, random: Random) -> Adjacency:
    r"""Draws a graph of a random family without isolated nodes, shuffled and with noisy edges."""
    bounds = np.cumsum([probability for probability, _ in FAMILIES.values()])
    place = int(np.searchsorted(bounds, random.random_sample(), side="right"))
    _, build = list(FAMILIES.values())[min(place, len(FAMILIES) - 1)]
    while True:
        adjacency = build(num_nodes, random)
        order = random.permutation(num_nodes)
        noisy = toggle_edges(adjacency[np.ix_(order, order)], random)
        if bool(noisy.any(axis=0).all()):
            return noisy


def toggle_edges(adjacency: Adjacency, random: Random) -> Adjacency:
    r"""Removes some edges and adds others.

    With :math:`e` edges and :math:`r` non-edges, an edge stays if a draw is below :math:`0.9`
    (:math:`0.9 + 0.1 (e - r) / e` where :math:`e > r`) and a non-edge becomes one below
    :math:`0.1\, e / r` (:math:`0.1`). The draws are :math:`U + U^\top` with
    :math:`U \sim U[0, 0.5)`, hence triangular: a threshold :math:`t \le 0.5` is passed with
    probability :math:`2 t^2`, a larger one with :math:`1 - 2 (1 - t)^2`.
    """
    num_nodes = len(adjacency)
    edges = int(adjacency.sum()) // 2
    others = num_nodes * (num_nodes - 1) // 2 - edges
    if edges <= others:
        stay, appear = 0.9, 0.1 * edges / others
    else:
        stay, appear = 0.9 + 0.1 * (edges - others) / edges, 0.1
    half = random.random_sample((num_nodes, num_nodes)) * 0.5
    draws = half + half.T
    result = np.where(adjacency, draws < stay, draws < appear)
    np.fill_diagonal(result, False)
    return result


def _hang(num_nodes: int, backbone: int, first_ring: int, random: Random) -> Adjacency:
    """Nodes up to ``first_ring`` hang on the backbone path, the rest on those."""
    adjacency = np.zeros((num_nodes, num_nodes), dtype=bool)
    path = np.arange(backbone - 1)
    adjacency[path, path + 1] = True
    inner = np.arange(backbone, first_ring)
    adjacency[random.randint(0, backbone, size=len(inner)), inner] = True
    outer = np.arange(first_ring, num_nodes)
    if len(outer):
        adjacency[random.randint(backbone, first_ring, size=len(outer)), outer] = True
    return _mirror(adjacency)


def _pareto(count: int, largest: int, random: Random) -> NDArray[np.int64]:
    draws = (1.0 - random.random_sample(count)) ** (-1.0 / (_POWER_LAW_EXPONENT - 1))
    return np.minimum(np.rint(draws), largest).astype(np.int64)


def _largest_divisor(number: int) -> int:
    """The largest divisor not above the square root."""
    return max(d for d in range(1, int(number**0.5) + 1) if number % d == 0)


def _path(num_nodes: int) -> Adjacency:
    """Every edge of a path once."""
    return np.eye(num_nodes, k=1, dtype=bool)


def _mirror(upper: Adjacency) -> Adjacency:
    return upper | upper.T
