"""What is found of a graph once and remembered: any pairs of nodes, and those by distance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import gcn_adjacency, sum_adjacency

# How many candidate pairs are looked at together; bounds the memory on dense graphs.
CHUNK = 1 << 24
# Up to this size a graph is walked as a dense matrix.
DENSE_NODES = 512


def hop_pairs(edge_index: Tensor, num_nodes: int, max_hops: int) -> tuple[Tensor, Tensor]:
    r"""Returns all ordered pairs of distinct nodes that are 1 to :obj:`max_hops` edges apart
    :math:`(2, P)` and their distances :math:`(P)`, in the order of distance, target, source.

    The distance of :math:`(j, i)` is the length of the shortest directed walk from :math:`j` to
    :math:`i`. Self-loops and repeated edges play no part. A batch of graphs may be given as one
    graph: its parts are never joined.
    """
    if num_nodes <= DENSE_NODES:
        return _walk_dense(edge_index, num_nodes, max_hops)
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    # Key of a pair: target * N + source. The same numbers list the sources of each target.
    ring = (target * num_nodes + source).unique()
    sources = ring % num_nodes
    boundaries = torch.arange(num_nodes + 1, device=ring.device) * num_nodes
    start = torch.searchsorted(ring, boundaries)
    rings, near = [ring], ring
    for _ in range(max_hops - 1):
        if ring.numel() == 0:
            break
        parts = [_distinct(keys, num_nodes) for keys in _extend(ring, start, sources, num_nodes)]
        ring = torch.cat(parts).unique() if parts else ring[:0]
        ring = ring[ring // num_nodes != ring % num_nodes]
        ring = ring[~_contains(near, ring)]
        rings.append(ring)
        near = torch.cat([near, ring]).sort().values
    distance = torch.cat([torch.full_like(keys, hops) for hops, keys in enumerate(rings, start=1)])
    keys = torch.cat(rings)
    return torch.stack([keys % num_nodes, keys // num_nodes]), distance


def pairs_within(edge_index: Tensor, num_nodes: int, hops: int) -> tuple[Tensor, Tensor]:
    r"""Returns all pairs at a distance of at most :obj:`hops` as :func:`hop_pairs` does, the nodes
    themselves first, with distance 0.
    """
    nodes = torch.arange(num_nodes, device=edge_index.device)
    itself = torch.stack([nodes, nodes])
    if hops == 0:
        return itself, torch.zeros_like(nodes)
    pairs, distance = hop_pairs(edge_index, num_nodes, hops)
    return torch.cat([itself, pairs], dim=1), torch.cat([torch.zeros_like(nodes), distance])


def _walk_dense(edge_index: Tensor, num_nodes: int, max_hops: int) -> tuple[Tensor, Tensor]:
    """The same by products of matrices, row for the target and column for the source."""
    step = torch.zeros(num_nodes, num_nodes, device=edge_index.device)
    step[edge_index[1], edge_index[0]] = 1
    ring = torch.eye(num_nodes, device=edge_index.device)
    near = ring > 0
    pairs, distances = [edge_index.new_zeros(2, 0)], [edge_index.new_zeros(0)]
    for hops in range(1, max_hops + 1):
        ring = ((ring @ step > 0) & ~near).to(step.dtype)
        found = ring.nonzero().t().flip(0)
        if found.size(1) == 0:
            break
        near = near | (ring > 0)
        pairs.append(found)
        distances.append(torch.full_like(found[0], hops))
    return torch.cat(pairs, dim=1), torch.cat(distances)


def _extend(ring: Tensor, start: Tensor, sources: Tensor, num_nodes: int) -> Iterator[Tensor]:
    """Walks one more edge back from the source of each pair, some pairs at a time."""
    middle = ring % num_nodes
    count = start[middle + 1] - start[middle]
    total = count.cumsum(0)
    cuts = torch.arange(CHUNK, int(total[-1]) + CHUNK, CHUNK, device=ring.device)
    begin = 0
    for end in torch.searchsorted(total, cuts, right=True).tolist():
        # one pair alone may exceed the chunk
        end = min(max(end, begin + 1), ring.numel())
        piece = count[begin:end]
        owner = torch.repeat_interleave(piece)
        if owner.numel() > 0:
            offset = torch.arange(owner.numel(), device=ring.device)
            offset = offset - (piece.cumsum(0) - piece)[owner]
            row = (ring[begin:end] // num_nodes)[owner]
            yield row * num_nodes + sources[start[middle[begin:end]][owner] + offset]
        begin = end


def _distinct(keys: Tensor, num_nodes: int) -> Tensor:
    """The keys without repetition, sorted; they come in the order of their targets."""
    first, last = int(keys[0]) // num_nodes, int(keys[-1]) // num_nodes
    num_cells = (last - first + 1) * num_nodes
    if num_cells > 4 * keys.numel():
        distinct: Tensor = keys.unique()
        return distinct
    # where a good part of all pairs is met, ticking them off is cheaper than sorting
    met = torch.zeros(num_cells, dtype=torch.bool, device=keys.device)
    met[keys - first * num_nodes] = True
    return met.nonzero().squeeze(1) + first * num_nodes


def _contains(sorted_keys: Tensor, keys: Tensor) -> Tensor:
    """Which keys are among the sorted ones."""
    place = torch.searchsorted(sorted_keys, keys).clamp(max=sorted_keys.numel() - 1)
    found: Tensor = sorted_keys[place] == keys
    return found


class RingMatrices:
    r"""The pairs of nodes of a graph as one matrix for each distance, divided by the roots of the
    sizes of the rings of both ends if asked for. Cached, each graph that has been seen is
    remembered by a :class:`GraphMemo`; otherwise a whole batch is walked at every call.
    """

    def __init__(self, max_hops: int, cached: bool, normalize: bool) -> None:
        self.max_hops, self.normalize = max_hops, normalize
        self.memo = GraphMemo(self._compute) if cached else None
        self._last: tuple[Tensor, torch.dtype, list[Adjacency]] | None = None

    def _compute(
        self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> tuple[Tensor, Tensor]:
        pairs, distance = hop_pairs(edge_index, num_nodes, self.max_hops)
        return pairs, distance.int()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def find(self, graph: GraphInput, dtype: torch.dtype) -> list[Adjacency]:
        r"""Returns a matrix for each distance from 1 to :obj:`max_hops`; the last may be empty."""
        num_nodes = graph.num_nodes
        if self.memo is None:
            found = hop_pairs(graph.edge_index, num_nodes, self.max_hops)
            return self._split(*found, num_nodes, dtype)
        pairs, distance = self.memo.find(replace(graph, edge_weight=None))
        if self._last is None or self._last[0] is not pairs or self._last[1] != dtype:
            # kept with all that is prepared for products, for the next step on the same graph
            with torch.inference_mode(False), torch.no_grad():
                rings = self._split(pairs, distance, num_nodes, dtype)
            self._last = pairs, dtype, rings
        return self._last[2]

    def _split(
        self, pairs: Tensor, distance: Tensor, num_nodes: int, dtype: torch.dtype
    ) -> list[Adjacency]:
        if bool((distance[1:] < distance[:-1]).any()):
            order = distance.argsort(stable=True)
            pairs = pairs[:, order]
        sizes = torch.bincount(distance, minlength=self.max_hops + 1)[1:].tolist()
        rings = pairs.split(sizes, dim=1)
        if self.normalize:
            return [gcn_adjacency(ring, None, num_nodes, dtype, None) for ring in rings]
        return [sum_adjacency(ring, None, num_nodes, dtype) for ring in rings]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": None}


PairFunction = Callable[[Tensor, Tensor | None, int], tuple[Tensor, Tensor]]


class GraphMemo:
    r"""Node pairs and a value for each, computed once for every graph that is seen.

    A batch is taken apart into its graphs, so a graph is found again in whatever batch it comes
    back. Graphs are recognised by their content (edges, weights, number of nodes), which has to be
    read on the CPU; the very tensors of the last call are recognised at once. The memory is no part
    of a model's state: copies and pickles start empty. Beyond :obj:`max_pairs` the oldest graphs
    leave first; with 0 nothing is kept.
    """

    def __init__(self, compute: PairFunction, max_pairs: int = 100_000_000) -> None:
        self.compute = compute
        self.max_pairs = max_pairs
        self.forget()

    def forget(self) -> None:
        r"""Empties the memory."""
        self._graphs: dict[bytes, tuple[Tensor, Tensor]] = {}
        self._num_pairs = 0
        self._last: tuple[list[tuple[Tensor | None, int]], tuple[Tensor, Tensor]] | None = None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def find(self, graph: GraphInput) -> tuple[Tensor, Tensor]:
        r"""The pairs of all graphs of a batch, numbered as in the batch, and their values."""
        given = graph.edge_index, graph.edge_weight, graph.batch
        stamps = [*map(_stamp, given), (None, graph.num_nodes)]
        if self._last is not None and all(
            tensor is seen and version == seen_version
            for (tensor, version), (seen, seen_version) in zip(stamps, self._last[0], strict=True)
        ):
            return self._last[1]
        # what is found while a model is only evaluated must serve for training as well
        with torch.inference_mode(False), torch.no_grad():
            found = self._find_anew(graph)
        counted = all(tensor is None or not tensor.is_inference() for tensor in given)
        if self.max_pairs > 0 and counted:
            self._last = stamps, found
        return found

    def _find_anew(self, graph: GraphInput) -> tuple[Tensor, Tensor]:
        edge_index, edge_weight = graph.edge_index, graph.edge_weight
        batch, size = graph.batch, graph.batch_size
        if batch is None or graph.num_nodes == 0 or size == 1:
            (name,) = self._name(edge_index, edge_weight, [graph.num_nodes], [edge_index.size(1)])
            return self._one_graph(name, edge_index, edge_weight, graph.num_nodes)
        nodes = torch.bincount(batch, minlength=size).tolist()
        graph_of_edge = batch[edge_index[1]]
        order = graph_of_edge.argsort(stable=True)
        edges = torch.bincount(graph_of_edge, minlength=size).tolist()
        edge_index = edge_index[:, order]
        edge_weight = None if edge_weight is None else edge_weight[order]
        names = self._name(edge_index, edge_weight, nodes, edges)
        columns = edge_index.split(edges, dim=1)
        weights = [None] * size if edge_weight is None else edge_weight.split(edges)
        pairs, values, first = [], [], 0
        for count, own_edges, own_weights, name in zip(nodes, columns, weights, names, strict=True):
            if count > 0:
                own_pairs, own_values = self._one_graph(name, own_edges - first, own_weights, count)
                pairs.append(own_pairs + first)
                values.append(own_values)
                first += count
        return torch.cat(pairs, dim=1), torch.cat(values)

    def _one_graph(
        self, name: bytes, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> tuple[Tensor, Tensor]:
        if self.max_pairs == 0:
            return self.compute(edge_index, edge_weight, num_nodes)
        if name not in self._graphs:
            found = self._graphs[name] = self.compute(edge_index, edge_weight, num_nodes)
            self._num_pairs += found[1].numel()
            while self._num_pairs > self.max_pairs and len(self._graphs) > 1:
                oldest = next(iter(self._graphs))
                self._num_pairs -= self._graphs.pop(oldest)[1].numel()
        return self._graphs[name]

    def _name(
        self, edge_index: Tensor, edge_weight: Tensor | None, nodes: list[int], edges: list[int]
    ) -> list[bytes]:
        """A name for the content of each graph, and for the device it lies on."""
        if self.max_pairs == 0:
            return [b""] * len(nodes)
        # one transfer for all graphs of a batch
        columns = edge_index.cpu().t().contiguous()
        weights = None if edge_weight is None else edge_weight.detach().cpu().double()
        names, first, begin = [], 0, 0
        for num_nodes, num_edges in zip(nodes, edges, strict=True):
            end = begin + num_edges
            state = hashlib.blake2b(f"{num_nodes} {edge_index.device}".encode(), digest_size=16)
            state.update((columns[begin:end] - first).numpy().tobytes())
            if edge_weight is not None and weights is not None:
                state.update(str(edge_weight.dtype).encode())
                state.update(weights[begin:end].contiguous().numpy().tobytes())
            names.append(state.digest())
            first, begin = first + num_nodes, end
        return names

    def __getstate__(self) -> dict[str, object]:
        return {"compute": self.compute, "max_pairs": self.max_pairs}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.forget()


def _stamp(tensor: Tensor | None) -> tuple[Tensor | None, int]:
    """A tensor and the number of times it has been written to, where that is counted."""
    return tensor, 0 if tensor is None or tensor.is_inference() else tensor._version
