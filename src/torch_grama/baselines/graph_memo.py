"""Remembers what was computed from a graph, so that it is computed once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor

from torch_grama.nn.engine.sequence import count_graphs

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
    def find(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        num_nodes: int,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""The pairs of all graphs of a batch, numbered as in the batch, and their values."""
        stamps = [*map(_stamp, (edge_index, edge_weight, batch)), (None, num_nodes)]
        if self._last is not None and all(
            tensor is seen and version == seen_version
            for (tensor, version), (seen, seen_version) in zip(stamps, self._last[0], strict=True)
        ):
            return self._last[1]
        # what is found while a model is only evaluated must serve for training as well
        with torch.inference_mode(False), torch.no_grad():
            found = self._find_anew(edge_index, edge_weight, num_nodes, batch, batch_size)
        writes_are_counted = all(
            tensor is None or not tensor.is_inference() for tensor, _ in stamps
        )
        if self.max_pairs > 0 and writes_are_counted:
            self._last = stamps, found
        return found

    def _find_anew(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        num_nodes: int,
        batch: Tensor | None,
        batch_size: int | None,
    ) -> tuple[Tensor, Tensor]:
        if batch is None or num_nodes == 0 or batch_size == 1:
            (name,) = self._name(edge_index, edge_weight, [num_nodes], [edge_index.size(1)])
            graph = edge_index, edge_weight, num_nodes
            return self._one_graph(graph, name)
        size = count_graphs(batch, batch_size)
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
                graph = own_edges - first, own_weights, count
                own_pairs, own_values = self._one_graph(graph, name)
                pairs.append(own_pairs + first)
                values.append(own_values)
                first += count
        return torch.cat(pairs, dim=1), torch.cat(values)

    def _one_graph(
        self, graph: tuple[Tensor, Tensor | None, int], name: bytes
    ) -> tuple[Tensor, Tensor]:
        if self.max_pairs == 0:
            return self.compute(*graph)
        if name not in self._graphs:
            found = self._graphs[name] = self.compute(*graph)
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(graphs={len(self._graphs)}, pairs={self._num_pairs})"


def _stamp(tensor: Tensor | None) -> tuple[Tensor | None, int]:
    """A tensor and the number of times it has been written to, where that is counted."""
    return tensor, 0 if tensor is None or tensor.is_inference() else tensor._version
