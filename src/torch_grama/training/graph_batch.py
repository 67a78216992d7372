"""What a model sees in one step: features, edges and the targets that count."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data


@dataclass(frozen=True)
class GraphBatch:
    r"""One or several graphs side by side, and the targets of a step."""

    x: Tensor  #: node features ``[N, C]`` or a sequence of them ``[N, L, C]``
    edge_index: Tensor  #: edges ``[2, E]``
    edge_weight: Tensor | None = None  #: ``[E]``, where there are any
    edge_attr: Tensor | None = None  #: ``[E, D]``, likewise
    batch: Tensor | None = None  #: the graph of each node ``[N]``; :obj:`None` for one graph
    batch_size: int | None = None  #: number of graphs
    rwse: Tensor | None = None  #: random-walk encodings ``[N, K]``, where computed
    #: Laplacian eigenvectors ``[N, K]``, padded with NaN, where computed
    lap_vectors: Tensor | None = None
    y: Tensor | None = None  #: targets ``[T]`` or ``[T, K]`` of the rows that count
    #: which rows of the output they belong to ``[T]``; :obj:`None` for all
    rows: Tensor | None = None
    weight: Tensor | None = None  #: what each of them counts ``[T]``; :obj:`None` for one each

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def inputs(self) -> tuple[Tensor | int | None, ...]:
        r"""What every model is called with, in order."""
        graph = self.x, self.edge_index, self.edge_weight, self.edge_attr
        return *graph, self.batch, self.batch_size

    def to(self, device: torch.device) -> GraphBatch:
        r"""The same on another device; itself where it is there already."""
        if self.x.device == device:
            return self
        moved = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return dataclasses.replace(self, **moved)  # type: ignore[arg-type]

    def select(self, out: Tensor) -> Tensor:
        r"""The rows of a model's output that have targets."""
        return out if self.rows is None else out.index_select(0, self.rows)


def batch_of_one(data: Data, mask: Tensor | None) -> GraphBatch:
    r"""A single graph with targets on the nodes of a mask ``[N]``, or with none."""
    y, rows = None, None
    if mask is not None:
        label_mask = data.get("label_mask")
        rows = (mask if label_mask is None else mask & label_mask).nonzero().reshape(-1)
        y = data["y"].index_select(0, rows)
    return GraphBatch(
        **take_features(data), edge_index=data["edge_index"], batch_size=None, y=y, rows=rows
    )


def take_features(
    source: Data | Mapping[str, Tensor], nodes: Tensor | None = None, edges: Tensor | None = None
) -> dict[str, Tensor]:
    r"""The features of some nodes and edges, by the names that they have in a batch; of all of them
    without an index.
    """
    taken = {}
    for name in ("x", "rwse", "lap_vectors", "edge_weight", "edge_attr"):
        values, index = source.get(name), edges if name.startswith("edge") else nodes
        if values is not None:
            taken[name] = values if index is None else values.index_select(0, index)
    return taken


def collect_positions(batch: GraphBatch, *, random_signs: bool) -> Tensor | None:
    r"""Random-walk encodings and Laplacian eigenvectors side by side ``[N, K]``, where there are
    any.

    An eigenvector is known up to its sign, so that in training each one of each graph gets a random
    sign. What is missing of them (NaN, in graphs of few nodes) becomes 0.
    """
    parts = [] if batch.rwse is None else [batch.rwse]
    if batch.lap_vectors is not None:
        vectors = batch.lap_vectors.nan_to_num(nan=0.0)  # padding, not a number gone wrong
        if random_signs:
            num_graphs = batch.batch_size or 1
            coin = torch.rand(num_graphs, vectors.size(1), device=vectors.device) < 0.5
            signs = torch.where(coin, -1.0, 1.0).to(vectors.dtype)
            vectors = vectors * (signs if batch.batch is None else signs[batch.batch])
        parts.append(vectors)
    return torch.cat(parts, dim=1) if parts else None
