"""ECHO's synthetic tasks: shortest paths, eccentricity and diameter on graphs of 17 to 40 hops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column, edges_of
from torch_grama.datasets.entry import MAE, DataFile, Entry, Published, Source
from torch_grama.datasets.own_data.array_files import load_graphs
from torch_grama.datasets.raw_arrays import Array, reading
from torch_grama.datasets.splits import PARTS, consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

Variant = Literal["regenerated", "published"]

TASKS = ("sssp", "ecc", "diam")
VARIANTS: tuple[Variant, ...] = ("regenerated", "published")
DIAMETERS = range(17, 41)
SHARES = (56, 7, 7)  # graphs of each kind and diameter in training, validation and test
SEED = 1234
_VERSION = 1
_PUBLISHED_COLUMNS = {"ecc": 0, "diam": 1, "sssp": 2}
_HUB = "https://huggingface.co/datasets/lucamiglior/echo-benchmark/resolve/main/echo-synth"
_SOURCE = Source(
    "hub",
    tuple(DataFile(f"echo-synth/{p}_data.pt", (f"{_HUB}/{p}_data.pt",)) for p in PARTS),
)


def generate_echo(
    seed: int = SEED,
    shares: tuple[int, int, int] = SHARES,
    report: Report | None = None,
) -> CompactGraphs:
    r"""Generates the graphs of the three tasks anew, after the words of the paper.

    Six kinds (:data:`~torch_grama.datasets.echo_graphs.KINDS`), every diameter from 17 to 40
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
    # Not above: it takes scipy, and only generating takes it.
    from torch_grama.datasets.echo_graphs import KINDS, draw_graphs

    random = np.random.RandomState(seed)
    total = len(KINDS) * len(DIAMETERS) * sum(shares)
    parts = np.repeat(np.arange(3), shares)
    rows: list[tuple[int, dict[str, Array]]] = []
    for kind in KINDS:
        for number, (pairs, hops) in enumerate(draw_graphs(kind, DIAMETERS, sum(shares), random)):
            size = len(hops)
            source = int(random.randint(0, size))
            x = np.zeros((size, 2), dtype=np.float32)
            x[source, 0] = 1.0
            x[:, 1] = random.random_sample(size)
            graph = {
                "edges": np.concatenate([pairs, pairs[::-1]], axis=1),
                "x": x,
                "sssp": hops[source],
                "ecc": hops.max(axis=1),
                "diam": hops.max().reshape(1),
            }
            rows.append((int(parts[number % sum(shares)]), graph))
            if report is not None and len(rows) % 70 == 0:
                report("generating graphs", len(rows), total)
    return _pack([graph for part in range(3) for chosen, graph in rows if chosen == part])


def load_echo(
    entry: Entry, storage: Storage, *, variant: Variant = "regenerated", seed: int = SEED
) -> GraphTaskData:
    """Generates or fetches the graphs once and hands out the column of the task."""
    task = entry.name.split("-")[1]
    if variant == "published":
        content = storage.prepared(entry, _VERSION, _read_published)
        source, notes = None, list[str]()
    else:
        content = storage.generated(
            f"echo-seed{seed}-v{_VERSION}",
            lambda: CompactFile(
                generate_echo(seed, SHARES, storage.report),
                (consecutive_fold(_counts()),),
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


def parse_name(name: str) -> tuple[str, Variant]:
    r"""Splits ``echo-<task>[-<variant>]``."""
    family, _, rest = name.partition("-")
    task, _, word = rest.partition("-")
    for variant in VARIANTS:
        if family == "echo" and task in TASKS and (word or "regenerated") == variant:
            return task, variant
    raise ValueError(
        f"Expected 'echo-sssp', 'echo-ecc' or 'echo-diam', with '-published' for the files of the "
        f"authors (got '{name}')"
    )


def echo_entry(name: str) -> Entry:
    r"""The catalogue's entry for a task, regenerated or as published."""
    task, variant = parse_name(name)
    what = {
        "sssp": "hops from a marked source, up to 40",
        "ecc": "how far the farthest node is, up to 40 hops",
        "diam": "the longest shortest path, 17 to 40 hops",
    }[task]
    return Entry(
        name=name,
        family="echo",
        summary=f"{what} ({variant})",
        level="graph" if task == "diam" else "node",
        metric=MAE,
        loader=load_echo,
        published=Published(
            num_graphs=10_080,
            num_features=2,
            split=_counts() if variant == "regenerated" else (None, None, None),
            source="Miglior et al., 2025; the split of the regenerated set is made here",
        ),
        sources=(_SOURCE,) if variant == "published" else (),
        disk_bytes=8_000_000 if variant == "regenerated" else 60_000_000,
        options={
            "variant": (variant, *(word for word in VARIANTS if word != variant)),
            "seed": (SEED, int),
        },
        origin="generated" if variant == "regenerated" else _HUB.partition("/resolve")[0],
        licence="none needed: generated" if variant == "regenerated" else "not stated",
        citation="Miglior, Tolloso, Gravina, Bacciu: Can You Hear Me Now? A Benchmark for "
        "Long-Range Graph Propagation, 2025",
    )


def _counts() -> tuple[int, int, int]:
    train, val, test = (6 * len(DIAMETERS) * share for share in SHARES)
    return train, val, test


def _pack(graphs: Sequence[dict[str, Array]]) -> CompactGraphs:
    return CompactGraphs(
        np.array([len(graph["x"]) for graph in graphs]),
        np.array([graph["edges"].shape[1] for graph in graphs]),
        np.concatenate([graph["edges"] for graph in graphs], axis=1),
        {
            "x": column("node", np.concatenate([graph["x"] for graph in graphs])),
            **{
                task: column(
                    "graph" if task == "diam" else "node",
                    np.concatenate([graph[task] for graph in graphs])
                    .reshape(-1, 1)
                    .astype(np.float32),
                )
                for task in TASKS
            },
        },
    )


def _read_published(source: Source, paths: list[Path]) -> CompactFile:
    """Lists of graphs with the columns eccentricity, diameter and distance in ``y``."""
    graphs: list[dict[str, Array]] = []
    counts = []
    for path in paths:
        part = load_graphs(path)
        with reading(path, "graphs with two input columns and three targets per node"):
            graphs += [_published_graph(graph) for graph in part]
        counts.append(len(part))
    return CompactFile(_pack(graphs), (consecutive_fold(counts),))


def _published_graph(graph: Data) -> dict[str, Array]:
    x = torch.as_tensor(graph.x, dtype=torch.float32).reshape(-1, 2).numpy()
    y = torch.as_tensor(graph.y, dtype=torch.float32).reshape(len(x), 3).numpy()
    targets = {task: y[:, place] for task, place in _PUBLISHED_COLUMNS.items()}
    return {"edges": edges_of(graph).numpy(), "x": x, **targets, "diam": targets["diam"][:1]}


ENTRIES = tuple(echo_entry(f"echo-{task}") for task in TASKS)
