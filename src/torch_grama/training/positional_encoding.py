"""Positional encodings as one matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.datasets.task_data import GraphTaskData
from torch_grama.training.graph_batch import GraphBatch


def collect_positions(batch: GraphBatch, *, random_signs: bool) -> Tensor | None:
    r"""Random-walk encodings and Laplacian eigenvectors side by side.

    An eigenvector is known up to its sign, so that in training each one of each graph gets a random
    sign. What is missing of them (NaN, in graphs of few nodes) becomes 0.

    Args:
        batch (GraphBatch): The graphs.
        random_signs (bool): Whether signs are drawn.

    Returns:
        Tensor, optional: ``[N, K]``; :obj:`None` where there are no encodings.
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


def count_positions(data: GraphTaskData) -> int:
    r"""Number of columns of the positional encodings that a model of this data set is passed.

    Args:
        data (GraphTaskData): A data set, after its transforms.
    """
    graph = data.graphs[0]
    found = [graph.get(name) for name in ("rwse", "lap_vectors")]
    return sum(values.size(1) for values in found if values is not None)
