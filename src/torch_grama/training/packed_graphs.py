"""All graphs of a part laid end to end, so that a mini-batch is made by index arithmetic alone."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.task_data import Level
from torch_grama.nn.padding import Padding
from torch_grama.training.graph_batch import GraphBatch, take_features


class BatchSize(NamedTuple):
    r"""Numbers of graphs, nodes, edges and targets, and the nodes of the largest graph: those of a
    batch, or those that one of fixed size has room for, beside one more graph of padding.
    """

    graphs: int
    nodes: int
    edges: int
    targets: int
    largest: int

    def has_room_for(self, other: BatchSize) -> bool:
        r"""Whether another one fits in, with two nodes to spare for the padding."""
        needed = other._replace(nodes=other.nodes + 2)
        is_enough = all(mine >= least for mine, least in zip(self, needed, strict=True))
        return is_enough and self.graphs == other.graphs


class PackedGraphs:
    r"""Graphs as a few long tensors, of which any choice becomes a batch without a loop over them.
    They have the features of the first one.

    How many nodes, edges and targets each graph has stays on the CPU: the sizes of a batch are
    known before the device has done anything, so that a batch on CUDA costs one small copy that
    nobody waits for. With :obj:`each_graph_counts` every graph counts the same in a node task,
    however many nodes it has; otherwise every node does.
    """

    def __init__(
        self,
        graphs: Iterable[Data],
        level: Level,
        *,
        each_graph_counts: bool = False,
        targets: bool = True,
    ) -> None:
        pieces = _Pieces(level, targets)
        for graph in graphs:
            pieces.add(graph)
        if not pieces.num_nodes:
            raise ValueError("Expected one graph or more to lay side by side (got none)")
        self._nodes = _Ranges.of(pieces.num_nodes)
        self._edges = _Ranges.of(pieces.num_edges)
        self._targets = _Ranges.of(pieces.num_targets) if targets else None
        # targets that lie as nodes or graphs do need no search of their own
        self._targets_lie_as = "neither"
        if level == "node" and pieces.num_targets == pieces.num_nodes:
            self._targets_lie_as = "nodes"
        elif pieces.num_targets == [1] * len(pieces.num_nodes):
            self._targets_lie_as = "graphs"
        self._tensors = pieces.join()
        first, second = self._tensors["edge_index"]
        self._has_loops = bool((first == second).any())
        for name, rows in self._ranges().items():
            self._tensors[f"{name}_ranges"] = torch.stack([rows.counts, rows.starts])
        if targets and level == "node" and each_graph_counts:
            ranges = self._targets if "label_rows" in self._tensors else self._nodes
            assert ranges is not None
            self._tensors["graph_weight"] = ranges.counts.clamp(min=1).reciprocal()

    def __len__(self) -> int:
        return len(self._nodes.counts)

    @property
    def device(self) -> torch.device:
        r"""Where the graphs are, and where batches will be."""
        return self._tensors["x"].device

    @property
    def num_edges(self) -> int:
        r"""Edges of all graphs together."""
        return self._tensors["edge_index"].size(1)

    @property
    def weighs_targets(self) -> bool:
        r"""Whether targets count differently."""
        return "graph_weight" in self._tensors

    @property
    def nbytes(self) -> int:
        r"""Bytes of all graphs together."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def to(self, device: torch.device) -> PackedGraphs:
        r"""The same on another device; itself where it is there already."""
        if self.device == device:
            return self
        moved = copy.copy(self)
        moved._tensors = {name: tensor.to(device) for name, tensor in self._tensors.items()}
        return moved

    def batch(self, numbers: Tensor) -> GraphBatch:
        r"""Lays some of the graphs side by side, by their numbers on the CPU ``[B]``."""
        if numbers.numel() == 0:
            raise ValueError("Expected one graph or more to lay side by side (got none)")
        # B graphs, N nodes, E edges, T targets
        nodes, edges = self._nodes.choose(numbers), self._edges.choose(numbers)
        # [6 or 8, B]: all that the device must be told, in one copy
        rows = [numbers, nodes.offsets, *nodes.on_device, *edges.on_device]
        num_targets = 0
        if self._targets is not None and self._targets_lie_as == "neither":
            targets = self._targets.choose(numbers)
            rows, num_targets = [*rows, *targets.on_device], targets.total
        table = self._send(torch.stack(rows))
        chosen, offsets = table[0], table[1]
        owners, node_index = _spread(table[2:4], nodes.total)
        edge_owners, edge_index = _spread(table[4:6], edges.total)
        # [2, E]: edges name the nodes of their own graph; here these begin at its offset
        ends = self._tensors["edge_index"].index_select(1, edge_index)
        y, target_rows, weight = None, None, None
        if self._targets is not None:
            if self._targets_lie_as == "graphs":
                found = torch.arange(len(numbers), device=table.device), chosen
            elif self._targets_lie_as == "nodes":
                found = owners, node_index
            else:
                found = _spread(table[6:8], num_targets)
            y, target_rows, weight = self._judge(chosen, offsets, owners, *found)
        return GraphBatch(
            **take_features(self._tensors, node_index, edge_index),
            edge_index=ends + offsets.index_select(0, edge_owners),
            batch=owners,
            batch_size=len(numbers),
            y=y,
            rows=target_rows,
            weight=weight,
        )

    def sizes(self, parts: Tensor) -> list[BatchSize]:
        r"""The sizes of batches, by the graphs of each ``[M, B]``."""
        counts = {name: ranges.counts[parts] for name, ranges in self._ranges().items()}
        totals = [counts[name].sum(dim=1).tolist() for name in ("node", "edge")]
        targets = counts["target"].sum(dim=1) if "target" in counts else torch.zeros(len(parts))
        totals += [targets.int().tolist(), counts["node"].amax(dim=1).tolist()]
        return [BatchSize(parts.size(1), *size) for size in zip(*totals, strict=True)]

    def padded_batch(self, numbers: Tensor, bucket: BatchSize) -> tuple[GraphBatch, Padding]:
        r"""Lays graphs side by side in tensors of a fixed size, without a wait for the device.

        The last graph takes the rest: nodes like the first of the pack on a ring, whose targets
        count nothing.
        """
        nodes = self._fill("node", numbers, bucket.nodes)
        edges = self._fill("edge", numbers, bucket.edges)
        step = edges.rows - edges.total
        ring = torch.stack([step, step + 1]) % (bucket.nodes - nodes.total) + nodes.total
        ends = self._tensors["edge_index"].index_select(1, edges.index)
        ends = ends + nodes.offsets.index_select(0, edges.owners)
        y, target_rows, weight = None, None, None
        if self._targets is not None:
            y, target_rows, weight = self._judge_padded(numbers, nodes, bucket)
        real = torch.stack([nodes.total, edges.total, torch.full_like(nodes.total, bucket.graphs)])
        batch = GraphBatch(
            **take_features(self._tensors, nodes.index, edges.index),
            edge_index=torch.where(edges.rows < edges.total, ends, ring),
            batch=nodes.owners,
            batch_size=bucket.graphs + 1,
            y=y,
            rows=target_rows,
            weight=weight,
        )
        sizes = (bucket.nodes, bucket.edges, bucket.graphs + 1)
        return batch, Padding(*sizes, real, bucket.largest, self._has_loops)

    def _fill(self, name: str, numbers: Tensor, size: int) -> _Filled:
        counts, starts = self._tensors[f"{name}_ranges"].index_select(1, numbers)
        ends = counts.cumsum(0)
        offsets = ends - counts
        rows = torch.arange(size, device=numbers.device)
        owners = torch.searchsorted(ends, rows, right=True)
        # padding repeats the first row of the pack
        shift = torch.cat([starts - offsets, starts.new_zeros(1)]).index_select(0, owners)
        index = torch.where(rows < ends[-1], rows + shift, 0)
        return _Filled(rows, index, owners, torch.cat([offsets, ends[-1:]]), ends[-1])

    def _judge_padded(
        self, numbers: Tensor, nodes: _Filled, bucket: BatchSize
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Targets, their rows of the output, and what each counts: nothing in the padding."""
        if self._targets_lie_as == "graphs":
            rows = torch.arange(bucket.graphs + 1, device=numbers.device)
            owners, index = rows, torch.cat([numbers, torch.zeros_like(numbers[:1])])
            counts = rows < bucket.graphs
        else:
            as_nodes = self._targets_lie_as == "nodes"
            found = nodes if as_nodes else self._fill("target", numbers, bucket.targets)
            owners, index, counts = found.owners, found.index, found.rows < found.total
        chosen = torch.cat([numbers, torch.zeros_like(numbers[:1])])
        y, target_rows, weight = self._judge(chosen, nodes.offsets, owners, owners, index)
        if target_rows is not None:
            target_rows = torch.where(counts, target_rows, 0)
        return y, target_rows, counts.float() if weight is None else weight * counts

    def _ranges(self) -> dict[str, _Ranges]:
        named = {"node": self._nodes, "edge": self._edges, "target": self._targets}
        return {name: ranges for name, ranges in named.items() if ranges is not None}

    def _judge(
        self, chosen: Tensor, offsets: Tensor, owners: Tensor, target_owners: Tensor, index: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Targets, the rows of the output they belong to, and what each counts."""
        rows, weight = None, None
        if "label_rows" in self._tensors:
            rows = self._tensors["label_rows"].index_select(0, index)
            rows = rows + offsets.index_select(0, target_owners)
            owners = target_owners
        if "graph_weight" in self._tensors:
            weight = self._tensors["graph_weight"].index_select(0, chosen).index_select(0, owners)
        return self._tensors["y"].index_select(0, index), rows, weight

    def _send(self, table: Tensor) -> Tensor:
        if self.device.type == "cpu":
            return table
        # only a copy from pinned memory is not waited for
        pinned = table.pin_memory() if self.device.type == "cuda" else table
        return pinned.to(self.device, non_blocking=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} graphs, {self.nbytes} bytes, {self.device})"


