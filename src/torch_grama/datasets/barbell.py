"""Barbells: what one clique needs lies in another, behind a single edge."""

from __future__ import annotations

import numpy as np

from torch_grama.datasets.compact import CompactGraphs, column
from torch_grama.datasets.entry import MSE, Entry, Published
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

SIZES = (10, 20, 50)
COUNTS = (50, 50, 50)
SEED = 1234
CITATION = (
    "Bamberger, Gutteridge, le Roux, Bronstein, Dong: On Measuring Long-Range Interactions in "
    "Graph Neural Networks, 2025"
)


def generate_barbell(
    size: int, seed: int = SEED, counts: tuple[int, int, int] = COUNTS
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
    edges = np.stack(np.nonzero(adjacency))
    return CompactGraphs(
        np.full(total, 2 * size),
        np.full(total, edges.shape[1]),
        np.tile(edges, total),
        {
            "x": column("node", values.reshape(-1, 1).astype(np.float32)),
            "y": column("node", np.repeat(means, size).reshape(-1, 1).astype(np.float32)),
        },
    )


def load_barbell(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    """Generates the barbells of the size that the name of the entry says."""
    size = _barbell_size(entry.name)
    return entry.task(
        generate_barbell(size, seed),
        [consecutive_fold(COUNTS)],
        FeatureEncoding("float", 1),
        notes=("Predicting the middle of the other clique's interval costs about 1.",),
        source=f"torch_grama.datasets.generate_barbell({size}, seed={seed})",
    )


def barbell_entry(name: str) -> Entry:
    r"""The catalogue's entry for a size of the cliques."""
    size = _barbell_size(name)
    total = sum(COUNTS)
    return Entry(
        name=name,
        family="barbell",
        summary=f"the mean of the other of two cliques of {size} nodes, across one edge",
        metric=MSE,
        loader=load_barbell,
        published=Published(
            num_graphs=total,
            num_nodes=total * 2 * size,
            num_edges=total * (size * (size - 1) + 1),
            num_features=1,
            split=COUNTS,
            edges="undirected",
            source="the construction of Bamberger et al., 2025",
        ),
        options={"seed": (SEED, int)},
        citation=CITATION,
    )


def _barbell_size(name: str) -> int:
    size = name.removeprefix("barbell-")
    if not size.isdecimal() or int(size) < 2:
        raise ValueError(f"Expected a name like 'barbell-50', with 2 nodes or more (got '{name}')")
    return int(size)


ENTRIES = tuple(barbell_entry(f"barbell-{size}") for size in SIZES)
