"""Backbones that are linear maps, and how a module declares itself one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import GCNConv, GraphConv, SAGEConv

from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.gcn_normalization import gcn_adjacency, mean_adjacency, sum_adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.rooted_gcn_conv import RootedGCNConv


@dataclass(frozen=True, eq=False)
class LinearMap:
    r"""The affine map :math:`\mathbf{f} \mapsto \mathbf{A} \mathbf{f} \mathbf{W} +
    \mathbf{f} \mathbf{W}_{\mathrm{root}} + \mathbf{b}` on node states.

    A callable like any backbone, and one that the fast engines can read.

    Attributes:
        adjacency: The matrix :math:`\mathbf{A}`.
        weight: The matrix :math:`\mathbf{W}`, :math:`(F, F)`.
        root_weight: The matrix :math:`\mathbf{W}_{\mathrm{root}}`, :math:`(F, F)`, if any.
        bias: The vector :math:`\mathbf{b}`, :math:`(F)`, if any.
    """

    adjacency: Adjacency
    weight: Tensor
    root_weight: Tensor | None = None
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        out = self.adjacency.propagate(x @ self.weight)
        if self.root_weight is not None:
            out = out + x @ self.root_weight
        return out if self.bias is None else out + self.bias

    def scale(self, gain: Tensor | None) -> LinearMap:
        r"""Returns the map times a scalar."""
        if gain is None:
            return self
        return LinearMap(
            self.adjacency,
            gain * self.weight,
            None if self.root_weight is None else gain * self.root_weight,
            None if self.bias is None else gain * self.bias,
        )


@runtime_checkable
class LinearBackbone(Protocol):
    r"""What a user's module offers to be run by the linear engine.

    One method that returns the map which its forward pass computes on the given graph, so that
    ``module(x, edge_index, edge_weight)`` equals
    ``module.linear_map(edge_index, edge_weight, x.size(0))(x)``.
    """

    def linear_map(
        self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> LinearMap:
        r"""Returns the map on a graph."""
        ...


def find_linear_map(module: Module, graph: GraphInput) -> LinearMap | None:
    r"""Returns the linear map of a backbone on a graph, or :obj:`None` if none is known.

    Known are PyG's :class:`GCNConv`, :class:`GraphConv` and :class:`SAGEConv` in their linear
    settings, :class:`RootedGCNConv`, and every module with the method of
    :class:`LinearBackbone`. A module with hooks is left to the general engine, which calls it.
    """
    if _is_watched(module):
        return None
    if isinstance(module, LinearBackbone):
        return module.linear_map(graph.edge_index, graph.edge_weight, graph.num_nodes)
    reader = _READERS.get(type(module))
    return None if reader is None else reader(module, graph)


def _is_watched(module: Module) -> bool:
    if getattr(module, "explain", None):
        return True
    return any(
        m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks
        for m in module.modules()
    )


def _read_gcn(module: GCNConv, graph: GraphInput) -> LinearMap | None:
    if not module.normalize or module.aggr != "add" or module.flow != "source_to_target":
        return None
    if module.improved and graph.edge_weight is None:
        # PyG's releases differ in the weight of these loops; the module knows its own
        return None
    loop_weight = (2.0 if module.improved else 1.0) if module.add_self_loops else None
    weight = module.lin.weight
    dtype = _value_type(weight)
    adjacency = graph.adjacency(
        ("gcn", loop_weight, dtype),
        lambda: gcn_adjacency(
            graph.edge_index, graph.edge_weight, graph.num_nodes, dtype, loop_weight
        ),
    )
    return LinearMap(adjacency, weight.t(), bias=module.bias)


def _read_rooted_gcn(module: RootedGCNConv, graph: GraphInput) -> LinearMap | None:
    linear = _read_gcn(module, graph)
    return None if linear is None else replace(linear, root_weight=module.root.weight.t())


def _read_graph_conv(module: GraphConv, graph: GraphInput) -> LinearMap | None:
    if not isinstance(module.aggr, str) or module.aggr not in _AGGREGATIONS:
        return None
    if module.flow != "source_to_target":
        return None
    weight = module.lin_rel.weight
    adjacency = _aggregation(module.aggr, graph, graph.edge_weight, weight)
    return LinearMap(adjacency, weight.t(), module.lin_root.weight.t(), module.lin_rel.bias)


def _read_sage(module: SAGEConv, graph: GraphInput) -> LinearMap | None:
    if not isinstance(module.aggr, str) or module.aggr not in _AGGREGATIONS:
        return None
    if module.normalize or module.project or module.flow != "source_to_target":
        return None
    weight = module.lin_l.weight
    adjacency = _aggregation(module.aggr, graph, None, weight)
    root = module.lin_r.weight.t() if module.root_weight else None
    return LinearMap(adjacency, weight.t(), root, module.lin_l.bias)


def _aggregation(
    aggr: str, graph: GraphInput, edge_weight: Tensor | None, weight: Tensor
) -> Adjacency:
    dtype = _value_type(weight)
    return graph.adjacency(
        (aggr, edge_weight is None, dtype),
        lambda: _AGGREGATIONS[aggr](graph.edge_index, edge_weight, graph.num_nodes, dtype),
    )


def _value_type(weight: Tensor) -> torch.dtype:
    return torch.promote_types(weight.dtype, torch.float32)


_AGGREGATIONS = {"add": sum_adjacency, "sum": sum_adjacency, "mean": mean_adjacency}
_READERS: dict[type[Module], Callable[..., LinearMap | None]] = {
    GCNConv: _read_gcn,
    RootedGCNConv: _read_rooted_gcn,
    GraphConv: _read_graph_conv,
    SAGEConv: _read_sage,
}
