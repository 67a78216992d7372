"""Many graphs in few bytes: concatenated narrow arrays, expanded to ``Data`` one at a time."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import DAMAGE, Array, fingerprint
from torch_grama.datasets.splits import PARTS, index_fold
from torch_grama.datasets.task_data import Fold
from torch_grama.runs.atomic_file import write_atomically

ColumnLevel = Literal["node", "edge", "graph"]

_DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@dataclass(frozen=True)
class Column:
    r"""One attribute of all graphs, concatenated."""

    level: ColumnLevel  # whether a row belongs to a node, to an edge or to a graph
    values: Array  # the rows, in the smallest type that holds them exactly
    dtype: str  # name of the type they have in a :class:`~torch_geometric.data.Data`


class CompactGraphs(Sequence[Data]):
    r"""A sequence of graphs kept as a handful of arrays.

    Node numbers are local to each graph and every array has the smallest type that holds it
    exactly, so a set of molecules takes about twenty bytes per node. Indexing builds the
    :class:`~torch_geometric.data.Data` on the spot, in the original types and edge order.

    Args:
        num_nodes (array): Nodes of each graph ``[G]``.
        num_edges (array): Entries of ``edge_index`` of each graph ``[G]``.
        edges (array): Local node numbers of these entries ``[2, M]``.
        columns (mapping): The attributes, by name.

    Raises:
        DatasetError: If the arrays do not fit together.
    """

    def __init__(
        self, num_nodes: Array, num_edges: Array, edges: Array, columns: Mapping[str, Column]
    ) -> None:
        self.num_nodes = np.asarray(num_nodes, dtype=np.int64)
        self.num_edges = np.asarray(num_edges, dtype=np.int64)
        self.edges = narrow(np.asarray(edges).reshape(2, -1))
        self.columns = dict(columns)
        _check(self)
        self._node_start = np.concatenate([[0], np.cumsum(self.num_nodes)])
        self._edge_start = np.concatenate([[0], np.cumsum(self.num_edges)])

    @classmethod
    def from_data(cls, graphs: Iterable[Data]) -> CompactGraphs:
        r"""Packs graphs that all have the same tensor attributes.

        Args:
            graphs (iterable of Data): At least one graph.

        Raises:
            DatasetError: If there is no graph, if attributes differ between graphs, or if one is
                neither of node, edge nor graph level.
        """
        items = list(graphs)
        if not items:
            raise DatasetError("Expected at least one graph to pack (got none)")
        num_nodes = np.array([data.num_nodes or 0 for data in items], dtype=np.int64)
        counts = np.array([data.num_edges for data in items], dtype=np.int64)
        names = sorted(set(items[0].keys()) - {"edge_index", "num_nodes"})
        columns = {name: _pack_attribute(name, items, num_nodes, counts) for name in names}
        for number, data in enumerate(items):
            if extra := set(data.keys()) - {*names, "edge_index", "num_nodes"}:
                raise DatasetError(
                    f"Graph {number} has the attribute '{min(extra)}' that graph 0 lacks; "
                    "give all graphs the same attributes"
                )
        edges = np.concatenate([edges_of(data).numpy() for data in items], axis=1)
        return cls(num_nodes, counts, edges, columns)

    @classmethod
    def repeated(
        cls, edges: Array, num_nodes: int, count: int, columns: Mapping[str, Column]
    ) -> CompactGraphs:
        r"""Packs graphs that all have the same edges ``[2, E]``."""
        sizes = np.full(count, num_nodes), np.full(count, edges.shape[1])
        return cls(*sizes, np.tile(edges, count), columns)

    @classmethod
    def from_matrices(
        cls, batches: Iterable[tuple[NDArray[np.bool_], Mapping[str, Array]]]
    ) -> CompactGraphs:
        r"""Packs batches of adjacency matrices ``[G, N, N]`` with rows ``[G * N, F]`` of
        attributes; ``diameter`` has one row per graph.
        """
        num_nodes, num_edges, edges = [], [], []
        rows: dict[str, list[Array]] = {}
        for matrices, attributes in batches:
            count, size, _ = matrices.shape
            graph, source, target = np.nonzero(matrices)
            num_nodes.append(np.full(count, size))
            num_edges.append(np.bincount(graph, minlength=count))
            edges.append(narrow(np.stack([source, target])))
            for name, values in attributes.items():
                rows.setdefault(name, []).append(values)
        columns = {
            name: column("graph" if name == "diameter" else "node", np.concatenate(values))
            for name, values in rows.items()
        }
        counts = np.concatenate(num_nodes), np.concatenate(num_edges)
        return cls(*counts, np.concatenate(edges, axis=1), columns)

    @overload
    def __getitem__(self, index: int) -> Data: ...

    @overload
    def __getitem__(self, index: slice) -> list[Data]: ...

    def __getitem__(self, index: int | slice) -> Data | list[Data]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= number < len(self):
            raise IndexError(f"Expected a graph number below {len(self)} (got {index})")
        rows = {
            "node": slice(int(self._node_start[number]), int(self._node_start[number + 1])),
            "edge": slice(int(self._edge_start[number]), int(self._edge_start[number + 1])),
            "graph": slice(number, number + 1),
        }
        edges = self.edges[:, rows["edge"]]
        data = Data(edge_index=torch.from_numpy(edges.astype(np.int64, order="C")))
        for name, column in self.columns.items():
            # A copy: what a user does to one graph must not reach the shared arrays.
            values = column.values[rows[column.level]].astype(column.dtype, copy=True)
            data[name] = torch.from_numpy(values)
        if all(column.level != "node" for column in self.columns.values()):
            data.num_nodes = int(self.num_nodes[number])
        return data

    def __len__(self) -> int:
        return len(self.num_nodes)

    def with_columns(self, columns: Mapping[str, Column]) -> CompactGraphs:
        r"""The same graphs with these attributes only."""
        return CompactGraphs(self.num_nodes, self.num_edges, self.edges, columns)

    def fingerprint(self) -> str:
        r"""A hash of the content: equal graphs give the same word."""
        columns = sorted(self.columns.items())
        described = json.dumps([[name, item.level, item.dtype] for name, item in columns])
        values = [item.values for _, item in columns]
        return fingerprint([described, self.num_nodes, self.num_edges, self.edges, *values])

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({len(self)})"


def narrow(values: Array) -> Array:
    r"""The same numbers in the smallest type that holds every one of them exactly."""
    if values.dtype == np.bool_ or values.size == 0:
        return values
    if np.issubdtype(values.dtype, np.floating):
        whole = bool(np.isfinite(values).all()) and bool((values == np.rint(values)).all())
        # A negative zero would lose its sign, and 2**15 keeps every conversion exact.
        if not whole or float(np.abs(values).max()) > 2**15 or bool(np.signbit(values).any()):
            return values
    low, high = int(values.min()), int(values.max())
    kind = np.min_scalar_type(high if low >= 0 else min(low, -1 - high))
    return values.astype(kind) if kind.itemsize < 8 else values


def column(level: ColumnLevel, values: Array | Tensor, dtype: str | None = None) -> Column:
    array = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
    return Column(level, narrow(array), dtype or array.dtype.name)


def _check(graphs: CompactGraphs) -> None:
    """Raises unless counts, edges and columns of the arrays agree."""
    nodes, edges = int(graphs.num_nodes.sum()), int(graphs.num_edges.sum())
    if len(graphs.num_nodes) != len(graphs.num_edges) or graphs.edges.shape[1] != edges:
        raise DatasetError(
            f"Expected {edges} edges in {len(graphs.num_nodes)} graphs (got "
            f"{graphs.edges.shape[1]} edges and {len(graphs.num_edges)} counts)"
        )
    if (graphs.num_nodes < 0).any() or (graphs.num_edges < 0).any():
        raise DatasetError("Expected counts of nodes and edges of at least 0 (got a negative one)")
    limit = np.repeat(narrow(graphs.num_nodes), graphs.num_edges)
    if edges and (np.greater_equal(graphs.edges, limit).any() or np.less(graphs.edges, 0).any()):
        raise DatasetError("Expected every edge to join nodes of its own graph (got a stranger)")
    expected = {"node": nodes, "edge": edges, "graph": len(graphs.num_nodes)}
    for name, item in graphs.columns.items():
        if item.level not in expected or len(item.values) != expected[item.level]:
            raise DatasetError(
                f"Expected {expected.get(item.level)} rows of the {item.level} attribute '{name}' "
                f"(got {len(item.values)})"
            )
        if item.dtype not in _DTYPES or item.values.dtype.kind not in "buif":
            raise DatasetError(
                f"Expected the attribute '{name}' to hold numbers of a type of {_DTYPES} (got "
                f"{item.values.dtype} for {item.dtype})"
            )


def edges_of(data: Data) -> Tensor:
    r"""The edges of a graph, which need not have any."""
    return torch.empty(2, 0, dtype=torch.long) if data.edge_index is None else data.edge_index


def _pack_attribute(
    name: str, items: list[Data], num_nodes: NDArray[np.int64], num_edges: NDArray[np.int64]
) -> Column:
    values = [data.get(name) for data in items]
    for number, value in enumerate(values):
        if not isinstance(value, Tensor) or value.dim() == 0:
            raise DatasetError(
                f"Expected the attribute '{name}' of graph {number} to be a tensor with at least "
                f"one dimension (got {type(value).__name__}); give all graphs the same attributes"
            )
    rows = np.array([value.size(0) for value in values])
    levels: list[tuple[ColumnLevel, Array]] = [("node", num_nodes), ("edge", num_edges)]
    if name.startswith("edge_"):
        levels.reverse()
    levels.append(("graph", np.ones_like(rows)))
    for level, expected in levels:
        if np.array_equal(rows, expected):
            return column(level, torch.cat(values))
    raise DatasetError(
        f"Expected the attribute '{name}' to have one row per node, edge or graph; graph 0 has "
        f"{rows[0]} rows, {num_nodes[0]} nodes and {num_edges[0]} edges"
    )


FORMAT = "torch-grama compact graphs"
VERSION = 2


@dataclass(frozen=True)
class CompactFile:
    r"""What a compact file holds."""

    graphs: CompactGraphs  # the graphs
    folds: tuple[Fold, ...] = ()  # their official splits, by graph numbers
    signature: str = ""  # what they were made from; a file with another signature is stale


def write_compact(path: Path, content: CompactFile) -> None:
    r"""Writes a compact file at once or not at all; equal content gives equal bytes."""
    graphs = content.graphs
    header = {
        "format": FORMAT,
        "version": VERSION,
        "signature": content.signature,
        "columns": {n: [c.level, c.dtype] for n, c in graphs.columns.items()},
        "folds": len(content.folds),
    }
    arrays: dict[str, Array] = {
        "header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
        "num_nodes": graphs.num_nodes,
        "num_edges": graphs.num_edges,
        "edges": graphs.edges,
    }
    arrays |= {f"column/{name}": c.values for name, c in sorted(graphs.columns.items())}
    for number, fold in enumerate(content.folds):
        arrays |= {f"fold{number}/{part}": getattr(fold, part).numpy() for part in PARTS}
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def read_compact(path: Path) -> CompactFile:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            header = json.loads(bytes(archive["header"]))
            if header["format"] != FORMAT or header["version"] != VERSION:
                raise ValueError(f"version {header['version']} of '{header['format']}'")
            columns = {
                name: Column(level, archive[f"column/{name}"], np.dtype(dtype).name)
                for name, (level, dtype) in header["columns"].items()
            }
            graphs = CompactGraphs(
                archive["num_nodes"], archive["num_edges"], archive["edges"], columns
            )
            folds = tuple(
                index_fold(*(archive[f"fold{number}/{part}"] for part in PARTS))
                for number in range(header["folds"])
            )
            return CompactFile(graphs, folds, str(header["signature"]))
    except DAMAGE as error:
        raise DatasetError(
            f"Expected '{path}' to be a complete file of compact graphs, version {VERSION} (got: "
            f"{error}); delete it to have it made again"
        ) from error


def cached(path: Path, signature: str | None, build: Callable[[], CompactFile]) -> CompactFile:
    r"""Reads a compact file, or makes it where it is missing, stale or damaged."""
    if path.is_file():
        with contextlib.suppress(DatasetError):
            found = read_compact(path)
            if signature in (None, found.signature):
                return found
    made = build()
    content = replace(made, signature=signature or made.signature)
    try:
        write_compact(path, content)
    except OSError as error:  # costs a warning, never the data
        warnings.warn(
            f"Could not keep '{path}' ({error}); the data will be prepared again next time. "
            "Set GRAMA_CACHE to a folder that can be written to.",
            stacklevel=2,
        )
    return content
