"""Backbones that are linear maps: how a module is recognised as one, and the matrices they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch_geometric.nn import GCN2Conv, GCNConv, GraphConv, SAGEConv
from torch_geometric.nn import Linear as PyGLinear
from torch_geometric.nn.aggr import Aggregation

from torch_grama.nn.engine.adjacency import Adjacency, LinearMap, value_type
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.neighbor_convs import RootedGCNConv


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

    Known are PyG's :class:`GCNConv`, :class:`GCN2Conv`, :class:`GraphConv` and :class:`SAGEConv` in
    their linear settings, :class:`RootedGCNConv`, and every module with the method of
    :class:`LinearBackbone`. Where anything about a module is not plainly the known one (hooks,
    replaced or parametrised parts, methods of its own), it is left to the general engine, which
    calls it.
    """
    if _is_watched(module):
        return None
    if isinstance(module, LinearBackbone):
        return module.linear_map(graph.edge_index, graph.edge_weight, graph.num_nodes)
    reader = _READERS.get(type(module))
    return reader(module, graph) if reader is not None and _is_plain(module) else None


def _is_watched(module: Module) -> bool:
    if getattr(module, "explain", None):
        return True
    # those of torch, and PyG's around propagate, message, aggregate and the like
    return any(
        hooks
        for part in module.modules()
        for name, hooks in vars(part).items()
        if name.endswith("_hooks") and not name.startswith(("_state_dict", "_load_state_dict"))
    )


def _is_plain(module: Module) -> bool:
    # linear maps of exactly these classes, their weights plain parameters, nothing overridden, and
    # messages along the edges
    parts = [part for part in module.children() if not isinstance(part, Aggregation)]
    known = all(type(p) in (PyGLinear, Linear) and type(p.weight) is Parameter for p in parts)
    forwards = getattr(module, "flow", None) == "source_to_target"
    return known and forwards and not any(name in vars(module) for name in _METHODS)


_METHODS = ("forward", "propagate", "message", "aggregate", "update", "message_and_aggregate")


def _read_gcn(module: GCNConv, graph: GraphInput) -> LinearMap | None:
    if not module.normalize or module.aggr != "add":
        return None
    if module.improved and graph.edge_weight is None:
        # PyG's releases differ in the weight of these loops; the module knows its own
        return None
    loop_weight = (2.0 if module.improved else 1.0) if module.add_self_loops else None
    weight = module.lin.weight
    adjacency = shared_gcn_adjacency(graph, weight.dtype, loop_weight)
    return LinearMap(adjacency, weight.t(), bias=module.bias)


def _read_rooted_gcn(module: RootedGCNConv, graph: GraphInput) -> LinearMap | None:
    linear = _read_gcn(module, graph)
    return None if linear is None else replace(linear, root_weight=module.root.weight.t())


def _read_gcn2(module: GCN2Conv, graph: GraphInput) -> LinearMap | None:
    if not module.normalize or module.aggr != "add":
        return None
    first, second = module.weight1, module.weight1 if module.weight2 is None else module.weight2
    loop_weight = 1.0 if module.add_self_loops else None
    adjacency = shared_gcn_adjacency(graph, first.dtype, loop_weight)
    identity = torch.eye(module.channels, dtype=first.dtype, device=first.device)
    weight, initial = (identity.lerp(weight, module.beta) for weight in (first, second))
    source = None if graph.x_0 is None else graph.x_0 @ (module.alpha * initial)
    return LinearMap(adjacency, (1 - module.alpha) * weight, source=source)


def _read_graph_conv(module: GraphConv, graph: GraphInput) -> LinearMap | None:
    if not isinstance(module.aggr, str) or module.aggr not in _AGGREGATIONS:
        return None
    weight = module.lin_rel.weight
    adjacency = _aggregation(module.aggr, graph, graph.edge_weight, weight)
    return LinearMap(adjacency, weight.t(), module.lin_root.weight.t(), module.lin_rel.bias)


