"""What can be counted in the graphs of a data set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.own_data.edges import contains
from torch_grama.datasets.task_data import GraphTaskData


@dataclass(frozen=True)
class Survey:
    r"""Counts over all graphs of a data set.

    Attributes:
        nodes: Number of nodes of each graph.
        edges: Number of entries of ``edge_index`` of each graph.
        loops: Distinct edges from a node to itself.
        duplicates: Entries beyond the first of the same edge.
        one_way: Distinct edges whose reverse is missing.
        isolated: Nodes without an edge to or from another node.
        degrees: Least, mean and greatest number of entries that arrive at a node, without loops.
        weighted: Whether the edges have a weight.
        targets: ``y`` of all graphs, one after the other.
        columns: Least and greatest value of each column of ``x``.
    """

    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    loops: int
    duplicates: int
    one_way: int
    isolated: int
    degrees: tuple[int, float, int]
    weighted: bool
    targets: Tensor
    columns: tuple[Tensor, Tensor]


def survey(data: GraphTaskData) -> Survey:
    r"""Counts what there is, looking at every graph once.

    Args:
        data (GraphTaskData): The data set.
    """
    nodes, edges, targets = [], [], []
    loops = duplicates = isolated = one_way = 0
    degrees = [np.zeros(0, dtype=np.int64)]
    columns: tuple[Tensor, Tensor] | None = None
    weighted = False
    for graph in data.graphs:
        count = graph.num_nodes or 0
        ends = np.zeros((2, 0)) if graph.edge_index is None else graph.edge_index.cpu().numpy()
        source, target = ends.astype(np.int64)
        keys = np.sort(source * count + target)
        forward = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
        start, stop = np.divmod(forward, max(1, count))
        loops += int((start == stop).sum())
        duplicates += len(keys) - len(forward)
        one_way += int((~contains(forward, stop * count + start)).sum())
        other = source != target
        degree = np.bincount(target[other], minlength=count)
        degrees.append(degree)
        isolated += int((degree + np.bincount(source[other], minlength=count) == 0).sum())
        nodes.append(count)
        edges.append(len(source))
        weighted |= graph.get("edge_weight") is not None
        if isinstance(graph.y, Tensor):
            targets.append(graph.y)
        columns = _widen(columns, graph)
    degree = np.concatenate(degrees)
    return Survey(
        nodes=np.array(nodes, dtype=np.int64),
        edges=np.array(edges, dtype=np.int64),
        loops=loops,
        duplicates=duplicates,
        one_way=one_way,
        isolated=isolated,
        degrees=(int(degree.min()), float(degree.mean()), int(degree.max())),
        weighted=weighted,
        targets=torch.cat(targets) if targets else torch.zeros(0),
        columns=columns or (torch.zeros(0), torch.zeros(0)),
    )


def _widen(columns: tuple[Tensor, Tensor] | None, graph: Data) -> tuple[Tensor, Tensor] | None:
    x = graph.x
    if x is None or not x.numel():
        return columns
    flat = x.flatten(1) if x.dim() > 1 else x[:, None]
    least, most = flat.amin(dim=0), flat.amax(dim=0)
    if columns is None:
        return least, most
    return torch.minimum(columns[0], least), torch.maximum(columns[1], most)
