"""Tasks of known range: sums over the nodes at a set distance, and means across one edge."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactGraphs
from torch_grama.datasets.entry import Entry
from torch_grama.datasets.graph_property import shortest_paths
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

Reach = Literal["power", "shell", "ball"]
Topology = Literal["line", "grid", "er", "ba", "sbm"]
Variant = Literal["square", "copy"]
Floats = NDArray[np.float64]
Adjacency = NDArray[np.bool_]

REACHES: tuple[Reach, ...] = ("power", "shell", "ball")
TOPOLOGIES: tuple[Topology, ...] = ("line", "grid", "er", "ba", "sbm")
VARIANTS: tuple[Variant, ...] = ("square", "copy")
SEED = 1234
BARBELL_COUNTS = (50, 50, 50)
COUNTS = (300, 100, 100)
_LONGER = {  # graphs of ten hops, where the published ones end before
    "er": "a uniform random tree, and 0.1 % of all other pairs as further edges",
    "ba": "a tree of 34 nodes by preferential attachment, each edge stretched to three hops",
    "sbm": "20 blocks of 5 in a row, joined with 0.9 inside, 0.25 to the next and 0 beyond",
}
_GRID_SIDE = 16
_NUM_NODES = 100


def generate_barbell(
    size: int, seed: int = SEED, counts: tuple[int, int, int] = BARBELL_COUNTS
) -> CompactGraphs:
    r"""Generates barbells: two cliques of :math:`N` nodes with one edge between them.

    The values of the first clique are uniform on :math:`[-2\sqrt{3N}, 0]`, those of the second on
    :math:`[0, 2\sqrt{3N}]`. The target of every node is the mean of the *other* clique, so all
    that is asked for passes one edge. That mean has variance 1: whoever knows only the middle of
    the interval has a mean squared error of about 1. The bridge joins the last node of the first
    clique to the first node of the second.

    Args:
        size (int): Nodes :math:`N` of a clique, at least 2.
        seed (int, optional): The same seed gives the same graphs. (default: :obj:`1234`)
        counts (tuple of int, optional): Training, validation and test graphs.
            (default: :obj:`(50, 50, 50)`)

    Raises:
        ValueError: If a clique has fewer than 2 nodes.
    """
    if size < 2:
        raise ValueError(f"Expected cliques of at least 2 nodes (got {size})")
    total = sum(counts)
    width = 2 * np.sqrt(3 * size)
    values = np.random.RandomState(seed).random_sample((total, 2, size)) * width
    values[:, 0] -= width
    means = values.mean(axis=2)[:, ::-1]  # of the other clique
    clique = np.arange(2 * size) // size
    adjacency = (clique[:, None] == clique) & ~np.eye(2 * size, dtype=bool)
    adjacency[size - 1, size] = adjacency[size, size - 1] = True
    return _pack(adjacency[None], values.reshape(total, -1), np.repeat(means, size, axis=1))


def load_barbell(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    (size,) = entry.arguments
    return entry.task(
        generate_barbell(size, seed),
        [consecutive_fold(BARBELL_COUNTS)],
        FeatureEncoding("float", 1),
        notes=("Predicting the middle of the other clique's interval costs about 1.",),
        source=f"torch_grama.datasets.generate_barbell({size}, seed={seed})",
    )


def generate_range(
    reach: Reach,
    topology: Topology,
    hops: int,
    variant: Variant = "square",
    seed: int = SEED,
    counts: tuple[int, int, int] = COUNTS,
) -> CompactGraphs:
    r"""Generates graphs whose targets are sums over nodes at a known distance.

    .. math::
        y_i = \sum_j D_{ij}\, g(x_i, x_j), \qquad x_i \sim \mathcal{N}(0, 1)

    where :math:`D` is the ``power`` :math:`(\tilde A_{sym})^K` of the symmetrically normalised
    adjacency with self-loops, the mean over the ``shell`` of nodes at exactly :math:`K` hops, or
    the mean over the ``ball`` of nodes within :math:`K` hops; and :math:`g` is
    :math:`(x_i - x_j)^2` for ``square`` and :math:`x_j` for ``copy``. A node with an empty shell
    has the target 0. See `On Measuring Long-Range Interactions in Graph Neural Networks
    <https://arxiv.org/abs/2506.05971>`_.

    The topologies are a ``line`` of 100 nodes, a ``grid`` of 16 x 16, and random graphs of 100
    nodes, longer than the published ones, which end before ten hops:

    - ``er``: a uniform random tree, as an Erdos-Renyi graph this sparse is once it is connected,
      and an edge for every other pair with a probability of 0.001;
    - ``ba``: a tree of 34 nodes by preferential attachment, each edge stretched to three hops;
    - ``sbm``: 20 blocks of five nodes in a row, with probabilities 0.9 inside a block, 0.25
      between one and the next, and 0 beyond.

    At ten hops, fewer than one shell in a hundred is empty.

    Args:
        reach (str): ``power``, ``shell`` or ``ball``.
        topology (str): ``line``, ``grid``, ``er``, ``ba`` or ``sbm``.
        hops (int): The distance :math:`K`, from 1 to 10.
        variant (str, optional): ``square`` or ``copy``. (default: :obj:`"square"`)
        seed (int, optional): The same seed gives the same graphs and inputs, and targets up to the
            rounding of sums. (default: :obj:`1234`)
        counts (tuple of int, optional): Training, validation and test graphs.
            (default: :obj:`(300, 100, 100)`)

    Raises:
        ValueError: If a word is unknown or the distance is not between 1 and 10.
    """
    if reach not in REACHES or topology not in TOPOLOGIES or variant not in VARIANTS:
        raise ValueError(
            f"Expected a reach of {REACHES}, a topology of {TOPOLOGIES} and a variant of "
            f"{VARIANTS} (got '{reach}', '{topology}' and '{variant}')"
        )
    if not 1 <= hops <= 10:
        raise ValueError(f"Expected 'hops' to be from 1 to 10 (got {hops})")
    random = np.random.RandomState(seed)
    total = sum(counts)
    adjacency = _draw(topology, total, random)
    x = random.standard_normal((total, adjacency.shape[1]))
    weights = reach_weights(adjacency, reach, hops)
    y = (weights @ x[:, :, None])[:, :, 0]
    if variant == "square":
        ones, squares = weights.sum(axis=2), (weights @ (x * x)[:, :, None])[:, :, 0]
        y = x * x * ones - 2 * x * y + squares
    return _pack(adjacency, x, y)


def reach_weights(adjacency: Adjacency, reach: Reach, hops: int) -> Floats:
    r"""The matrices :math:`D` of graphs of one size ``[G, N, N]``."""
    if reach == "power":
        loops = adjacency | np.eye(adjacency.shape[1], dtype=bool)
        scale = 1 / np.sqrt(loops.sum(axis=2))
        return np.linalg.matrix_power(loops * scale[:, :, None] * scale[:, None], hops)
    distance = shortest_paths(adjacency)
    kept = distance == hops if reach == "shell" else (distance >= 0) & (distance <= hops)
    weights: Floats = kept / np.maximum(kept.sum(axis=2, keepdims=True), 1)
    return weights


def best_filter_error(adjacency: Adjacency, reach: Reach, hops: int, variant: Variant) -> float:
    r"""The expected error of whoever has the best polynomial in GCN's matrix in the place of
    :math:`D`, of as many hops and with the same coefficients for all nodes, and knows all else.
    """
    # Values are N(0, 1): x_j has the variance 1, and of (x_i - x_j)^2, which is 0 for the node
    # itself, -2 x_i x_j has 4 and x_j^2 has 2.
    itself = np.eye(adjacency.shape[1])
    counted, variance = (1, 1) if variant == "copy" else (1 - itself, 6)
    step = reach_weights(adjacency, "power", 1)
    power, basis = np.broadcast_to(itself, step.shape), []
    for _ in range(hops + 1):
        basis.append((power * counted).ravel())
        power = power @ step
    powers = np.stack(basis)
    wanted = (reach_weights(adjacency, reach, hops) * counted).ravel()
    rest = wanted - np.linalg.lstsq(powers @ powers.T, powers @ wanted, rcond=None)[0] @ powers
    return variance * float(rest @ rest) / adjacency[:, 0].size


def task_influence(
    adjacency: Adjacency, x: Floats, reach: Reach, hops: int, variant: Variant
) -> Floats:
    r"""The size of :math:`\partial y_i / \partial x_j` of a range task, ``[G, N, N]``."""
    weights = reach_weights(adjacency, reach, hops)
    if variant == "copy":
        return weights
    pairs = 2 * weights * (x[:, None, :] - x[:, :, None])  # x_j - x_i
    place = np.arange(adjacency.shape[1])
    pairs[:, place, place] = -pairs.sum(axis=2)
    return np.abs(pairs)


def load_range(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    reach, topology, hops, variant = entry.arguments
    adjacency = _draw(topology, sum(COUNTS), np.random.RandomState(seed))[-COUNTS[2] :]
    error = best_filter_error(adjacency, reach, hops, variant)
    call = f"{reach!r}, {topology!r}, {hops}, {variant!r}, seed={seed}"
    return entry.task(
        generate_range(reach, topology, hops, variant, seed),
        [consecutive_fold(COUNTS)],
        FeatureEncoding("float", 1),
        notes=(
            *([f"Longer than published: {_LONGER[topology]}."] if topology in _LONGER else ()),
            f"The best filter of {hops} hops, one polynomial in GCN's matrix for all nodes, has an "
            f"expected test error of {round(error, 6):.3g}.",
        ),
        source=f"torch_grama.datasets.generate_range({call})",
    )


def _draw(topology: Topology, total: int, random: np.random.RandomState) -> Adjacency:
    """Adjacency matrices [G, N, N]; one matrix where all graphs have the same edges."""
    place = np.arange(_NUM_NODES)
    if topology == "line":
        return np.asarray(np.abs(place[:, None] - place)[None] == 1)
    if topology == "grid":
        row, line = np.divmod(np.arange(_GRID_SIDE**2), _GRID_SIDE)
        apart = np.abs(row[:, None] - row) + np.abs(line[:, None] - line)
        return np.asarray(apart[None] == 1)
    shape = (total, _NUM_NODES, _NUM_NODES)
    apart = np.abs(place[:, None] // 5 - place // 5)  # of blocks
    chance = 0.001 if topology == "er" else np.select([apart == 0, apart == 1], [0.9, 0.25], 0.0)
    if topology == "ba":
        joined = _stretched_trees(shape, random)
    else:
        joined = np.triu(random.random_sample(shape) < chance, k=1)
    if topology == "er":
        joined |= _uniform_trees(shape, random)
    return joined | joined.transpose(0, 2, 1)


def _uniform_trees(shape: tuple[int, int, int], random: np.random.RandomState) -> Adjacency:
    """Uniform random trees, read off the words of Pruefer."""
    total, size, _ = shape
    joined, graph = np.zeros(shape, dtype=bool), np.arange(total)
    word = random.randint(0, size, size=(total, size - 2))
    left = 1 + np.stack([np.bincount(letters, minlength=size) for letters in word])
    for node in word.T:
        leaf = (left == 1).argmax(axis=1)
        joined[graph, leaf, node] = True
        left[graph, leaf] = 0
        left[graph, node] -= 1
    ends = np.nonzero(left)[1].reshape(total, 2)
    joined[graph, ends[:, 0], ends[:, 1]] = True
    return joined


def _stretched_trees(shape: tuple[int, int, int], random: np.random.RandomState) -> Adjacency:
    total, size, _ = shape
    joined, graph = np.zeros(shape, dtype=bool), np.arange(total)
    ends = np.zeros((total, 2 * (size // 3)), dtype=np.int64)  # ends of all edges so far
    for edge in range(size // 3):
        old = ends[graph, random.randint(0, max(2 * edge, 1), size=total)]
        path = [old, *np.arange(3 * edge + 1, 3 * edge + 4)]
        for one, next_one in itertools.pairwise(path):
            joined[graph, one, next_one] = True
        ends[:, 2 * edge], ends[:, 2 * edge + 1] = old, path[-1]
    return joined


def _pack(adjacency: Adjacency, x: Floats, y: Floats) -> CompactGraphs:
    """Graphs with values ``[G, N]``; one adjacency matrix may stand for all."""
    matrices = np.broadcast_to(adjacency, (len(x), *adjacency.shape[1:]))
    rows = {name: v.reshape(-1, 1).astype(np.float32) for name, v in (("x", x), ("y", y))}
    return CompactGraphs.from_matrices([(matrices, rows)])
