"""Graph property prediction: diameter, shortest paths from a source and eccentricity."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import LOG10_MSE, Entry, Published
from torch_grama.datasets.raw_arrays import Array
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

Labels = Literal["published", "true"]

SEED = 1234
COUNTS = (5120, 640, 1280)
# Number of graphs of each size: the validation and the test part end at 29 nodes.
SIZES: tuple[tuple[int, int], ...] = (
    *((size, 512) for size in range(25, 35)),
    *((size, 128) for size in range(25, 30)),
    *((size, 256) for size in range(25, 30)),
)
_VERSION = 1
# What stands behind a task's name: the column order assumed by the published loaders is not the
# order in which the generator writes the columns.
_COLUMN: dict[Labels, dict[str, str]] = {
    "true": {"diameter": "diameter", "sssp": "sssp", "eccentricity": "eccentricity"},
    "published": {"diameter": "diameter", "sssp": "laplacian", "eccentricity": "sssp"},
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
    done = 0
    edges: list[Array] = []
    num_nodes: list[int] = []
    num_edges: list[int] = []
    columns: dict[str, list[Array]] = {
        name: [] for name in ("x", "sssp", "eccentricity", "laplacian", "diameter")
    }
    for size, count in sizes:
        adjacency = np.stack([_draw(size, random) for _ in range(count)])
        values = random.random_sample((count, size)).astype(np.float32)
        source = random.randint(0, size, size=count)
        for name, rows in _targets(adjacency, values, source).items():
            columns[name].append(rows)
        graph, u, v = np.nonzero(adjacency)
        edges.append(np.stack([u, v]))
        num_nodes += [size] * count
        num_edges += np.bincount(graph, minlength=count).tolist()
        done += count
        if report is not None:
            report("generating graphs", done, total)
    return CompactGraphs(
        np.array(num_nodes),
        np.array(num_edges),
        np.concatenate(edges, axis=1),
        {
            name: column("graph" if name == "diameter" else "node", np.concatenate(rows))
            for name, rows in columns.items()
        },
    )


def shortest_paths(adjacency: NDArray[np.bool_]) -> NDArray[np.int16]:
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


def load_property(
    entry: Entry, storage: Storage, *, labels: Labels = "published", seed: int = SEED
) -> GraphTaskData:
    """Generates the graphs once and hands out the column the task's name stands for."""
    task, _ = parse_name(entry.name)
    name = _COLUMN[labels][task]
    everything = storage.generated(
        f"property-seed{seed}-v{_VERSION}",
        lambda: CompactFile(generate_property(seed, SIZES, storage.report)),
    ).graphs
    columns = everything.columns
    graphs = everything.with_columns({"x": columns["x"], "y": columns[name]})
    notes = ["Targets are raw, as behind the published numbers."]
    if name == "laplacian":
        notes.append(
            "Labels 'published': what the published tables call SSSP is the graph Laplacian "
            "applied to the random input column; labels='true' gives shortest paths."
        )
    elif name == "sssp" and task == "eccentricity":
        notes.append(
            "Labels 'published': what the published tables call eccentricity is the distance from "
            "the source; labels='true' gives eccentricities."
        )
    return entry.task(
        graphs,
        [consecutive_fold(COUNTS)],
        FeatureEncoding("float", 2),
        notes=tuple(notes),
        source=f"torch_grama.datasets.generate_property(seed={seed}), column '{name}'",
    )


def parse_name(name: str) -> tuple[str, Labels]:
    r"""Splits ``property-<task>[-<labels>]``."""
    family, _, rest = name.partition("-")
    task, _, word = rest.partition("-")
    for labels, tasks in _COLUMN.items():
        if family == "property" and task in tasks and (word or "published") == labels:
            return task, labels
    raise ValueError(
        f"Expected 'property-diameter', 'property-sssp' or 'property-eccentricity', with '-true' "
        f"or '-published' (got '{name}')"
    )


def property_entry(name: str) -> Entry:
    r"""The catalogue's entry for a task and a label set."""
    task, labels = parse_name(name)
    return Entry(
        name=name,
        family="property",
        summary={
            "diameter": "the longest shortest path of a random graph",
            "sssp": "hops of every node from a marked source",
            "eccentricity": "how far the farthest node is from each node",
        }[task],
        level="graph" if task == "diameter" else "node",
        metric=LOG10_MSE,
        loader=load_property,
        published=Published(
            num_graphs=sum(COUNTS),
            num_nodes=sum(size * count for size, count in SIZES),
            num_features=2,
            split=COUNTS,
            source="the generator of PNA with 25 to 34 nodes, as used by A-DGN",
        ),
        disk_bytes=2_500_000,
        options={
            "labels": (labels, "true" if labels == "published" else "published"),
            "seed": (SEED, int),
        },
        citation="Gravina, Bacciu, Gallicchio: Anti-Symmetric DGN, 2023, after Corso, Cavalleri, "
        "Beaini, Liò, Veličković: Principal Neighbourhood Aggregation for Graph Nets, 2020",
    )


def _draw(size: int, random: np.random.RandomState) -> NDArray[np.bool_]:
    # Not above: networkx takes a while to import, and only generating takes it.
    from torch_grama.datasets.graph_families import draw_family, draw_graph

    family = draw_family(random)
    while (graph := draw_graph(family, size, random)) is None:
        pass
    return graph


def _targets(
    adjacency: NDArray[np.bool_], values: NDArray[np.float32], source: NDArray[np.int64]
) -> dict[str, Array]:
    """Inputs and targets of graphs of one size, rows concatenated."""
    count, size, _ = adjacency.shape
    distance = shortest_paths(adjacency)
    mark = np.zeros((count, size), dtype=np.float32)
    mark[np.arange(count), source] = 1.0
    degree = adjacency.sum(axis=2)
    neighbours = np.einsum("gij,gj->gi", adjacency.astype(np.float64), values.astype(np.float64))
    laplacian = degree * values.astype(np.float64) - neighbours
    from_source = np.maximum(distance[np.arange(count), source], 0)
    per_node: dict[str, Array] = {
        "sssp": from_source,
        "eccentricity": distance.max(axis=2),
        "laplacian": laplacian,
    }
    flat: dict[str, Array] = {
        name: rows.reshape(-1, 1).astype(np.float32) for name, rows in per_node.items()
    }
    flat["x"] = np.stack([mark, values], axis=2).reshape(-1, 2)
    flat["diameter"] = distance.max(axis=(1, 2)).reshape(-1, 1).astype(np.float32)
    return flat


ENTRIES = tuple(property_entry(f"property-{task}") for task in ("diameter", "sssp", "eccentricity"))
