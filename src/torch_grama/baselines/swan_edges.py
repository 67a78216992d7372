"""The symmetric and the antisymmetric matrix of a graph, as weighted edges."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from torch_grama.nn.graph_input import GraphInput

EdgeWeights = tuple[Tensor, Tensor]


def symmetric_edges(graph: GraphInput, dtype: torch.dtype) -> EdgeWeights:
    r"""Returns the edges and weights of :math:`\mathbf{D}^{-1/2} \mathbf{S} \mathbf{D}^{-1/2}`.

    :math:`\mathbf{S} = (\mathbf{A} + \mathbf{A}^{\top}) / 2`, which is :math:`\mathbf{A}` on an
    undirected graph, without self-loops, and :math:`\mathbf{D}` holds its row sums.

    Args:
        graph (GraphInput): The graph.
        dtype (torch.dtype): The type of the weights.
    """
    weight = _weights_without_loops(graph, dtype)
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    weight = torch.cat([weight, weight]) / 2
    degree = scatter(weight, edge_index[1], dim_size=graph.num_nodes, reduce="sum")
    scale = _power(degree, -0.5)
    return edge_index, scale[edge_index[0]] * weight * scale[edge_index[1]]


def antisymmetric_edges(graph: GraphInput, dtype: torch.dtype) -> EdgeWeights:
    r"""Returns the edges and weights of :math:`\mathbf{P} - \mathbf{P}^{\top}`.

    :math:`\mathbf{P} = \mathbf{D}^{-1} \mathbf{A}` without self-loops, where :math:`a_{ij}` is the
    weight of the edge from :math:`j` to :math:`i`, and :math:`\mathbf{D}` holds the row sums.

    Args:
        graph (GraphInput): The graph.
        dtype (torch.dtype): The type of the weights.
    """
    weight = _weights_without_loops(graph, dtype)
    target = graph.edge_index[1]
    degree = scatter(weight, target, dim_size=graph.num_nodes, reduce="sum")
    weight = _power(degree, -1.0)[target] * weight
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    return edge_index, torch.cat([weight, -weight])


def _weights_without_loops(graph: GraphInput, dtype: torch.dtype) -> Tensor:
    source, target = graph.edge_index[0], graph.edge_index[1]
    # a mask in place of a shorter list: the number of edges stays known without a look at them
    keep: Tensor = (source != target).to(dtype)
    return keep if graph.edge_weight is None else keep * graph.edge_weight.to(dtype)


def _power(degree: Tensor, exponent: float) -> Tensor:
    # zero for nodes without edges; the inner choice keeps the gradient finite
    positive = degree > 0
    return torch.where(positive, torch.where(positive, degree, 1.0).pow(exponent), 0.0)
