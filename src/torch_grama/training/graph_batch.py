"""What a model sees in one step, and all graphs of a part packed so that steps are made fast."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.task_data import GraphTaskData, Level
from torch_grama.nn.padding import Padding


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
    batch = GraphBatch(**take_features(data), edge_index=data["edge_index"], batch_size=None)
    if mask is None:
        return batch
    label_mask = data.get("label_mask")
    rows = (mask if label_mask is None else mask & label_mask).nonzero().reshape(-1)
    return dataclasses.replace(batch, y=data["y"].index_select(0, rows), rows=rows)


def take_features(
    source: Data | Mapping[str, Tensor], nodes: Tensor | None = None, edges: Tensor | None = None
) -> dict[str, Tensor]:
    r"""The features of some nodes and edges, or all, by the names that they have in a batch."""
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


class BatchSize(NamedTuple):
    r"""Numbers of graphs, nodes, edges and targets, and the nodes of the largest graph: those of a
    batch, or those that one of fixed size has room for, beside one more graph of padding.
    """

    graphs: int
    nodes: int
    edges: int
    targets: int
    largest: int

    def has_room_for(self, other: BatchSize, density: float) -> bool:
        r"""Whether another one fits in, with two nodes to spare for the padding, and so many that
        it has no more edges per node than :obj:`density`: sums over more would grow beyond all
        numbers in a deep model, and zero times infinity is none.
        """
        needed = other._replace(nodes=other.nodes + other.spare_nodes(self.edges, density))
        is_enough = all(mine >= least for mine, least in zip(self, needed, strict=True))
        return is_enough and self.graphs == other.graphs

    def spare_nodes(self, edges: int, density: float) -> int:
        r"""How many nodes the padding needs where there are so many edges in all."""
        return max(2, math.ceil((edges - self.edges) / density))


class PackedGraphs:
    r"""Graphs laid end to end in a few long tensors, of which any choice becomes a batch by index
    arithmetic alone. They have the features of the first one.

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
        pieces: dict[str, list[Tensor]] = {}
        counts: dict[str, list[int]] = {"node": [], "edge": [], "target": []}
        names: list[str] = []
        for graph in graphs:
            if not names:
                names = list(take_features(graph))
                is_masked = targets and level == "node" and "label_mask" in graph
            # local numbers are small; added to int64 offsets they are int64 again
            row = {name: graph[name] for name in names}
            row["edge_index"] = graph["edge_index"].int()
            if targets:
                row["y"] = target_rows(graph["y"], level)
                if is_masked:
                    row["label_rows"] = graph["label_mask"].nonzero().reshape(-1)
                    row["y"] = row["y"].index_select(0, row["label_rows"])
                counts["target"].append(row["y"].size(0))
            counts["node"].append(row["x"].size(0))
            counts["edge"].append(row["edge_index"].size(1))
            for name, tensor in row.items():
                pieces.setdefault(name, []).append(tensor)
        if not names:
            raise ValueError("Expected one graph or more to lay side by side (got none)")
        # targets that lie as nodes or graphs do need no search of their own
        self._targets_lie_as = "neither" if targets else ""
        if level == "node" and counts["target"] == counts["node"]:
            self._targets_lie_as = "nodes"
        elif counts["target"] == [1] * len(counts["node"]):
            self._targets_lie_as = "graphs"
        # popped, so that one tensor at a time is held twice
        self._tensors = {
            name: torch.cat(pieces.pop(name), dim=1 if name == "edge_index" else 0)
            for name in list(pieces)
        }
        first, second = self._tensors["edge_index"]
        self._has_loops = bool((first == second).any())
        # [2, G]: how many rows each graph has in a long tensor, and where they begin; on the CPU
        self._ranges: dict[str, Tensor] = {}
        for name, sizes in counts.items():
            if sizes:
                rows = torch.tensor(sizes)
                self._ranges[name] = torch.stack([rows, rows.cumsum(0) - rows])
                self._tensors[f"{name}_ranges"] = self._ranges[name]
        if targets and level == "node" and each_graph_counts:
            judged = self._ranges["target" if is_masked else "node"][0]
            self._tensors["graph_weight"] = judged.clamp(min=1).reciprocal()

    def __len__(self) -> int:
        return self._ranges["node"].size(1)

    @property
    def device(self) -> torch.device:
        r"""Where the graphs are, and where batches will be."""
        return self._tensors["x"].device

    @property
    def num_edges(self) -> int:
        return self._tensors["edge_index"].size(1)

    @property
    def weighs_targets(self) -> bool:
        return "graph_weight" in self._tensors

    @property
    def nbytes(self) -> int:
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
        names = ["node", "edge", "target"][: 3 if self._targets_lie_as == "neither" else 2]
        # [6 or 8, B]: all that the device must be told, in one copy
        rows, totals = [numbers], []
        for name in names:
            counts, starts = self._ranges[name].index_select(1, numbers)
            ends = counts.cumsum(0)
            rows += [ends - counts] if name == "node" else []
            rows += [counts, starts - (ends - counts)]
            totals.append(int(ends[-1]))
        table = torch.stack(rows)
        if self.device.type != "cpu":
            # only a copy from pinned memory is not waited for
            table = table.pin_memory() if self.device.type == "cuda" else table
            table = table.to(self.device, non_blocking=True)
        chosen, offsets = table[0], table[1]
        owners, node_index = _spread(table[2:4], totals[0])
        edge_owners, edge_index = _spread(table[4:6], totals[1])
        # [2, E]: edges name the nodes of their own graph; here these begin at its offset
        ends = self._tensors["edge_index"].index_select(1, edge_index)
        found = owners, node_index
        if self._targets_lie_as == "graphs":
            found = torch.arange(len(numbers), device=table.device), chosen
        elif self._targets_lie_as == "neither":
            found = _spread(table[6:8], totals[2])
        return GraphBatch(
            **take_features(self._tensors, node_index, edge_index),
            **self._judge(chosen, offsets, owners, *found),
            edge_index=ends + offsets.index_select(0, edge_owners),
            batch=owners,
            batch_size=len(numbers),
        )

    @property
    def density(self) -> float:
        r"""Edges per node, at least one."""
        edges, nodes = (int(self._ranges[name][0].sum()) for name in ("edge", "node"))
        return max(1.0, edges / max(nodes, 1))

    def sizes(self, parts: Tensor) -> list[BatchSize]:
        r"""The sizes of batches, by the graphs of each ``[M, B]``."""
        counts = {name: ranges[0][parts] for name, ranges in self._ranges.items()}
        totals = [counts[name].sum(dim=1).tolist() for name in ("node", "edge")]
        targets = counts["target"].sum(dim=1) if "target" in counts else torch.zeros(len(parts))
        totals += [targets.int().tolist(), counts["node"].amax(dim=1).tolist()]
        return [BatchSize(parts.size(1), *size) for size in zip(*totals, strict=True)]

    def padded_batch(self, numbers: Tensor, bucket: BatchSize) -> tuple[GraphBatch, Padding]:
        r"""Lays graphs whose numbers are on the device side by side in tensors of a fixed size,
        without a wait for the device.

        The last graph takes the rest: nodes like the first of the pack on a ring, whose targets
        count nothing.
        """
        nodes = self._fill("node", numbers, bucket.nodes)
        edges = self._fill("edge", numbers, bucket.edges)
        step = edges.rows - edges.total
        ring = torch.stack([step, step + 1]) % (bucket.nodes - nodes.total) + nodes.total
        ends = self._tensors["edge_index"].index_select(1, edges.place)
        ends = ends + nodes.offsets.index_select(0, edges.owners)
        real = torch.stack([nodes.total, edges.total, torch.full_like(nodes.total, bucket.graphs)])
        batch = GraphBatch(
            **take_features(self._tensors, nodes.place, edges.place),
            **self._judge_padded(numbers, nodes, bucket),
            edge_index=torch.where(edges.rows < edges.total, ends, ring),
            batch=nodes.owners,
            batch_size=bucket.graphs + 1,
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
    ) -> dict[str, Tensor]:
        """What :meth:`_judge` finds; a target in the padding counts nothing."""
        if not self._targets_lie_as:
            return {}
        chosen = torch.cat([numbers, torch.zeros_like(numbers[:1])])
        if self._targets_lie_as == "graphs":
            owners = torch.arange(bucket.graphs + 1, device=numbers.device)
            index, counts = chosen, owners < bucket.graphs
        else:
            as_nodes = self._targets_lie_as == "nodes"
            found = nodes if as_nodes else self._fill("target", numbers, bucket.targets)
            owners, index, counts = found.owners, found.place, found.rows < found.total
        judged = self._judge(chosen, nodes.offsets, owners, owners, index)
        if "rows" in judged:
            judged["rows"] = torch.where(counts, judged["rows"], 0)
        judged["weight"] = judged["weight"] * counts if "weight" in judged else counts.float()
        return judged

    def _judge(
        self, chosen: Tensor, offsets: Tensor, owners: Tensor, target_owners: Tensor, index: Tensor
    ) -> dict[str, Tensor]:
        """Targets, and where needed the rows of the output they belong to and what each counts."""
        if not self._targets_lie_as:
            return {}
        found = {"y": self._tensors["y"].index_select(0, index)}
        if "label_rows" in self._tensors:
            rows = self._tensors["label_rows"].index_select(0, index)
            found["rows"] = rows + offsets.index_select(0, target_owners)
            owners = target_owners
        if "graph_weight" in self._tensors:
            weight = self._tensors["graph_weight"].index_select(0, chosen)
            found["weight"] = weight.index_select(0, owners)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} graphs, {self.nbytes} bytes, {self.device})"


