"""ECHO's synthetic tasks: shortest paths, eccentricity and diameter on graphs of 17 to 40 hops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs, edges_of
from torch_grama.datasets.entry import Entry, Source
from torch_grama.datasets.own_data.array_files import load_graphs
from torch_grama.datasets.raw_arrays import Array, reading
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Pairs = NDArray[np.int64]  # [2, E], every edge once
Random = np.random.RandomState
Distances = NDArray[np.int64]  # [N, N]

DIAMETERS = range(17, 41)
SHARES = (56, 7, 7)  # graphs of each kind and diameter in training, validation and test
SEED = 1234
_VERSION = 1
_SHORTCUT_CHANCE = 0.2
_SHORTCUTS = (2, 7)  # hops that a shortcut of a line spans: 2 to 6
_REMOVED_SHARE = 0.2
_GRID_ROWS = (3, 7)


def generate_echo(
    seed: int = SEED, shares: tuple[int, int, int] = SHARES, report: Report | None = None
) -> CompactGraphs:
    r"""Generates the graphs of the three tasks anew, after the words of the paper.

    Six kinds (:data:`KINDS`), every diameter from 17 to 40
    equally often: 10,080 graphs. The input has two columns, a mark on a uniformly drawn source and
    a :math:`U[0, 1)` value. The targets are in hops:

    - ``sssp`` (node): distance from the source;
    - ``ecc`` (node): distance of the farthest node;
    - ``diam`` (graph): the longest shortest path.

    See `Can You Hear Me Now? A Benchmark for Long-Range Graph Propagation
    <https://arxiv.org/abs/2512.17762>`_. Where it is silent, this is chosen here: of the 70 graphs
    of each kind and diameter, 56 are for training, 7 for validation and 7 for test; trees,
    caterpillars and lobsters are hung on a path that stays the longest, with half to twice as many
    nodes; grids have 3 to 6 rows. All ladders of one diameter have the same edges.

    Args:
        seed (int, optional): The same seed gives the same bytes. (default: :obj:`1234`)
        shares (tuple of int, optional): Graphs of each kind and diameter in training, validation
            and test. (default: :obj:`(56, 7, 7)`)
        report (callable, optional): Told about the progress. (default: :obj:`None`)
    """
    random = np.random.RandomState(seed)
    total = len(KINDS) * len(DIAMETERS) * sum(shares)
    parts = np.repeat(np.arange(3), shares)
    rows: list[tuple[int, Data]] = []
    for kind in KINDS:
        for number, (pairs, hops) in enumerate(draw_graphs(kind, DIAMETERS, sum(shares), random)):
            size = len(hops)
            source = int(random.randint(0, size))
            x = np.zeros((size, 2), dtype=np.float32)
            x[source, 0] = 1.0
            x[:, 1] = random.random_sample(size)
            edges = np.concatenate([pairs, pairs[::-1]], axis=1)
            targets = {"sssp": hops[source], "ecc": hops.max(axis=1), "diam": hops.max()}
            rows.append((int(parts[number % sum(shares)]), _graph(edges, x, targets)))
            if report is not None and len(rows) % 70 == 0:
                report("generating graphs", len(rows), total)
    return CompactGraphs.from_data(
        graph for part in range(3) for chosen, graph in rows if chosen == part
    )


def load_echo(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    """Generates or fetches the graphs once and hands out the column of the task."""
    task, variant = entry.arguments
    if variant == "published":
        content = storage.prepared(entry, _VERSION, _read_published)
        source, notes = None, list[str]()
    else:
        content = storage.generated(
            f"echo-seed{seed}-v{_VERSION}",
            lambda: CompactFile(
                generate_echo(seed, SHARES, storage.report),
                (consecutive_fold(6 * len(DIAMETERS) * share for share in SHARES),),
            ),
        )
        source = f"torch_grama.datasets.generate_echo(seed={seed}), column '{task}'"
        notes = [
            "Regenerated after the words of the paper, not the published files: those are "
            f"'echo-{task}-published'."
        ]
    columns = content.graphs.columns
    return entry.task(
        content.graphs.with_columns({"x": columns["x"], "y": columns[task]}),
        content.folds,
        FeatureEncoding("float", 2),
        notes=(*notes, "Targets are in hops, and so is the error."),
        source=source,
    )


def _graph(edges: Array, x: Array, targets: Mapping[str, Array]) -> Data:
    columns = {
        task: torch.from_numpy(np.asarray(target, dtype=np.float32).reshape(-1, 1))
        for task, target in targets.items()
    }
    return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges), **columns)


def _read_published(source: Source, paths: list[Path]) -> CompactFile:
    """Lists of graphs with the columns eccentricity, diameter and distance in ``y``."""
    graphs: list[Data] = []
    counts = []
    for path in paths:
        part = load_graphs(path)
        with reading(path, "graphs with two input columns and three targets per node"):
            for graph in part:
                x = torch.as_tensor(graph.x, dtype=torch.float32).reshape(-1, 2).numpy()
                y = torch.as_tensor(graph.y, dtype=torch.float32).reshape(len(x), 3).numpy()
                targets = {"ecc": y[:, 0], "diam": y[:1, 1], "sssp": y[:, 2]}
                graphs.append(_graph(edges_of(graph).numpy(), x, targets))
        counts.append(len(part))
    return CompactFile(CompactGraphs.from_data(graphs), (consecutive_fold(counts),))


def line(diameter: int, random: Random) -> Pairs:
    r"""A path in which a node has, with a chance of 20 %, one more edge, 2 to 6 hops back.

    The path grows node by node until its diameter is the one asked for; a new node lengthens it by
    one at most, so no value is jumped over.
    """
    most = 12 * diameter
    distance = np.zeros((most, most), dtype=np.int16)
    edges: list[tuple[int, int]] = []
    for new in range(1, most):
        old = distance[:new, :new]
        to_new = old[new - 1] + 1
        edges.append((new - 1, new))
        span = int(random.randint(*_SHORTCUTS))
        if random.random_sample() < _SHORTCUT_CHANCE and span <= new:
            edges.append((new - span, new))
            to_new = np.minimum(to_new, old[new - span] + 1)
            np.minimum(old, to_new[:, None] + to_new, out=old)
        distance[new, :new] = distance[:new, new] = to_new
        if int(to_new.max()) == diameter and int(distance[: new + 1, : new + 1].max()) == diameter:
            return np.array(edges).T
    raise RuntimeError(f"Found no line of diameter {diameter} in {most} steps")


def ladder(diameter: int, random: Random) -> Pairs:
    r"""Two rails of as many nodes as the diameter says, joined by rungs."""
    first = np.arange(diameter)
    rails = [np.stack([start + first[:-1], start + first[1:]]) for start in (0, diameter)]
    return np.concatenate([*rails, np.stack([first, first + diameter])], axis=1)


def grid(diameter: int, random: Random) -> Pairs:
    r"""A grid of 3 to 6 rows without 20 % of its edges; of the pieces, the largest.

    What is removed decides the diameter, so it is only near the one asked for.
    """
    rows = int(random.randint(*_GRID_ROWS))
    columns = diameter + 2 - rows - int(random.randint(0, 1 + diameter // 5))
    place = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()])
    pairs = np.concatenate([across, np.stack([place[:-1].ravel(), place[1:].ravel()])], axis=1)
    removed = random.permutation(pairs.shape[1])[: round(_REMOVED_SHARE * pairs.shape[1])]
    pairs = np.delete(pairs, removed, axis=1)
    from scipy.sparse.csgraph import connected_components

    _, piece = connected_components(_matrix(pairs, place.size), directed=False)
    inside = piece == np.bincount(piece).argmax()
    return np.asarray((np.cumsum(inside) - 1)[pairs[:, inside[pairs[0]]]])


def tree(diameter: int, random: Random) -> Pairs:
    r"""A tree by preferential attachment (degrees with exponent 3) around a longest path."""
    return _hang(diameter, random, deepest=diameter, by_degree=True)


def caterpillar(diameter: int, random: Random) -> Pairs:
    return _hang(diameter, random, deepest=1)


def lobster(diameter: int, random: Random) -> Pairs:
    r"""A path with branches of one or two nodes."""
    return _hang(diameter, random, deepest=2)


KINDS: dict[str, Callable[[int, Random], Pairs]] = {
    "line": line,
    "ladder": ladder,
    "grid": grid,
    "tree": tree,
    "caterpillar": caterpillar,
    "lobster": lobster,
}
"""The kinds of graphs; all but the grid have the very diameter that is asked for."""


def draw_graphs(
    kind: str, diameters: range, copies: int, random: Random
) -> Iterator[tuple[Pairs, Distances]]:
    r"""Draws the same number of graphs of each diameter, one diameter after another.

    Nodes come in random order. A graph whose diameter is not the one asked for goes to those of
    its own diameter, if there are not enough of them yet.
    """
    found: dict[int, list[tuple[Pairs, Distances]]] = {diameter: [] for diameter in diameters}
    for diameter, graphs in found.items():
        while len(graphs) < copies:
            pairs = KINDS[kind](diameter, random)
            size = int(pairs.max()) + 1
            pairs = random.permutation(size)[pairs]
            hops = distances(pairs, size)
            place = found.get(int(hops.max()))
            if place is not None and len(place) < copies:
                place.append((pairs, hops))
        yield from graphs


def distances(pairs: Pairs, size: int) -> Distances:
    r"""Hops between all nodes of a connected graph."""
    from scipy.sparse.csgraph import shortest_path

    hops = shortest_path(_matrix(pairs, size), method="D", directed=False, unweighted=True)
    return np.asarray(hops, dtype=np.int64)


def _matrix(pairs: Pairs, size: int) -> csr_array:
    # Not above: scipy takes a while to import, and only generating takes it.
    from scipy.sparse import csr_array

    return csr_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(size, size))


def _hang(diameter: int, random: Random, deepest: int, by_degree: bool = False) -> Pairs:
    """Hangs half to twice as many nodes on a path, none of which makes a longer one."""
    path = np.arange(diameter + 1)
    extra = int(random.randint(diameter // 2, 2 * diameter + 1))
    size = diameter + 1 + extra
    # how many more nodes may hang below each node
    room = np.zeros(size, dtype=np.int64)
    room[: diameter + 1] = np.minimum(np.minimum(path, diameter - path), deepest)
    degree = np.full(size, 1, dtype=np.int64)
    degree[1:diameter] = 2
    parents = np.empty(extra, dtype=np.int64)
    for number in range(extra):
        new = diameter + 1 + number
        weight = (degree[:new] if by_degree else 1) * (room[:new] > 0)
        ends = np.cumsum(weight)
        parent = int(np.searchsorted(ends, random.randint(0, int(ends[-1])), side="right"))
        parents[number] = parent
        room[new] = room[parent] - 1
        degree[parent] += 1
    return np.concatenate(
        [np.stack([path[:-1], path[1:]]), np.stack([parents, diameter + 1 + np.arange(extra)])],
        axis=1,
    )
