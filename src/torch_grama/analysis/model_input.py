"""What a model is called with, read once from whatever graph object the caller has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis._checks import check_batch


class GraphLike(Protocol):
    r"""A graph or a batch of graphs as PyG's ``Data`` and ``Batch`` present it.

    The attributes ``edge_weight``, ``edge_attr``, ``batch``, ``num_graphs`` and ``pe`` are read
    where they exist.
    """

    @property
    def x(self) -> Tensor | None:
        r"""Node features ``[N, ...]``."""

    @property
    def edge_index(self) -> Tensor | None:
        r"""Edges ``[2, E]``, from source to target."""


@dataclass(frozen=True, eq=False)
class ModelInput:
    r"""The arguments of a model: one graph, or a batch of graphs.

    Attributes:
        x: Node features :math:`(N, *)`.
        edge_index: Edges :math:`(2, E)`, from source to target.
        edge_weight: Edge weights :math:`(E)`, if any.
        edge_attr: Edge attributes :math:`(E, *)`, if any.
        batch: The graph of each node :math:`(N)`, sorted; :obj:`None` for one graph.
        batch_size: Number of graphs :math:`B`; :obj:`None` to read it off ``batch``.
        pe: Positional encodings :math:`(N, K)`, passed only where there are any.
    """

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    batch: Tensor | None = None
    batch_size: int | None = None
    pe: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        r"""Number of nodes :math:`N`."""
        return self.x.size(0)

    @property
    def num_graphs(self) -> int:
        r"""Number of graphs :math:`B`."""
        return self.membership()[1]

    def membership(self) -> tuple[Tensor, int]:
        r"""Returns the graph ``[N]`` of each node and the number of graphs."""
        return check_batch(self.x, self.batch, self.batch_size)

    def run(self, model: Module, x: Tensor | None = None) -> Tensor:
        r"""Calls the model, with other node features if they are given."""
        positions = {} if self.pe is None else {"pe": self.pe}
        out: Tensor = model(
            self.x if x is None else x,
            self.edge_index,
            self.edge_weight,
            self.edge_attr,
            self.batch,
            self.batch_size,
            **positions,
        )
        return out

    def split(self) -> list[ModelInput]:
        r"""Returns the graphs of a batch, one by one."""
        if self.batch is None:
            return [self]
        graph, num_graphs = self.membership()
        graph_of_edge = graph[self.edge_index[0]]
        position = torch.zeros_like(graph)
        parts = []
        for index in range(num_graphs):
            (nodes,) = (graph == index).nonzero(as_tuple=True)
            edges = graph_of_edge == index
            position[nodes] = torch.arange(len(nodes), device=nodes.device)
            parts.append(
                ModelInput(
                    self.x[nodes],
                    position[self.edge_index[:, edges]],
                    None if self.edge_weight is None else self.edge_weight[edges],
                    None if self.edge_attr is None else self.edge_attr[edges],
                    pe=None if self.pe is None else self.pe[nodes],
                )
            )
        return parts


def read_input(data: GraphLike | ModelInput | Sequence[GraphLike | ModelInput]) -> ModelInput:
    r"""Reads the arguments of a model from a graph, a batch, or a sequence of graphs.

    Args:
        data (ModelInput, Data, Batch or sequence): The graphs; a sequence is joined to a batch.

    Raises:
        ValueError: If there is no graph, if node features or edges are missing, or if some graphs
            have what others lack.
    """
    if isinstance(data, ModelInput):
        return data
    if isinstance(data, Sequence):
        return _join([part for item in data for part in read_input(item).split()])
    x, edge_index = getattr(data, "x", None), getattr(data, "edge_index", None)
    if not isinstance(x, Tensor) or not isinstance(edge_index, Tensor):
        raise ValueError(
            f"Expected a graph with tensors 'x' and 'edge_index' (got {type(data).__name__} with "
            f"x of type {type(x).__name__} and edge_index of type {type(edge_index).__name__})"
        )
    batch = getattr(data, "batch", None)
    return ModelInput(
        x,
        edge_index,
        getattr(data, "edge_weight", None),
        getattr(data, "edge_attr", None),
        batch,
        None if batch is None else getattr(data, "num_graphs", None),
        getattr(data, "pe", None),
    )


@contextmanager
def evaluation_mode(model: Module) -> Iterator[None]:
    r"""Switches dropout and running statistics off for a while, and every module back after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _join(graphs: Sequence[ModelInput]) -> ModelInput:
    if not graphs:
        raise ValueError("Expected at least one graph to analyse (got none)")
    if len(graphs) == 1:
        return graphs[0]
    sizes = torch.tensor([graph.num_nodes for graph in graphs], device=graphs[0].x.device)
    first_nodes = (sizes.cumsum(0) - sizes).tolist()
    edges = [graph.edge_index + first for graph, first in zip(graphs, first_nodes, strict=True)]
    return ModelInput(
        torch.cat([graph.x for graph in graphs]),
        torch.cat(edges, dim=1),
        _join_optional("edge_weight", [graph.edge_weight for graph in graphs]),
        _join_optional("edge_attr", [graph.edge_attr for graph in graphs]),
        torch.repeat_interleave(sizes),
        len(graphs),
        _join_optional("pe", [graph.pe for graph in graphs]),
    )


def _join_optional(name: str, parts: Sequence[Tensor | None]) -> Tensor | None:
    given = [part for part in parts if part is not None]
    if 0 < len(given) < len(parts):
        raise ValueError(
            f"Expected '{name}' in all graphs or in none (got it in {len(given)} of {len(parts)})"
        )
    return torch.cat(given) if given else None