class _Filled(NamedTuple):
    """Rows of fixed number: place in the pack, graph, where graphs begin, how many are real."""

    rows: Tensor
    place: Tensor
    owners: Tensor
    offsets: Tensor
    total: Tensor


def _spread(table: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """The graph of each row of a batch, and where the row lies in the pack."""
    counts, shift = table[0], table[1]
    owners = torch.repeat_interleave(counts, output_size=total)
    index = torch.arange(total, device=table.device) + shift.index_select(0, owners)
    return owners, index


def training_values(data: GraphTaskData, fold: int, name: str) -> Tensor:
    r"""The features ``x`` in the training part of a fold, one after another, or the targets ``y``
    that count.
    """
    part = data.folds[fold].train
    one_graph = part.dtype == torch.bool
    values = []
    for number in [0] if one_graph else part.tolist():
        graph = data.graphs[number]
        rows = torch.atleast_1d(graph[name])
        kept = part if one_graph else torch.ones(len(rows), dtype=torch.bool)
        if name == "y" and data.level == "node" and "label_mask" in graph:
            kept = kept & graph["label_mask"]
        values.append(rows[kept])
    return torch.cat(values)


def target_rows(y: Tensor, level: Level) -> Tensor:
    r"""The targets of one graph, one row each."""
    if level == "graph" and y.dim() <= 1:
        # one class a graph stays [1]; K quantities of a graph become [1, K]
        return y.reshape(1) if y.numel() == 1 and not y.is_floating_point() else y.reshape(1, -1)
    return y
