"""What a model sees in one step: features, edges and the targets that count."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.task_data import Level


@dataclass(frozen=True)
class GraphBatch:
    r"""One or several graphs side by side, and the targets of a step.

    Attributes:
        x: Node features ``[N, C]`` or a sequence of them ``[N, L, C]``.
        edge_index: Edges ``[2, E]``.
        edge_weight: ``[E]``, where there are any.
        edge_attr: ``[E, D]``, likewise.
        batch: The graph of each node ``[N]``; :obj:`None` for one graph.
        batch_size: Number of graphs.
        rwse: Random-walk encodings ``[N, K]``, where computed.
        lap_vectors: Laplacian eigenvectors ``[N, K]``, padded with NaN, where computed.
        y: Targets ``[T]`` or ``[T, K]`` of the rows that count.
        rows: Which rows of the output they belong to ``[T]``; :obj:`None` for all.
        weight: What each of them counts ``[T]``; :obj:`None` for one each.
    """

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    batch: Tensor | None = None
    batch_size: int | None = None
    rwse: Tensor | None = None
    lap_vectors: Tensor | None = None
    y: Tensor | None = None
    rows: Tensor | None = None
    weight: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    def to(self, device: torch.device) -> GraphBatch:
        r"""The same on another device; itself where it is there already."""
        if self.x.device == device:
            return self
        moved = {
            name: value.to(device, non_blocking=True)
            for name, value in self._tensors().items()
            if value is not None
        }
        return dataclasses.replace(self, **moved)  # type: ignore[arg-type]

    def select(self, out: Tensor) -> Tensor:
        r"""The rows of a model's output that have targets."""
        return out if self.rows is None else out.index_select(0, self.rows)

    def _tensors(self) -> dict[str, Tensor | None]:
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "batch_size"
        }


def batch_of_one(data: Data, mask: Tensor | None) -> GraphBatch:
    r"""A single graph with targets on some of its nodes.

    Args:
        data (Data): The graph.
        mask (Tensor, optional): Boolean ``[N]``, the nodes that count; :obj:`None` for no targets.
    """
    y, rows = None, None
    if mask is not None:
        label_mask = data.get("label_mask")
        rows = (mask if label_mask is None else mask & label_mask).nonzero().reshape(-1)
        y = data["y"].index_select(0, rows)
    return GraphBatch(
        x=data["x"],
        edge_index=data["edge_index"],
        edge_weight=data.get("edge_weight"),
        edge_attr=data.get("edge_attr"),
        rwse=data.get("rwse"),
        lap_vectors=data.get("lap_vectors"),
        y=y,
        rows=rows,
    )


def collate(
    graphs: Sequence[Data], level: Level, *, each_graph_counts: bool = False, targets: bool = True
) -> GraphBatch:
    r"""Lays graphs side by side.

    Args:
        graphs (sequence of Data): At least one.
        level (str): Whether nodes or graphs carry the target.
        each_graph_counts (bool, optional): Whether every graph counts the same in a node task,
            however many nodes it has; otherwise every node does. (default: :obj:`False`)
        targets (bool, optional): Whether there are targets. (default: :obj:`True`)
    """
    sizes = torch.tensor([_num_nodes(graph) for graph in graphs])
    offsets = sizes.cumsum(0) - sizes
    num_edges = torch.tensor([graph["edge_index"].size(1) for graph in graphs])
    batch = torch.arange(len(graphs)).repeat_interleave(sizes)
    y, rows, weight = None, None, None
    if targets:
        y = torch.cat([_targets(graph, level) for graph in graphs])
    if targets and level == "node":
        if "label_mask" in graphs[0]:
            rows = torch.cat([graph["label_mask"] for graph in graphs]).nonzero().reshape(-1)
            assert y is not None
            y = y.index_select(0, rows)
        if each_graph_counts:
            owners = batch if rows is None else batch.index_select(0, rows)
            counts = torch.bincount(owners, minlength=len(graphs))
            weight = counts.clamp(min=1).reciprocal().index_select(0, owners)
    shift = offsets.repeat_interleave(num_edges)
    return GraphBatch(
        x=torch.cat([graph["x"] for graph in graphs]),
        edge_index=torch.cat([graph["edge_index"] for graph in graphs], dim=1) + shift,
        edge_weight=_join(graphs, "edge_weight"),
        edge_attr=_join(graphs, "edge_attr"),
        batch=batch,
        batch_size=len(graphs),
        rwse=_join(graphs, "rwse"),
        lap_vectors=_join(graphs, "lap_vectors"),
        y=y,
        rows=rows,
        weight=weight,
    )


def _join(graphs: Sequence[Data], name: str) -> Tensor | None:
    if graphs[0].get(name) is None:
        return None
    return torch.cat([graph[name] for graph in graphs])


def _num_nodes(graph: Data) -> int:
    size: int = graph["x"].size(0)
    return size


def _targets(graph: Data, level: Level) -> Tensor:
    y: Tensor = graph["y"]
    if level == "graph" and y.dim() <= 1:
        # one class a graph stays [1]; K quantities of a graph become [1, K]
        return y.reshape(1) if y.numel() == 1 and not y.is_floating_point() else y.reshape(1, -1)
    return y
