"""Symmetric normalisation of a graph, without waiting for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.nn.engine.adjacency import Adjacency


def gcn_adjacency(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    dtype: torch.dtype,
    loop_weight: float | None = 1.0,
) -> Adjacency:
    r"""Returns :math:`\tilde{\mathbf{D}}^{-1/2} \tilde{\mathbf{A}} \tilde{\mathbf{D}}^{-1/2}`.

    Equal to PyG's :func:`~torch_geometric.nn.conv.gcn_conv.gcn_norm`, except that self-loops that
    are there already get the value zero where they stand and pass their weight to the loops
    appended at the end. So the number of entries is known beforehand, which a captured CUDA graph,
    a compiler and an exporter need.

    Args:
        edge_index (Tensor): Edges :math:`(2, E)`, from source to target.
        edge_weight (Tensor, optional): Edge weights :math:`(E)`.
        num_nodes (int): Number of nodes.
        dtype (torch.dtype): Type of the values.
        loop_weight (float, optional): Weight of the self-loop that every node without one gets;
            :obj:`None` adds none. (default: :obj:`1.0`)
    """
    source, target = edge_index[0], edge_index[1]
    device = edge_index.device
    if edge_weight is None and loop_weight == 1.0:
        # every node gets the loop of weight one that it has, or has not: all degrees are positive
        source, target = _append_loops(source, target, num_nodes)
        value = (source != target).to(dtype)
        value[edge_index.size(1) :] = 1.0
        scale = _degree(target, value, num_nodes).rsqrt()
    else:
        value = (
            torch.ones(source.numel(), dtype=dtype, device=device)
            if edge_weight is None
            else edge_weight.to(dtype)
        )
        if loop_weight is not None:
            is_loop = source == target
            # The last slot takes what is not a loop, so that all edges write and none needs a mask.
            slot = torch.where(is_loop, source, num_nodes)
            loops = torch.full((num_nodes + 1,), loop_weight, dtype=dtype, device=device)
            loops = loops.scatter(0, slot, value)[:num_nodes]
            source, target = _append_loops(source, target, num_nodes)
            value = torch.cat([torch.where(is_loop, 0.0, value), loops])
        degree = _degree(target, value, num_nodes)
        scale = torch.where(degree > 0, degree.clamp(min=torch.finfo(dtype).tiny).rsqrt(), 0.0)
    value = scale.index_select(0, source) * value * scale.index_select(0, target)
    return Adjacency(target, source, value, num_nodes)


def _append_loops(source: Tensor, target: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    nodes = torch.arange(num_nodes, device=source.device)
    return torch.cat([source, nodes]), torch.cat([target, nodes])


def _degree(target: Tensor, value: Tensor, num_nodes: int) -> Tensor:
    zeros = torch.zeros(num_nodes, dtype=value.dtype, device=value.device)
    return zeros.index_add(0, target, value)


def mean_adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> Adjacency:
    r"""Returns the matrix that averages over incoming edges, each message times its weight."""
    plain = sum_adjacency(edge_index, edge_weight, num_nodes, dtype)
    count = torch.zeros(num_nodes, dtype=dtype, device=edge_index.device)
    count = count.index_add(0, plain.target, torch.ones_like(plain.value))
    value = plain.value / count.clamp(min=1)[plain.target]
    return Adjacency(plain.target, plain.source, value, num_nodes)


def sum_adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> Adjacency:
    r"""Returns the matrix that adds up over incoming edges, each message times its weight."""
    source, target = edge_index[0], edge_index[1]
    value = (
        torch.ones(source.numel(), dtype=dtype, device=edge_index.device)
        if edge_weight is None
        else edge_weight.to(dtype)
    )
    return Adjacency(target, source, value, num_nodes)