def _read_sage(module: SAGEConv, graph: GraphInput) -> LinearMap | None:
    if not isinstance(module.aggr, str) or module.aggr not in _AGGREGATIONS:
        return None
    if module.normalize or module.project:
        return None
    weight = module.lin_l.weight
    adjacency = _aggregation(module.aggr, graph, None, weight)
    root = module.lin_r.weight.t() if module.root_weight else None
    return LinearMap(adjacency, weight.t(), root, module.lin_l.bias)


def _aggregation(
    aggr: str, graph: GraphInput, edge_weight: Tensor | None, weight: Tensor
) -> Adjacency:
    dtype = weight.dtype
    return graph.adjacency(
        (aggr, edge_weight is None, dtype),
        lambda: _AGGREGATIONS[aggr](graph.edge_index, edge_weight, graph.num_nodes, dtype),
    )


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
    """
    source, target, dtype = edge_index[0], edge_index[1], value_type(dtype)
    device = edge_index.device
    nodes = torch.arange(num_nodes, device=device)
    zeros = torch.zeros(num_nodes, dtype=dtype, device=device)
    if edge_weight is None and loop_weight == 1.0:
        # every node gets the loop of weight one that it has, or has not: all degrees are positive
        source, target = torch.cat([source, nodes]), torch.cat([target, nodes])
        value = (source != target).to(dtype)
        value[edge_index.size(1) :] = 1.0
        scale = zeros.index_add(0, target, value).rsqrt()
    else:
        value = sum_adjacency(edge_index, edge_weight, num_nodes, dtype).value
        if loop_weight is not None:
            is_loop = source == target
            # The last slot takes what is not a loop, so that all edges write and none needs a mask.
            slot = torch.where(is_loop, source, num_nodes)
            loops = torch.full((num_nodes + 1,), loop_weight, dtype=dtype, device=device)
            loops = loops.scatter(0, slot, value)[:num_nodes]
            source, target = torch.cat([source, nodes]), torch.cat([target, nodes])
            value = torch.cat([torch.where(is_loop, 0.0, value), loops])
        degree = zeros.index_add(0, target, value)
        scale = torch.where(degree > 0, degree.clamp(min=torch.finfo(dtype).tiny).rsqrt(), 0.0)
    value = scale.index_select(0, source) * value * scale.index_select(0, target)
    return Adjacency(target, source, value, num_nodes)


def shared_gcn_adjacency(
    graph: GraphInput, dtype: torch.dtype, loop_weight: float | None = 1.0
) -> Adjacency:
    r"""Returns :func:`gcn_adjacency` of a graph, made once for all that ask for it."""
    given = graph.edge_index, graph.edge_weight, graph.num_nodes, dtype, loop_weight
    return graph.adjacency(("gcn", loop_weight, dtype), partial(gcn_adjacency, *given))


def mean_adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> Adjacency:
    r"""Returns the matrix that averages over incoming edges, each message times its weight."""
    plain = sum_adjacency(edge_index, edge_weight, num_nodes, dtype)
    count = plain.value.new_zeros(num_nodes)
    count = count.index_add(0, plain.target, torch.ones_like(plain.value))
    value = plain.value / count.clamp(min=1)[plain.target]
    return Adjacency(plain.target, plain.source, value, num_nodes)


def sum_adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> Adjacency:
    r"""Returns the matrix that adds up over incoming edges, each message times its weight."""
    source, target, dtype = edge_index[0], edge_index[1], value_type(dtype)
    if edge_weight is None:
        edge_weight = torch.ones(source.numel(), dtype=dtype, device=edge_index.device)
    return Adjacency(target, source, edge_weight.to(dtype), num_nodes)


_AGGREGATIONS = {"add": sum_adjacency, "sum": sum_adjacency, "mean": mean_adjacency}
_READERS: dict[type[Module], Callable[..., LinearMap | None]] = {
    GCNConv: _read_gcn,
    GCN2Conv: _read_gcn2,
    RootedGCNConv: _read_rooted_gcn,
    GraphConv: _read_graph_conv,
    SAGEConv: _read_sage,
}
