"""Batches of a few fixed sizes: which one each batch of a run takes, known before it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor

from torch_grama.nn.padding import Padding
from torch_grama.training.graph_batch import GraphBatch
from torch_grama.training.loaders import GraphBatches
from torch_grama.training.packed_graphs import BatchSize, PackedGraphs

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
        r"""The batch without padding."""
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
        r"""The graphs."""
        return self.graphs.pack

    def batches(self, epoch: int, start: int) -> Iterator[PlannedBatch]:
        r"""Yields the plan of an epoch from batch number :obj:`start` on."""
        order = self.graphs.plan.order(epoch)
        begin = 0
        for number, size in enumerate(_batch_sizes(self.pack, order, self.graphs.plan.batch_size)):
            if number >= start:
                bucket = next(
                    (bucket for bucket in self.buckets if bucket.has_room_for(size)), None
                )
                if min(size.graphs, size.nodes, size.edges) < 2:
                    bucket = None  # one row has no variance, and norms treat it apart
                yield PlannedBatch(order, begin, size, bucket, self)
            begin += size.graphs

    def padded(self, numbers: Tensor, bucket: BatchSize) -> tuple[GraphBatch, Padding]:
        r"""Makes a batch of fixed size of graphs whose numbers are on the device."""
        return self.pack.padded_batch(numbers, bucket)


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
    buckets: list[BatchSize] = []
    # the last batch of an epoch may have fewer graphs than the others
    for count in sorted({size.graphs for size in seen}):
        group = [size for size in seen if size.graphs == count]
        mean_nodes = sum(size.nodes for size in group) / len(group)
        mean_edges = max(sum(size.edges for size in group) / len(group), 1e-9)
        group.sort(key=lambda s: max(s.nodes / mean_nodes, s.edges / mean_edges))
        found = [_bucket_of(group[: max(1, round(share * len(group)))]) for share in _SHARES]
        found[-1] = _enlarge(found[-1], margin)
        kept = [
            bucket
            for bucket, larger in pairwise(found)
            if bucket.nodes < (1 - _LEAST_STEP) * larger.nodes
        ]
        buckets += [_rounded(bucket) for bucket in [*kept, found[-1]]]
    return buckets


def _bucket_of(sizes: list[BatchSize]) -> BatchSize:
    largest = BatchSize(*map(max, zip(*sizes, strict=True)))
    return largest._replace(nodes=largest.nodes + 2)


def _enlarge(bucket: BatchSize, margin: float) -> BatchSize:
    graphs, *sizes = bucket
    return BatchSize(graphs, *(int(size * (1 + margin)) for size in sizes))


def _rounded(bucket: BatchSize) -> BatchSize:
    nodes = -(-bucket.nodes // _MULTIPLE) * _MULTIPLE
    edges = -(-bucket.edges // _MULTIPLE) * _MULTIPLE
    # numbers of rows tell nodes, edges and graphs apart
    while nodes == bucket.graphs + 1:
        nodes += _MULTIPLE
    while edges in (nodes, bucket.graphs + 1):
        edges += _MULTIPLE
    return bucket._replace(nodes=nodes, edges=edges)
