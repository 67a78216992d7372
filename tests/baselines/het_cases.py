"""The models of three families by word, and the graphs and dense matrices their tests share."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.experiments.families import forecasting, heterophily, multi_hop

ENTRIES = {**heterophily.ENTRIES, **multi_hop.ENTRIES, **forecasting.ENTRIES}
WORDS = sorted(ENTRIES)
TRANSDUCTIVE = {"resnet_adj"}
INDUCTIVE = [word for word in WORDS if word not in TRANSDUCTIVE]
# Those for which edges carry weights; the others see a set of edges, or none.
WEIGHTED = {
    "a3tgcn",
    "cpgnn",
    "digl",
    "digl_heat",
    "fagcn",
    "fsgnn",
    "gbkgnn",
    "glognn",
    "gprgnn",
    "jacobiconv",
    "mixhop",
    "resnet_adj",
    "resnet_sgc",
    "sgc",
    "sgc_1",
    "tgcn",
}


class AsSequence(Module):
    """Hands features [N, L] to a model of sequences, one channel an element."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def reset_parameters(self) -> None:
        self.model.reset_parameters()

    def forward(self, x: Tensor, *graph: object) -> Tensor:
        return self.model(x.unsqueeze(-1), *graph)


def build(
    word: str,
    readout: str = "node",
    *,
    in_channels: int = 5,
    hidden_channels: int = 8,
    out_channels: int = 3,
    num_layers: int = 3,
    num_nodes: int = 20,
    **options: object,
) -> Module:
    """Builds a model by word for node features of width 5."""
    entry = ENTRIES[word]
    options = {**entry.defaults, **options}
    if word in TRANSDUCTIVE:
        options["num_nodes"] = num_nodes
    if word == "a3tgcn":
        options["seq_len"] = in_channels
    width = 1 if entry.takes_sequence else in_channels
    sizes = width, hidden_channels, out_channels, num_layers
    model = entry.build(*sizes, readout=readout, **options)
    return AsSequence(model) if entry.takes_sequence else model


def draw_weighted_graph(
    num_nodes: int = 9, seed: int = 0, channels: int = 5
) -> tuple[Tensor, Tensor, Tensor]:
    """Features, directed edges with self-loops among them, no edge twice, and weights: float64."""
    generator = torch.Generator().manual_seed(seed)
    present = torch.rand(num_nodes, num_nodes, generator=generator) < 0.3
    present[0, 0], present[1, 1], present[2, 2] = True, True, False
    present[-1], present[:, -1] = False, False  # a node on its own
    edge_index = present.nonzero().t().contiguous()
    weight = 0.5 + torch.rand(edge_index.size(1), generator=generator, dtype=torch.float64)
    x = torch.randn(num_nodes, channels, generator=generator, dtype=torch.float64)
    return x, edge_index, weight


def dense(edge_index: Tensor, weight: Tensor | None, num_nodes: int) -> Tensor:
    """The matrix with row i, column j for the edge from j to i."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for place, (source, target) in enumerate(edge_index.t().tolist()):
        matrix[target, source] = 1.0 if weight is None else weight[place]
    return matrix


def fill_loops(matrix: Tensor) -> Tensor:
    """Puts one on the diagonal where it is zero."""
    return matrix + torch.diag((matrix.diagonal() == 0).to(matrix))


def drop_loops(matrix: Tensor) -> Tensor:
    """Puts zero on the diagonal."""
    return matrix - torch.diag(matrix.diagonal())


def symmetric(matrix: Tensor) -> Tensor:
    """Divides by the roots of the row sums on both sides; empty rows stay empty."""
    degree = matrix.sum(dim=1)
    scale = torch.where(degree > 0, degree**-0.5, torch.zeros_like(degree))
    return scale[:, None] * matrix * scale[None, :]


def distances(matrix: Tensor) -> Tensor:
    """Shortest directed distances by Floyd and Warshall, from column to row."""
    num_nodes = matrix.size(0)
    distance = torch.full((num_nodes, num_nodes), float("inf"), dtype=torch.float64)
    distance[matrix != 0] = 1
    distance.fill_diagonal_(0)
    for middle in range(num_nodes):
        through = distance[:, middle : middle + 1] + distance[middle : middle + 1]
        distance = torch.minimum(distance, through)
    return distance
