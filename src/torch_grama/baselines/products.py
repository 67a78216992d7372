"""Products of sparse matrices with node states."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.nn.engine.adjacency import Adjacency, LinearMap
from torch_grama.nn.engine.kernels import sparse_product
from torch_grama.nn.engine.sequence import apply, handwritten_gradients_work
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import sum_adjacency


def propagate(adjacency: Adjacency, x: Tensor) -> Tensor:
    r"""Returns :math:`\mathbf{A} \mathbf{x}`, differentiable in :math:`\mathbf{x}`.

    No message is stored for an edge, so memory does not grow with edges times channels. Where the
    matrix itself is differentiated, or a compiler or a function transform looks on, the messages
    are formed after all.
    """
    if adjacency.value.requires_grad or not handwritten_gradients_work():
        return adjacency.propagate(x)
    out: Tensor = apply(_FixedProduct, x, adjacency)
    return out


def apply_linear_map(linear: LinearMap, x: Tensor) -> Tensor:
    r"""Returns what a linear map makes of node states, by :func:`propagate`."""
    out = propagate(linear.adjacency, x @ linear.weight)
    if linear.root_weight is not None:
        out = out + x @ linear.root_weight
    return out if linear.bias is None else out + linear.bias


class _FixedProduct(torch.autograd.Function):
    """Forward with the rows, backward with the columns."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, matrix: Adjacency) -> Tensor:
        ctx.matrix = matrix  # type: ignore[attr-defined]
        return sparse_product(matrix.csr, x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        matrix: Adjacency = ctx.matrix  # type: ignore[attr-defined]
        return sparse_product(matrix.transposed, gradient), None


def weigh_without_loops(
    edge_index: Tensor, edge_weight: Tensor | None, dtype: torch.dtype
) -> Tensor:
    r"""Returns the edge weights, ones where there are none, with zeros at self-loops.

    The edges stay where they are, so their number does not depend on their values.
    """
    is_loop = edge_index[0] == edge_index[1]
    if edge_weight is None:
        return (~is_loop).to(dtype)
    return torch.where(is_loop, 0.0, edge_weight.to(dtype))


def gather_rows(vectors: Tensor, graph: GraphInput, edge_weight: Tensor | None) -> Tensor:
    r"""Returns the adjacency matrix times a vector of each node of the one graph that a model was
    built for.
    """
    if graph.num_nodes != len(vectors):
        raise ValueError(
            f"Expected the graph of num_nodes={len(vectors)} nodes that the model was built for "
            f"(got {graph.num_nodes}); it learns a vector for each node and serves one graph alone"
        )
    rows = sum_adjacency(graph.edge_index, edge_weight, graph.num_nodes, vectors.dtype)
    return propagate(rows, vectors)
