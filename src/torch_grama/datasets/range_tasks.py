"""Range tasks: sums over the nodes at a set distance, so that the range is known exactly."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.barbell import CITATION
from torch_grama.datasets.compact import CompactGraphs, column
from torch_grama.datasets.entry import MSE, Entry, Published
from torch_grama.datasets.graph_property import shortest_paths
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

Reach = Literal["power", "shell", "ball"]
Topology = Literal["line", "grid", "er", "ba", "sbm"]
Variant = Literal["square", "copy"]
Floats = NDArray[np.float64]

REACHES: tuple[Reach, ...] = ("power", "shell", "ball")
TOPOLOGIES: tuple[Topology, ...] = ("line", "grid", "er", "ba", "sbm")
VARIANTS: tuple[Variant, ...] = ("square", "copy")
COUNTS = (300, 100, 100)
MOST_HOPS = 10
SEED = 1234
_GRID_SIDE = 16
_NUM_NODES = 100


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
    nodes: ``er`` with a probability of 0.02 for each pair, ``ba``, a tree by preferential
    attachment, and ``sbm`` with two blocks of 50 and probabilities 0.05 inside and 0.005 between.
    These are sparser than the published ones, whose diameter is too small for ten hops.

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
    if not 1 <= hops <= MOST_HOPS:
        raise ValueError(f"Expected 'hops' to be from 1 to {MOST_HOPS} (got {hops})")
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


def reach_weights(adjacency: NDArray[np.bool_], reach: Reach, hops: int) -> Floats:
    r"""The matrices :math:`D` of graphs of one size ``[G, N, N]``."""
    if reach == "power":
        loops = adjacency | np.eye(adjacency.shape[1], dtype=bool)
        scale = 1 / np.sqrt(loops.sum(axis=2))
        return np.linalg.matrix_power(loops * scale[:, :, None] * scale[:, None], hops)
    distance = shortest_paths(adjacency)
    kept = distance == hops if reach == "shell" else (distance >= 0) & (distance <= hops)
    weights: Floats = kept / np.maximum(kept.sum(axis=2, keepdims=True), 1)
    return weights


def task_influence(
    adjacency: NDArray[np.bool_], x: Floats, reach: Reach, hops: int, variant: Variant
) -> Floats:
    r"""The size of :math:`\partial y_i / \partial x_j` of a range task, ``[G, N, N]``."""
    weights = reach_weights(adjacency, reach, hops)
    if variant == "copy":
        return weights
    pairs = 2 * weights * (x[:, None, :] - x[:, :, None])  # x_j - x_i
    place = np.arange(adjacency.shape[1])
    pairs[:, place, place] = -pairs.sum(axis=2)
    return np.abs(pairs)


def load_range(
    entry: Entry, storage: Storage, *, variant: Variant = "square", seed: int = SEED
) -> GraphTaskData:
    """Generates a range task; the name of the entry says reach, topology and distance."""
    reach, topology, hops, _ = parse_range(entry.name)
    call = f"{reach!r}, {topology!r}, {hops}, {variant!r}, seed={seed}"
    return entry.task(
        generate_range(reach, topology, hops, variant, seed),
        [consecutive_fold(COUNTS)],
        FeatureEncoding("float", 1),
        source=f"torch_grama.datasets.generate_range({call})",
    )


def range_entry(name: str) -> Entry:
    r"""The catalogue's entry for a reach, a topology, a distance and a variant."""
    reach, topology, hops, variant = parse_range(name)
    total = sum(COUNTS)
    what = {"power": "adjacency to the power", "shell": "nodes at hop", "ball": "nodes up to hop"}[
        reach
    ]
    nodes = _GRID_SIDE**2 if topology == "grid" else _NUM_NODES
    edges = {"line": _NUM_NODES - 1, "ba": _NUM_NODES - 1, "grid": 2 * _GRID_SIDE * 15}
    return Entry(
        name=name,
        family="ranges",
        summary=f"a sum over the {what} {hops} of '{topology}'",
        level="node",
        kind="regression",
        metric=MSE,
        num_outputs=1,
        loader=load_range,
        published=Published(
            num_graphs=total,
            num_nodes=total * nodes,
            num_edges=total * edges[topology] if topology in edges else None,
            num_features=1,
            split=COUNTS,
            edges="undirected",
            source="the construction of Bamberger et al., 2025, on sparser random graphs",
        ),
        options={
            "variant": (variant, *(word for word in VARIANTS if word != variant)),
            "seed": (SEED, int),
        },
        origin="generated",
        licence="none needed: generated",
        citation=CITATION,
    )


def parse_range(name: str) -> tuple[Reach, Topology, int, Variant]:
    r"""Splits ``range-<reach>-<topology>-<hops>[-<variant>]``."""
    family, *words = name.split("-")
    reach, topology, hops, variant = [*words, "square"][:4] if len(words) in (3, 4) else [""] * 4
    known = reach in REACHES and topology in TOPOLOGIES and variant in VARIANTS
    if family == "range" and known and hops.isdecimal() and 1 <= int(hops) <= MOST_HOPS:
        return reach, topology, int(hops), variant  # type: ignore[return-value]
    raise ValueError(
        f"Expected a name like 'range-shell-grid-10' or 'range-power-line-5-copy', with 1 to "
        f"{MOST_HOPS} hops, a reach of {', '.join(REACHES)} and a topology of "
        f"{', '.join(TOPOLOGIES)} (got '{name}')"
    )


def _draw(topology: Topology, total: int, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Adjacency matrices [G, N, N]; one matrix where all graphs have the same edges."""
    place = np.arange(_NUM_NODES)
    if topology == "line":
        return np.asarray(np.abs(place[:, None] - place)[None] == 1)
    if topology == "grid":
        row, line = np.divmod(np.arange(_GRID_SIDE**2), _GRID_SIDE)
        apart = np.abs(row[:, None] - row) + np.abs(line[:, None] - line)
        return np.asarray(apart[None] == 1)
    upper = np.zeros((total, _NUM_NODES, _NUM_NODES), dtype=bool)
    if topology == "ba":
        ends = np.zeros((total, 2 * _NUM_NODES), dtype=np.int64)  # ends of all edges so far
        graph = np.arange(total)
        for new in range(1, _NUM_NODES):
            old = ends[graph, random.randint(0, max(2 * (new - 1), 1), size=total)]
            ends[:, 2 * new - 2], ends[:, 2 * new - 1] = old, new
            upper[graph, old, new] = True
    else:
        same = place[:, None] * 2 // _NUM_NODES == place * 2 // _NUM_NODES
        chance = 0.02 if topology == "er" else np.where(same, 0.05, 0.005)
        upper = np.triu(random.random_sample(upper.shape) < chance, k=1)
    return upper | upper.transpose(0, 2, 1)


def _pack(adjacency: NDArray[np.bool_], x: Floats, y: Floats) -> CompactGraphs:
    """Graphs with values ``[G, N]``; one adjacency matrix stands for all."""
    total, size = x.shape
    graph, source, target = np.nonzero(adjacency)
    repeats = total // len(adjacency)
    return CompactGraphs(
        np.full(total, size),
        np.tile(np.bincount(graph, minlength=len(adjacency)), repeats),
        np.tile(np.stack([source, target]), repeats),
        {
            "x": column("node", x.reshape(-1, 1).astype(np.float32)),
            "y": column("node", y.reshape(-1, 1).astype(np.float32)),
        },
    )


ENTRIES = tuple(
    range_entry(f"range-{reach}-{topology}-10") for reach in REACHES for topology in TOPOLOGIES
)
