"""Matrices and formulas of a graph in dense form, written without the operators under test."""

from __future__ import annotations

import torch
from baseline_checks import draw_graph
from torch import Tensor
from torch.nn import Linear
from torch_geometric.data import Data


def draw_weighted_graph(num_nodes: int = 7, seed: int = 0, edge_dim: int | None = None) -> Data:
    """A connected graph with equal positive weights in both directions."""
    data = draw_graph(num_nodes, seed, edge_dim)
    half = data.edge_index.size(1) // 2
    generator = torch.Generator().manual_seed(seed + 100)
    weight = 0.5 + torch.rand(half, generator=generator, dtype=torch.float64)
    data.edge_weight = torch.cat([weight, weight])
    return data


def adjacency(data: Data, edge_weight: Tensor | None = None) -> Tensor:
    """``A[i, j]``: weight of the edge from ``j`` to ``i``."""
    size = data.num_nodes
    matrix = torch.zeros(size, size, dtype=torch.float64)
    weights = torch.ones(data.edge_index.size(1)) if edge_weight is None else edge_weight
    for (source, target), weight in zip(data.edge_index.t().tolist(), weights, strict=True):
        matrix[target, source] += weight
    return matrix


def gcn_matrix(matrix: Tensor, loops: bool = True) -> Tensor:
    """``D^-1/2 (A + I) D^-1/2``, or the same without the loops; zero rows stay zero."""
    if loops:
        matrix = matrix + torch.eye(len(matrix), dtype=matrix.dtype)
    degree = matrix.sum(1)
    scale = torch.where(degree > 0, degree, torch.ones_like(degree)) ** -0.5
    scale = scale * (degree > 0)
    return scale[:, None] * matrix * scale[None, :]


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
