"""Hands out batches in an order that depends on the seed and the epoch alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch_geometric.data import Data

from torch_grama.datasets.task_data import Level
from torch_grama.training.graph_batch import BatchSize, GraphBatch, PackedGraphs

# Graphs that take more than this stay in the memory of the machine.
MAX_BYTES_ON_DEVICE = 2 * 2**30
_CPU = torch.device("cpu")


class BatchSource(Protocol):
    r"""Where the batches of an epoch, or their plans, come from."""

    def __len__(self) -> int: ...

    def batches(self, epoch: int, start: int) -> Iterator[Any]:
        r"""Yields the batches of an epoch from number :obj:`start` on."""
        ...


@dataclass(eq=False)
class EpochLoader:
    r"""An iterable over the batches of the current epoch, which can start in the middle of one."""

    source: BatchSource
    current_epoch: Callable[[], int] = lambda: 0
    _served: int = 0
    _start: int = 0

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Any]:
        # a generator: epoch and start are read when the first batch is asked for
        start, self._start = self._start, 0
        self._served = start
        for batch in self.source.batches(self.current_epoch(), start):
            self._served += 1
            yield batch
        self._served = 0

    def state_dict(self) -> dict[str, int]:
        return {"served": self._served}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._start = state["served"]


class FixedBatches:
    r"""The same batches every epoch, made once: a whole graph, or what is validated on."""

    def __init__(self, batches: Sequence[GraphBatch]) -> None:
        self._batches = list(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def batches(self, epoch: int, start: int) -> Iterator[GraphBatch]:
        yield from self._batches[start:]

    def move(self, batch: GraphBatch, device: torch.device) -> GraphBatch | None:
        r"""Moves one of the batches to a device, for good; :obj:`None` if it is none of them."""
        for number, own in enumerate(self._batches):
            if own is batch:
                self._batches[number] = batch.to(device)
                return self._batches[number]
        return None


@dataclass(frozen=True)
class BatchPlan:
    r"""Which samples make up each batch of an epoch."""

    num_samples: int  # number of samples
    batch_size: int  # samples a batch, over all processes
    seed: int = 0  # seed of the order
    shuffle: bool = False  # whether the order is drawn anew each epoch
    rank: int = 0  # number of this process
    world_size: int = 1  # number of processes

    def __len__(self) -> int:
        return -(-self.num_samples // self.batch_size)

    def order(self, epoch: int) -> Tensor:
        r"""All samples of an epoch, in their order."""
        if self.shuffle:
            generator = torch.Generator().manual_seed(mix_seed(self.seed, epoch))
            return torch.randperm(self.num_samples, generator=generator)
        return torch.arange(self.num_samples)

    def parts(self, epoch: int, start: int = 0) -> list[Tensor]:
        r"""This process's share of each batch of an epoch from number :obj:`start` on.

        A batch smaller than the number of processes leaves some shares empty.
        """
        whole = self.order(epoch).split(self.batch_size)[start:]
        return [part[self.rank :: self.world_size] for part in whole]


@dataclass(eq=False)
class GraphBatches:
    r"""Mini-batches of graphs, which are read when the first batch is asked for, and once."""

    graphs: Sequence[Data]
    numbers: Tensor
    level: Level
    plan: BatchPlan
    each_graph_counts: bool = False
    targets: bool = True
    num_workers: int = 0
    _pack: PackedGraphs | None = None
    _place: torch.device = _CPU

    def __len__(self) -> int:
        return len(self.plan)

    def place(self, device: torch.device) -> None:
        r"""Says where batches are needed. Graphs that take little of a CUDA device's memory lie
        there from the next batch on; others stay on the CPU, as they do for worker processes.
        """
        if device == self._place:
            return
        self._place = device
        if self._pack is not None:
            self._pack = self._placed(self._pack)

    def release(self) -> None:
        r"""Forgets the graphs that were read; they are read again when they are needed."""
        self._pack = None

    def batches(self, epoch: int, start: int) -> Iterator[GraphBatch]:
        parts = self.plan.parts(epoch, start)
        if self.num_workers == 0:
            yield from map(self.batch, parts)
            return
        _ = self.pack  # before there are workers, so that they share it
        # an own generator: the loader's draws must not move the model's random numbers
        yield from DataLoader(
            cast(Dataset[Tensor], parts),
            batch_size=None,
            collate_fn=self.batch,  # type: ignore[arg-type]  # of one part, as there is no batch size
            num_workers=self.num_workers,
            generator=torch.Generator().manual_seed(0),
        )

    def batch(self, part: Tensor) -> GraphBatch:
        r"""Lays some graphs side by side; none become one graph whose targets count nothing."""
        counts = part.numel() > 0
        batch = self.pack.batch(part if counts else torch.zeros(1, dtype=torch.long))
        if counts or batch.y is None:
            return batch
        return dataclasses.replace(batch, weight=torch.zeros(len(batch.y), device=batch.y.device))

    @property
    def pack(self) -> PackedGraphs:
        r"""The graphs, read when they are first asked for."""
        if self._pack is None:
            pack = PackedGraphs(
                (self.graphs[number] for number in self.numbers.tolist()),
                self.level,
                each_graph_counts=self.each_graph_counts,
                targets=self.targets,
            )
            self._pack = self._placed(pack)
        return self._pack

    def _placed(self, pack: PackedGraphs) -> PackedGraphs:
        if self._place.type != "cuda" or self.num_workers:
            return pack.to(_CPU)
        limit = min(MAX_BYTES_ON_DEVICE, torch.cuda.mem_get_info(self._place)[0] // 4)
        return pack.to(self._place if pack.nbytes <= limit else _CPU)


def mix_seed(*parts: int) -> int:
    r"""One seed from several numbers; neighbours of them give unrelated seeds."""
    mixed = 0
    for part in parts:
        # the finaliser of SplitMix64
        mixed = (mixed + part + 0x9E3779B97F4A7C15) % 2**64
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % 2**64
        mixed ^= mixed >> 31
    return mixed % 2**63


# Epochs whose batches tell how large batches become, and how many batches that is at most.
_EPOCHS_AHEAD = 16
_BATCHES_AHEAD = 4096
# Of the batches, in the order of their size, these shares fit into each bucket.
_SHARES = (0.6, 0.95, 1.0)
# Buckets that differ by less than this share in nodes are one.
_LEAST_STEP = 0.06
# What the largest bucket has beyond the largest batch that was seen, if more are to come.
_MARGIN = 0.06
_MULTIPLE = 16


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    r"""A batch that is still to be made."""

    # all graphs of the epoch in their order, on the CPU; one object for all its batches
    order: Tensor
    start: int  # where those of this batch begin
    size: BatchSize  # how many, and how many nodes, edges and targets they have
    bucket: BatchSize | None  # the fixed size it takes; None if it fits none
    source: PlannedBatches  # makes it

    def make(self) -> GraphBatch:
        return self.source.graphs.batch(self.order[self.start : self.start + self.size.graphs])


class PlannedBatches:
    r"""The batches of an epoch as a plan, and the fixed sizes that they take: :obj:`buckets`,
    smaller ones first. They depend on data, seed and batch size alone, so that a run that is
    resumed has the same.
    """

    def __init__(self, graphs: GraphBatches) -> None:
        self.graphs = graphs
        self.buckets = _choose_buckets(graphs)

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def pack(self) -> PackedGraphs:
        return self.graphs.pack

    def batches(self, epoch: int, start: int) -> Iterator[PlannedBatch]:
        order = self.graphs.plan.order(epoch)
        density = self.pack.density
        begin = 0
        for number, size in enumerate(_batch_sizes(self.pack, order, self.graphs.plan.batch_size)):
            if number >= start:
                fitting = (one for one in self.buckets if one.has_room_for(size, density))
                bucket = next(fitting, None)
                if min(size.graphs, size.nodes, size.edges) < 2:
                    bucket = None  # one row has no variance, and norms treat it apart
                yield PlannedBatch(order, begin, size, bucket, self)
            begin += size.graphs


def _batch_sizes(pack: PackedGraphs, order: Tensor, batch_size: int) -> list[BatchSize]:
    whole = len(order) - len(order) % batch_size
    sizes = pack.sizes(order[:whole].view(-1, batch_size)) if whole else []
    return sizes + (pack.sizes(order[whole:].unsqueeze(0)) if whole < len(order) else [])


def _choose_buckets(graphs: GraphBatches) -> list[BatchSize]:
    plan = graphs.plan
    epochs = min(_EPOCHS_AHEAD, max(1, _BATCHES_AHEAD // len(plan))) if plan.shuffle else 1
    seen = [
        size
        for epoch in range(epochs)
        for size in _batch_sizes(graphs.pack, plan.order(epoch), plan.batch_size)
    ]
    margin = _MARGIN if plan.shuffle else 0.0
    density = graphs.pack.density
    buckets: list[BatchSize] = []
    # the last batch of an epoch may have fewer graphs than the others
    for count in sorted({size.graphs for size in seen}):
        group = [size for size in seen if size.graphs == count]
        mean_nodes = sum(size.nodes for size in group) / len(group)
        mean_edges = max(sum(size.edges for size in group) / len(group), 1e-9)
        group.sort(key=lambda s: max(s.nodes / mean_nodes, s.edges / mean_edges))
        found = []
        for share in _SHARES:
            fitting = group[: max(1, round(share * len(group)))]
            largest = BatchSize(*map(max, zip(*fitting, strict=True)))
            if share == _SHARES[-1]:
                largest = BatchSize(count, *(int(size * (1 + margin)) for size in largest[1:]))
            found.append(_with_padding(largest, fitting, density))
        kept = [
            bucket
            for bucket, larger in pairwise(found)
            if bucket.nodes < (1 - _LEAST_STEP) * larger.nodes
        ]
        buckets += [*kept, found[-1]]
    return buckets


def _with_padding(largest: BatchSize, fitting: list[BatchSize], density: float) -> BatchSize:
    """A bucket for batches up to a size, with room for the padding of each of those that fit."""
    # numbers of rows tell nodes, edges and graphs apart
    edges = _round_up(largest.edges)
    while edges == largest.graphs + 1:
        edges += _MULTIPLE
    needed = (size.nodes + size.spare_nodes(edges, density) for size in fitting)
    nodes = _round_up(max(largest.nodes + 2, *needed))
    while nodes in (edges, largest.graphs + 1):
        nodes += _MULTIPLE
    return largest._replace(nodes=nodes, edges=edges)


def _round_up(count: int) -> int:
    return -(-count // _MULTIPLE) * _MULTIPLE
