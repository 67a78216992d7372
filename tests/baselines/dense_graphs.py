"""Weighted graphs, and their matrices in dense form, without the operators under test."""

from __future__ import annotations

import torch
from baseline_checks import draw_graph
from torch import Tensor
from torch.nn import Linear
from torch_geometric.data import Data


def draw_weighted_graph(
    num_nodes: int = 9, seed: int = 0, channels: int = 5, weighted: bool = True
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features, directed edges with self-loops among them, no edge twice, and weights: float64."""
    generator = torch.Generator().manual_seed(seed)
    present = torch.rand(num_nodes, num_nodes, generator=generator) < 0.3
    present[0, 0], present[1, 1], present[2, 2] = True, True, False
    present[-1], present[:, -1] = False, False  # a node on its own
    edge_index = present.nonzero().t().contiguous()
    weight = 0.5 + torch.rand(edge_index.size(1), generator=generator, dtype=torch.float64)
    x = torch.randn(num_nodes, channels, generator=generator, dtype=torch.float64)
    return x, edge_index, weight if weighted else None


def draw_symmetric_graph(num_nodes: int = 7, seed: int = 0, edge_dim: int | None = None) -> Data:
    """A connected graph with equal positive weights in both directions."""
    data = draw_graph(num_nodes, seed, edge_dim)
    half = data.edge_index.size(1) // 2
    generator = torch.Generator().manual_seed(seed + 100)
    weight = 0.5 + torch.rand(half, generator=generator, dtype=torch.float64)
    data.edge_weight = torch.cat([weight, weight])
    return data


def dense(edge_index: Tensor, weight: Tensor | None, num_nodes: int) -> Tensor:
    """The matrix with row i, column j for the edge from j to i."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for place, (source, target) in enumerate(edge_index.t().tolist()):
        matrix[target, source] += 1.0 if weight is None else weight[place]
    return matrix


def adjacency(data: Data, edge_weight: Tensor | None = None) -> Tensor:
    """The matrix of a graph: ``A[i, j]`` is the weight of the edge from ``j`` to ``i``."""
    return dense(data.edge_index, edge_weight, data.num_nodes)


def fill_loops(matrix: Tensor) -> Tensor:
    """Puts one on the diagonal where it is zero."""
    return matrix + torch.diag((matrix.diagonal() == 0).to(matrix))


def drop_loops(matrix: Tensor) -> Tensor:
    """Puts zero on the diagonal."""
    return matrix - torch.diag(matrix.diagonal())


def symmetric(matrix: Tensor) -> Tensor:
    """Divides by the roots of the row sums on both sides; empty rows stay empty."""
    degree = matrix.sum(dim=1)
    scale = torch.where(degree > 0, degree**-0.5, torch.zeros_like(degree))
    return scale[:, None] * matrix * scale[None, :]


def gcn_matrix(matrix: Tensor, loops: bool = True) -> Tensor:
    """``D^-1/2 (A + I) D^-1/2``, or the same without the loops."""
    return symmetric(matrix + torch.eye(len(matrix), dtype=matrix.dtype) if loops else matrix)


def mean_matrix(matrix: Tensor) -> Tensor:
    """Rows divided by the number of their entries."""
    count = (matrix != 0).sum(1, keepdim=True).clamp(min=1)
    return matrix / count


def affine(lin: Linear, x: Tensor) -> Tensor:
    """A linear layer by its matrices."""
    out = x @ lin.weight.t()
    return out if lin.bias is None else out + lin.bias


def attention(score: Tensor, matrix: Tensor) -> Tensor:
    """Softmax of ``score[i, j]`` over the ``j`` with an entry in row ``i``."""
    masked = score.masked_fill(matrix == 0, float("-inf"))
    return masked.softmax(dim=1)


def distances(matrix: Tensor) -> Tensor:
    """Shortest directed distances by Floyd and Warshall, from column to row."""
    num_nodes = matrix.size(0)
    distance = torch.full((num_nodes, num_nodes), float("inf"), dtype=torch.float64)
    distance[matrix != 0] = 1
    distance.fill_diagonal_(0)
    for middle in range(num_nodes):
        through = distance[:, middle : middle + 1] + distance[middle : middle + 1]
        distance = torch.minimum(distance, through)
    return distance
