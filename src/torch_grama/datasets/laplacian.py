"""The smallest eigenpairs of a graph Laplacian, for tiny, large and disconnected graphs alike."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError

_DENSE_NODES = 1000
_DENSE_DEGREE = 32
# Just below the spectrum: the shifted matrix is positive definite and its inverse sees the
# smallest eigenvalues as the largest.
_SHIFT = -1e-2


def smallest_eigenpairs(
    edge_index: NDArray[np.int64], num_nodes: int, count: int, symmetric: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Computes the smallest eigenvalues of a Laplacian and their eigenvectors.

    Args:
        edge_index (array): Both directions of every edge ``[2, E]``, without self-loops.
        num_nodes (int): Number of nodes.
        count (int): How many are wanted; at most ``num_nodes`` are returned.
        symmetric (bool): Whether to normalise: :math:`I - D^{-1/2} A D^{-1/2}` in place of
            :math:`D - A`. A node without edges has a zero row in both.

    Returns:
        Eigenvalues ``[k]`` in ascending order and eigenvectors ``[N, k]`` of unit length whose
        entry of largest size is positive.
    """
    count = min(count, num_nodes)
    if num_nodes <= _DENSE_NODES:
        values, vectors = _dense(edge_index, num_nodes, count, symmetric)
        return values, _orient(vectors)
    # The spectrum of a graph is that of its connected parts together.
    values_of_parts: list[NDArray[np.float64]] = []
    columns: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    for nodes, edges in _parts(edge_index, num_nodes):
        few = min(count, len(nodes))
        solve = _dense if len(nodes) <= max(_DENSE_NODES, 2 * count) else _sparse
        part_values, part_vectors = solve(edges, len(nodes), few, symmetric)
        values_of_parts.append(part_values)
        columns += [(nodes, part_vectors[:, k]) for k in range(few)]
    values = np.concatenate(values_of_parts)
    # Rounding must not decide the order of equal eigenvalues.
    order = np.argsort(np.round(values, 10), kind="stable")[:count]
    vectors = np.zeros((num_nodes, count))
    for place, index in enumerate(order):
        nodes, vector = columns[index]
        vectors[nodes, place] = vector
    return values[order], _orient(vectors)


def _dense(
    edge_index: NDArray[np.int64], num_nodes: int, count: int, symmetric: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    laplacian = np.zeros((num_nodes, num_nodes))
    row, col, off, diagonal = _entries(edge_index, num_nodes, symmetric)
    laplacian[row, col] = off
    laplacian[np.arange(num_nodes), np.arange(num_nodes)] = diagonal
    # torch, unlike numpy, lets its caller say how many threads a small matrix is worth.
    values, vectors = torch.linalg.eigh(torch.from_numpy(laplacian))
    return values[:count].numpy(), vectors[:, :count].numpy()


def _sparse(
    edge_index: NDArray[np.int64], num_nodes: int, count: int, symmetric: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    try:
        from scipy.sparse import csc_matrix, diags, identity
        from scipy.sparse.linalg import LinearOperator, cg, eigsh
    except ImportError as error:
        raise DatasetError(
            f"Laplacian encodings of a graph of {num_nodes} nodes take scipy: run `pip install "
            "'torch-grama[data]'`"
        ) from error
    row, col, off, diagonal = _entries(edge_index, num_nodes, symmetric)
    nodes = np.arange(num_nodes)
    laplacian = csc_matrix(
        (np.concatenate([off, diagonal]), (np.append(row, nodes), np.append(col, nodes))),
        shape=(num_nodes, num_nodes),
    )
    start = np.random.RandomState(0).uniform(0.5, 1.0, size=num_nodes)
    inverse = None
    if len(row) > _DENSE_DEGREE * num_nodes:
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


def _entries(
    edge_index: NDArray[np.int64], num_nodes: int, symmetric: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Rows, columns and values off the diagonal, and the diagonal."""
    row, col = edge_index
    degree = np.bincount(row, minlength=num_nodes).astype(np.float64)
    if not symmetric:
        return row, col, -np.ones(len(row)), degree
    scale = 1.0 / np.sqrt(np.maximum(degree, 1.0))
    return row, col, -scale[row] * scale[col], (degree > 0).astype(np.float64)


def _parts(
    edge_index: NDArray[np.int64], num_nodes: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Connected parts: their nodes, and their edges in local numbers."""
    label = np.arange(num_nodes)
    row, col = edge_index
    while True:
        # The smallest number spreads along edges, and jumps along what it already knows.
        lowest = label.copy()
        np.minimum.at(lowest, row, label[col])
        lowest = lowest[lowest]
        if np.array_equal(lowest, label):
            break
        label = lowest
    order = np.argsort(label, kind="stable")
    starts = np.flatnonzero(np.diff(label[order], prepend=-1))
    local = np.empty(num_nodes, dtype=np.int64)
    groups = np.split(order, starts[1:])
    for group in groups:
        local[group] = np.arange(len(group))
    edge_order = np.argsort(label[row], kind="stable")
    bounds = np.searchsorted(label[row][edge_order], [label[group[0]] for group in groups])
    edges = np.split(local[edge_index[:, edge_order]], bounds[1:], axis=1)
    return list(zip(groups, edges, strict=True))


def _orient(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Makes the entry of largest size of every column positive; ties go to the first node."""
    if vectors.size == 0:
        return vectors
    size = np.abs(vectors)
    first = (size >= size.max(axis=0) - 1e-8).argmax(axis=0)
    sign = np.sign(vectors[first, np.arange(vectors.shape[1])])
    return np.asarray(vectors * np.where(sign == 0, 1.0, sign))