@dataclass(frozen=True)
class _Ranges:
    """Where the rows of each graph lie in a long tensor, on the CPU."""

    counts: Tensor
    starts: Tensor

    @classmethod
    def of(cls, counts: list[int]) -> _Ranges:
        sizes = torch.tensor(counts)
        return cls(sizes, sizes.cumsum(0) - sizes)

    def choose(self, numbers: Tensor) -> _Choice:
        counts = self.counts.index_select(0, numbers)
        ends = counts.cumsum(0)
        offsets = ends - counts
        shift = self.starts.index_select(0, numbers) - offsets
        return _Choice(offsets, [counts, shift], int(ends[-1]))


@dataclass(frozen=True)
class _Choice:
    """Where the rows of the chosen graphs begin in a batch, and what finds them in the pack."""

    offsets: Tensor
    on_device: list[Tensor]
    total: int


@dataclass(frozen=True)
class _Filled:
    """Rows of fixed number: where each lies in the pack, its graph, where the graphs begin, and how
    many rows are real.
    """

    rows: Tensor
    index: Tensor
    owners: Tensor
    offsets: Tensor
    total: Tensor


class _Pieces:
    """Collects the tensors of one graph after the other."""

    def __init__(self, level: Level, targets: bool) -> None:
        self.num_nodes: list[int] = []
        self.num_edges: list[int] = []
        self.num_targets: list[int] = []
        self._level = level
        self._has_targets = targets
        self._names: list[str] = []
        self._is_masked = False
        self._tensors: dict[str, list[Tensor]] = {}

    def add(self, graph: Data) -> None:
        if not self.num_nodes:
            self._names = list(take_features(graph))
            judged = self._has_targets and self._level == "node"
            self._is_masked = judged and "label_mask" in graph
        for name in self._names:
            self._append(name, graph[name])
        # local numbers are small; added to int64 offsets they are int64 again
        self._append("edge_index", graph["edge_index"].int())
        self.num_nodes.append(graph["x"].size(0))
        self.num_edges.append(graph["edge_index"].size(1))
        if self._has_targets:
            self._add_targets(graph)

    def join(self) -> dict[str, Tensor]:
        joined = {}
        for name in list(self._tensors):
            # popped, so that one tensor at a time is held twice
            joined[name] = torch.cat(self._tensors.pop(name), dim=1 if name == "edge_index" else 0)
        return joined

    def _add_targets(self, graph: Data) -> None:
        y = _target_rows(graph["y"], self._level)
        if self._is_masked:
            rows = graph["label_mask"].nonzero().reshape(-1)
            self._append("label_rows", rows)
            y = y.index_select(0, rows)
        self._append("y", y)
        self.num_targets.append(y.size(0))

    def _append(self, name: str, tensor: Tensor) -> None:
        self._tensors.setdefault(name, []).append(tensor)


def _spread(table: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """The graph of each row of a batch, and where the row lies in the pack."""
    counts, shift = table[0], table[1]
    owners = torch.repeat_interleave(counts, output_size=total)
    index = torch.arange(total, device=table.device) + shift.index_select(0, owners)
    return owners, index


def _target_rows(y: Tensor, level: Level) -> Tensor:
    if level == "graph" and y.dim() <= 1:
        # one class a graph stays [1]; K quantities of a graph become [1, K]
        return y.reshape(1) if y.numel() == 1 and not y.is_floating_point() else y.reshape(1, -1)
    return y
