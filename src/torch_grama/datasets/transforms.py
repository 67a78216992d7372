"""Encodings of graph structure, computed once for a data set and kept on disk."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import Field, asdict, dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric import transforms as pyg
from torch_geometric.data import Data
from torch_geometric.utils import degree, remove_self_loops, to_undirected

from torch_grama.datasets.compact import CompactFile, CompactGraphs, edges_of
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

CACHE_VERSION = 1
"""Raised whenever a transform of this file computes something else than before."""

# Columns of the identity pushed through the walk at a time: 2**24 numbers, 64 MiB.
_BLOCK_NUMBERS = 2**24
_SMALL_NODES = 500
_DENSE_NODES = 1000
_DENSE_DEGREE = 32
# Just below the spectrum: the shifted matrix is positive definite and its inverse sees the
# smallest eigenvalues as the largest.
_SHIFT = -1e-2


class Transform(Protocol):
    r"""Adds something to a graph: a frozen dataclass whose fields are its arguments."""

    name: ClassVar[str]  # a short word for it
    adds: ClassVar[tuple[str, ...]]  # attributes that follow from the edges alone; all it changes
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def __call__(self, data: Data) -> Data:
        r"""Returns the graph with the encoding added; the graph given may be changed."""


@dataclass(frozen=True)
class RWSE:
    r"""Random-walk structural encoding: the probability of being back after :math:`k` steps.

    .. math::
        \text{rwse}_{i,k} = (P^k)_{ii}, \quad P = D^{-1} A, \quad k = 1, \dots, K

    where :math:`D` holds the out-degrees; a node without edges has a zero row. The values are
    those of PyG's ``AddRandomWalkPE``; memory stays bounded on large graphs.

    Args:
        walk_length (int, optional): Largest number of steps :math:`K`. (default: :obj:`20`)

    Shapes:
        - **output:** ``data.rwse`` of shape ``[N, K]``
    """

    walk_length: int = 20
    name: ClassVar[str] = "rwse"
    adds: ClassVar[tuple[str, ...]] = ("rwse",)

    def __post_init__(self) -> None:
        if self.walk_length < 1:
            raise ValueError(f"Expected 'walk_length' to be at least 1 (got {self.walk_length})")

    def __call__(self, data: Data) -> Data:
        num_nodes = data.num_nodes or 0
        edge_index = edges_of(data)
        row = edge_index[0]
        weight = 1.0 / degree(row, num_nodes, torch.float).clamp(min=1.0)[row]
        walk = torch.sparse_coo_tensor(
            edge_index, weight, (num_nodes, num_nodes), check_invariants=False
        ).coalesce()
        result = torch.zeros(num_nodes, self.walk_length, dtype=torch.float)
        block = max(1, _BLOCK_NUMBERS // max(num_nodes, 1))
        for start in range(0, num_nodes, block):
            width = min(block, num_nodes - start)
            # [N, B]: column b is P^k e_(start + b); its own row is the probability of return.
            state = torch.zeros(num_nodes, width, dtype=torch.float)
            state.diagonal(offset=-start).fill_(1.0)
            for step in range(self.walk_length):
                state = torch.sparse.mm(walk, state)
                result[start : start + width, step] = state.diagonal(offset=-start)
        data["rwse"] = result
        return data


@dataclass(frozen=True)
class LapPE:
    r"""Laplacian positional encoding: the smallest eigenvalues with their eigenvectors.

    The Laplacian of the undirected graph without self-loops, :math:`D - A` (``"none"``) or
    :math:`I - D^{-1/2} A D^{-1/2}` (``"sym"``); the smallest eigenvalues come first, the trivial
    ones included, clamped at 0. Eigenvectors have unit length; their sign is fixed by making the
    entry of largest size positive, so draw random signs in training. Small graphs are solved
    densely; large ones sparsely, every connected part on its own, since an iteration does not see
    how often an eigenvalue repeats.

    Args:
        max_freqs (int, optional): Number of eigenpairs :math:`k`. (default: :obj:`10`)
        normalization (str, optional): ``none`` or ``sym``. (default: :obj:`"none"`)

    Shapes:
        - **output:** ``data.lap_vectors`` of shape ``[N, k]`` and ``data.lap_values`` of shape
          ``[1, k]``, both padded with ``nan`` where the graph has fewer than :math:`k` nodes
    """

    max_freqs: int = 10
    normalization: Literal["none", "sym"] = "none"
    name: ClassVar[str] = "lappe"
    adds: ClassVar[tuple[str, ...]] = ("lap_vectors", "lap_values")

    def __post_init__(self) -> None:
        if self.max_freqs < 1:
            raise ValueError(f"Expected 'max_freqs' to be at least 1 (got {self.max_freqs})")
        if self.normalization not in ("none", "sym"):
            raise ValueError(
                f"Expected 'normalization' to be 'none' or 'sym' (got '{self.normalization}')"
            )

    def __call__(self, data: Data) -> Data:
        num_nodes = data.num_nodes or 0
        edge_index, _ = remove_self_loops(to_undirected(edges_of(data), num_nodes=num_nodes))
        values, vectors = smallest_eigenpairs(
            edge_index.numpy(), num_nodes, self.max_freqs, self.normalization == "sym"
        )
        for name, found in (
            ("lap_vectors", vectors),
            ("lap_values", np.maximum(values, 0.0)[None]),
        ):
            data[name] = torch.full((len(found), self.max_freqs), math.nan, dtype=torch.float)
            data[name][:, : len(values)] = torch.from_numpy(found)
        return data


@dataclass(frozen=True)
class LocalDegreeProfile:
    r"""Appends the local degree profile to the node features.

    Five columns: the degree of a node, and the minimum, maximum, mean and standard deviation of
    its neighbours' degrees, out-degrees of the directed graph as in PyG's transform of this name.

    Shapes:
        - **output:** ``data.x`` with five more columns
    """

    name: ClassVar[str] = "ldp"
    adds: ClassVar[tuple[str, ...]] = ()

    def __call__(self, data: Data) -> Data:
        profiled: Data = pyg.LocalDegreeProfile()(data)
        return profiled


def apply_transforms(
    task: GraphTaskData, transforms: Sequence[Transform], storage: Storage
) -> GraphTaskData:
    r"""Applies transforms to every graph of a data set, once.

    The result is kept under a key made of the transforms and their arguments, the content of the
    graphs and :obj:`CACHE_VERSION`: whatever changes, an old result is never served.

    Args:
        task (GraphTaskData): The data set.
        transforms (sequence): What to apply, in order.
        storage (Storage): Where the result is kept.
    """
    if not transforms:
        return task
    graphs = task.graphs
    plain = graphs if isinstance(graphs, CompactGraphs) else CompactGraphs.from_data(graphs)
    key = cache_key(transforms, plain)
    words = "-".join(transform.name for transform in transforms)
    name = re.sub(r"[^\w.-]+", "_", task.name)[-60:]
    content = storage.generated(
        f"{name}-{words}-{key}", lambda: CompactFile(_apply(plain, transforms, storage))
    )
    encoding = task.node_encoding
    if any(isinstance(transform, LocalDegreeProfile) for transform in transforms):
        encoding = FeatureEncoding("float", content.graphs.columns["x"].values.shape[1])
    result = content.graphs if isinstance(graphs, CompactGraphs) else list(content.graphs)
    return replace(task, graphs=result, node_encoding=encoding)


def cache_key(transforms: Sequence[Transform], graphs: CompactGraphs) -> str:
    r"""Returns the word under which the result of transforms on these graphs is kept."""
    described = {
        "version": CACHE_VERSION,
        "graphs": graphs.fingerprint(),
        "transforms": [
            [type(item).__module__, type(item).__qualname__, asdict(item)] for item in transforms
        ],
    }
    content = json.dumps(described, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def _apply(
    graphs: CompactGraphs, transforms: Sequence[Transform], storage: Storage
) -> CompactGraphs:
    results: list[Data] = []
    before = torch.get_num_threads()
    if bool(graphs.num_nodes.mean() < _SMALL_NODES):
        # Threads that wait for each other cost far more than a small matrix product.
        torch.set_num_threads(1)
    try:
        for number, graph in enumerate(graphs, start=1):
            last = results[-1] if results and _have_same_edges(graph, results[-1]) else None
            for transform in transforms:
                if last is not None and transform.adds:
                    graph.update({name: last[name] for name in transform.adds})
                else:
                    graph = transform(graph)
            results.append(graph)
            if number % 50 == 0 or number == len(graphs):
                storage.report("encoding graphs", number, len(graphs))
    finally:
        torch.set_num_threads(before)
    return CompactGraphs.from_data(results)


def _have_same_edges(one: Data, other: Data) -> bool:
    return one.num_nodes == other.num_nodes and torch.equal(edges_of(one), edges_of(other))


def smallest_eigenpairs(
    edge_index: NDArray[np.int64], num_nodes: int, count: int, symmetric: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    count = min(count, num_nodes)
    row, col = edge_index
    degree = np.bincount(row, minlength=num_nodes).astype(np.float64)
    off, diagonal = -np.ones(len(row)), degree
    if symmetric:
        scale = 1.0 / np.sqrt(np.maximum(degree, 1.0))
        off, diagonal = -scale[row] * scale[col], (degree > 0).astype(np.float64)
    if num_nodes <= _DENSE_NODES:
        dense = np.diag(diagonal)
        dense[row, col] = off
        values, vectors = _solve_dense(dense, count)
        return values, _orient(vectors)
    try:
        from scipy.sparse import csc_matrix
        from scipy.sparse.csgraph import connected_components
    except ImportError as error:
        raise DatasetError(
            f"Laplacian encodings of a graph of {num_nodes} nodes take scipy: run `pip install "
            "'torch-grama[data]'`"
        ) from error
    every = np.arange(num_nodes)
    laplacian = csc_matrix(
        (np.concatenate([off, diagonal]), (np.append(row, every), np.append(col, every))),
        shape=(num_nodes, num_nodes),
    )
    # The spectrum of a graph is that of its connected parts together.
    _, label = connected_components(laplacian, directed=False)
    starts = np.cumsum(np.bincount(label))[:-1]
    found: list[tuple[float, NDArray[np.int64], NDArray[np.float64]]] = []
    for nodes in np.split(np.argsort(label, kind="stable"), starts):
        few = min(count, len(nodes))
        part = laplacian[nodes][:, nodes]
        if len(nodes) <= max(_DENSE_NODES, 2 * count):
            values, vectors = _solve_dense(part.toarray(), few)
        else:
            values, vectors = _solve_sparse(part, few)
        found += [(values[k], nodes, vectors[:, k]) for k in range(few)]
    # Rounding must not decide the order of equal eigenvalues.
    found.sort(key=lambda pair: round(pair[0], 10))
    vectors = np.zeros((num_nodes, count))
    for place, (_, nodes, vector) in enumerate(found[:count]):
        vectors[nodes, place] = vector
    return np.array([value for value, _, _ in found[:count]]), _orient(vectors)


def _solve_dense(
    laplacian: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # torch, unlike numpy, lets its caller say how many threads a small matrix is worth.
    values, vectors = torch.linalg.eigh(torch.from_numpy(laplacian))
    return values[:count].numpy(), vectors[:, :count].numpy()


def _solve_sparse(
    laplacian: csc_matrix, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.sparse import diags, identity
    from scipy.sparse.linalg import LinearOperator, cg, eigsh

    num_nodes = laplacian.shape[0]
    start = np.random.RandomState(0).uniform(0.5, 1.0, size=num_nodes)
    inverse = None
    if laplacian.nnz > (_DENSE_DEGREE + 1) * num_nodes:
        # A factorisation would fill up; on well connected graphs conjugate gradients are quick.
        shifted = (laplacian - _SHIFT * identity(num_nodes)).tocsr()
        scaling = diags(1.0 / shifted.diagonal())

        def solve(rhs: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(cg(shifted, rhs, rtol=1e-11, M=scaling)[0])

        inverse = LinearOperator(shifted.shape, matvec=solve)
    values, vectors = eigsh(
        laplacian, k=count, sigma=_SHIFT, which="LM", v0=start, OPinv=inverse, tol=1e-9
    )
    order = np.argsort(values, kind="stable")
    return np.asarray(values)[order], np.asarray(vectors)[:, order]


def _orient(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Makes the entry of largest size of every column positive; ties go to the first node."""
    if vectors.size == 0:
        return vectors
    size = np.abs(vectors)
    first = (size >= size.max(axis=0) - 1e-8).argmax(axis=0)
    sign = np.sign(vectors[first, np.arange(vectors.shape[1])])
    return np.asarray(vectors * np.where(sign == 0, 1.0, sign))
