"""Mini-batches of subgraphs of one large graph, by neighbour sampling in plain torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.training.graph_batch import GraphBatch, take_features
from torch_grama.training.loaders import BatchPlan, mix_seed


class NeighborTable:
    r"""The edges into each node, one after another: those that ``edge_index[1]`` names."""

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        source, target = edge_index
        order = target.argsort(stable=True)
        self.num_nodes = num_nodes
        self.source = source[order]
        self.edge = order
        self.start = torch.zeros(num_nodes + 1, dtype=torch.long)
        torch.cumsum(torch.bincount(target, minlength=num_nodes), 0, out=self.start[1:])

    def draw(
        self, nodes: Tensor, count: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Draws up to so many incoming edges of each node without replacement, all with -1: the
        position in :obj:`nodes` of each edge's target, its source node and its number in
        ``edge_index``, each ``[K]``.
        """
        start = self.start[nodes]
        degree = self.start[nodes + 1] - start
        if count == -1:
            owner = torch.arange(len(nodes)).repeat_interleave(degree)
            rank = torch.arange(len(owner)) - (degree.cumsum(0) - degree).repeat_interleave(degree)
            place = start[owner] + rank
            return owner, self.source[place], self.edge[place]
        few = degree <= count
        owner, source, edge = self.draw(nodes[few], -1, generator)
        owner = few.nonzero().reshape(-1)[owner]
        many = (~few).nonzero().reshape(-1)
        if len(many):
            offset = _distinct_offsets(degree[many], count, generator)  # [M', count]
            place = (start[many].unsqueeze(1) + offset).reshape(-1)
            owner = torch.cat([owner, many.repeat_interleave(count)])
            source = torch.cat([source, self.source[place]])
            edge = torch.cat([edge, self.edge[place]])
        return owner, source, edge


@dataclass(eq=False)
class SubgraphBatches:
    r"""Mini-batches of the surroundings of some nodes.

    Hop by hop, neighbours of the nodes found last are drawn from their incoming edges,
    :obj:`num_neighbors` a node or, with -1, all; the batch is the graph of the drawn edges, with
    the starting nodes first, which alone have targets. With a :obj:`fixed_epoch` the draw is always
    that of this epoch.
    """

    data: Data
    starts: Tensor
    plan: BatchPlan
    num_neighbors: Sequence[int]
    sampler: Literal["auto", "torch", "pyg"] = "auto"
    targets: bool = True
    fixed_epoch: int | None = None

    def __post_init__(self) -> None:
        self._draw = _choose_sampler(self.sampler)(self.data, tuple(self.num_neighbors))

    def __len__(self) -> int:
        return len(self.plan)

    def batches(self, epoch: int, start: int) -> Iterator[GraphBatch]:
        epoch = epoch if self.fixed_epoch is None else self.fixed_epoch
        for number, part in enumerate(self.plan.parts(epoch, start), start=start):
            starts = self.starts[part if len(part) else torch.zeros(1, dtype=torch.long)]
            seed = mix_seed(self.plan.seed, epoch, number, self.plan.rank)
            nodes, edge_index, edges = self._draw(starts, seed)
            yield GraphBatch(
                **take_features(self.data, nodes, edges),
                edge_index=edge_index,
                batch_size=None,
                y=self.data["y"].index_select(0, starts) if self.targets else None,
                rows=torch.arange(len(starts)),
                weight=None if len(part) else torch.zeros(len(starts)),
            )


class _TorchSampler:
    def __init__(self, data: Data, num_neighbors: tuple[int, ...]) -> None:
        num_nodes = data["x"].size(0)
        self._table = NeighborTable(data["edge_index"], num_nodes)
        self._num_neighbors = num_neighbors
        # where each node of the large graph lies in the batch; -1 where it is not in it
        self._place = torch.full((num_nodes,), -1, dtype=torch.long)

    def __call__(self, starts: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        place = self._place
        found = [starts]
        place[starts] = torch.arange(len(starts))
        total, frontier, offset = len(starts), starts, 0
        sources, targets, edges = [], [], []
        for count in self._num_neighbors:
            owner, source, edge = self._table.draw(frontier, count, generator)
            new = source[place[source] < 0].unique()
            place[new] = torch.arange(total, total + len(new))
            sources.append(source)
            targets.append(owner + offset)
            edges.append(edge)
            found.append(new)
            offset, total, frontier = total, total + len(new), new
        edge_index = torch.stack([place[torch.cat(sources)], torch.cat(targets)])
        nodes = torch.cat(found)
        place[nodes] = -1
        return nodes, edge_index, torch.cat(edges)


class _PyGSampler:
    def __init__(self, data: Data, num_neighbors: tuple[int, ...]) -> None:
        from torch_geometric.sampler import NeighborSampler

        light = Data(edge_index=data["edge_index"], num_nodes=data["x"].size(0))
        self._sampler = NeighborSampler(light, num_neighbors=list(num_neighbors))

    def __call__(self, starts: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        from torch_geometric.sampler import NodeSamplerInput

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            drawn = self._sampler.sample_from_nodes(NodeSamplerInput(None, starts))
        found = (drawn.node, drawn.row, drawn.col, drawn.edge)
        node, row, col, edge = cast(tuple[Tensor, Tensor, Tensor, Tensor], found)
        return node, torch.stack([row, col]), edge  # starting nodes come first here too


def _choose_sampler(name: str) -> type[_TorchSampler] | type[_PyGSampler]:
    import torch_geometric.typing

    compiled = torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE
    if name == "pyg" and not compiled:
        raise ValueError(
            "Expected pyg-lib or torch-sparse for subgraph_sampler='pyg' (got neither); install "
            "one or set trainer.subgraph_sampler to 'torch'"
        )
    return _PyGSampler if name == "pyg" or (name == "auto" and compiled) else _TorchSampler


def _distinct_offsets(degree: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws ``count`` distinct numbers below each degree, row by row [M, count].

    Floyd's method: in round j of those that end at degree - 1, a number up to j is drawn, and j
    itself taken where that number was drawn before.
    """
    drawn = torch.empty(len(degree), count, dtype=torch.long)
    for column in range(count):
        last = degree - count + column
        share = torch.rand(len(degree), generator=generator, dtype=torch.float64)
        number = (share * (last + 1)).long().clamp(max=last)
        taken = (drawn[:, :column] == number.unsqueeze(1)).any(dim=1)
        drawn[:, column] = torch.where(taken, last, number)
    return drawn
