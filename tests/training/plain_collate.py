"""The plain twin of packed graphs: PyG's batch, with the targets of a step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch_geometric.data import Batch, Data

from torch_grama.datasets.task_data import Level
from torch_grama.training.graph_batch import GraphBatch


def collate(
    graphs: Sequence[Data], level: Level, *, each_graph_counts: bool = False, targets: bool = True
) -> GraphBatch:
    """Lays graphs side by side; arguments as those of packed graphs."""
    names = ("x", "edge_index", "edge_weight", "edge_attr", "rwse", "lap_vectors")
    whole = Batch.from_data_list(
        [Data(**{name: graph[name] for name in names if name in graph}) for graph in graphs]
    )
    y, rows, weight = None, None, None
    if targets:
        y = torch.cat([_targets(graph, level) for graph in graphs])
    if targets and level == "node":
        if "label_mask" in graphs[0]:
            rows = torch.cat([graph["label_mask"] for graph in graphs]).nonzero().reshape(-1)
            assert y is not None
            y = y.index_select(0, rows)
        if each_graph_counts:
            owners = whole.batch if rows is None else whole.batch.index_select(0, rows)
            counts = torch.bincount(owners, minlength=len(graphs))
            weight = counts.clamp(min=1).reciprocal().index_select(0, owners)
    found = {name: whole[name] for name in names if name in whole}
    found["edge_index"] = whole.edge_index.long()
    return GraphBatch(
        **found, batch=whole.batch, batch_size=len(graphs), y=y, rows=rows, weight=weight
    )


def _targets(graph: Data, level: Level) -> torch.Tensor:
    y: torch.Tensor = graph["y"]
    if level == "graph" and y.dim() <= 1:
        # one class a graph stays [1]; K quantities of a graph become [1, K]
        return y.reshape(1) if y.numel() == 1 and not y.is_floating_point() else y.reshape(1, -1)
    return y
