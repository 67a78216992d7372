"""What a model sees in one step: features, edges and the targets that count."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data


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
    r"""A single graph with targets on the nodes of a mask ``[N]``, or with none."""
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
