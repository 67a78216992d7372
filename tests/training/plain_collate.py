"""The plain twin of packed graphs: a loop over graphs, with one concatenation an attribute."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.task_data import Level
from torch_grama.training.graph_batch import GraphBatch


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
