"""What comes in: arguments are checked and graphs are read here once, and trusted further in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.nn.backbone import forward_parameters


class GraphLike(Protocol):
    r"""A graph or a batch of graphs as PyG's ``Data`` and ``Batch`` present it.

    ``edge_weight``, ``edge_attr``, ``batch``, ``num_graphs`` and ``pe`` are read where they exist.
    """

    @property
    def x(self) -> Tensor | None: ...
    @property
    def edge_index(self) -> Tensor | None: ...


@dataclass(frozen=True, eq=False)
class ModelInput:
    r"""The arguments of a model: one graph, or a batch of graphs."""

    x: Tensor  #: node features :math:`(N, *)`
    edge_index: Tensor  #: edges :math:`(2, E)`, from source to target
    edge_weight: Tensor | None = None  #: edge weights :math:`(E)`, if any
    edge_attr: Tensor | None = None  #: edge attributes :math:`(E, *)`, if any
    batch: Tensor | None = None  #: the graph of each node :math:`(N)`, sorted; None for one graph
    batch_size: int | None = None  #: number of graphs :math:`B`; None to read it off ``batch``
    pe: Tensor | None = None  #: positional encodings :math:`(N, K)`, if any

    @property
    def num_nodes(self) -> int:
        r"""Number of nodes :math:`N`."""
        return self.x.size(0)

    @property
    def num_graphs(self) -> int:
        r"""Number of graphs :math:`B`."""
        return check_batch(self.x, self.batch, self.batch_size)[1]

    def run(self, model: Module, x: Tensor | None = None) -> Tensor:
        r"""Calls the model, with other node features if they are given, and with positional
        encodings if it takes them."""
        takes_pe = self.pe is not None and "pe" in forward_parameters(model)
        positions = {"pe": self.pe} if takes_pe else {}
        out: Tensor = model(
            self.x if x is None else x,
            self.edge_index,
            self.edge_weight,
            self.edge_attr,
            self.batch,
            self.batch_size,
            **positions,
        )
        return out

    def split(self) -> list[ModelInput]:
        r"""Returns the graphs of a batch, one by one."""
        if self.batch is None:
            return [self]
        graph, num_graphs = check_batch(self.x, self.batch, self.batch_size)
        graph_of_edge = graph[self.edge_index[0]]
        position = torch.zeros_like(graph)
        parts = []
        for index in range(num_graphs):
            (nodes,) = (graph == index).nonzero(as_tuple=True)
            edges = graph_of_edge == index
            position[nodes] = torch.arange(len(nodes), device=nodes.device)
            parts.append(
                ModelInput(
                    self.x[nodes],
                    position[self.edge_index[:, edges]],
                    None if self.edge_weight is None else self.edge_weight[edges],
                    None if self.edge_attr is None else self.edge_attr[edges],
                    pe=None if self.pe is None else self.pe[nodes],
                )
            )
        return parts


# One graph, a batch of graphs, or several of them.
Graphs: TypeAlias = GraphLike | ModelInput | Sequence[GraphLike | ModelInput]


def read_input(data: Graphs) -> ModelInput:
    r"""Reads the arguments of a model from a graph, a batch, or a sequence of graphs.

    Args:
        data (ModelInput, Data, Batch or sequence): The graphs; a sequence is joined to a batch.

    Raises:
        ValueError: If there is no graph, if node features or edges are missing, or if some graphs
            have what others lack.
    """
    if isinstance(data, ModelInput):
        return data
    if isinstance(data, Sequence):
        return _join([part for item in data for part in read_input(item).split()])
    x, edge_index = getattr(data, "x", None), getattr(data, "edge_index", None)
    if not isinstance(x, Tensor) or not isinstance(edge_index, Tensor):
        raise ValueError(
            f"Expected a graph with tensors 'x' and 'edge_index' (got {type(data).__name__} with "
            f"x of type {type(x).__name__} and edge_index of type {type(edge_index).__name__})"
        )
    batch = getattr(data, "batch", None)
    return ModelInput(
        x,
        edge_index,
        getattr(data, "edge_weight", None),
        getattr(data, "edge_attr", None),
        batch,
        None if batch is None else getattr(data, "num_graphs", None),
        getattr(data, "pe", None),
    )


@contextmanager
def evaluation_mode(model: Module) -> Iterator[None]:
    r"""Switches dropout and running statistics off for a while, and every module back after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _join(graphs: Sequence[ModelInput]) -> ModelInput:
    if not graphs:
        raise ValueError("Expected at least one graph to analyse (got none)")
    if len(graphs) == 1:
        return graphs[0]
    joined: dict[str, Any] = {}
    for name in ("x", "edge_weight", "edge_attr", "pe"):
        parts = [part for graph in graphs if (part := getattr(graph, name)) is not None]
        if 0 < len(parts) < len(graphs):
            got = f"got it in {len(parts)} of {len(graphs)}"
            raise ValueError(f"Expected '{name}' in all graphs or in none ({got})")
        joined[name] = torch.cat(parts) if parts else None
    sizes = torch.tensor([graph.num_nodes for graph in graphs], device=graphs[0].x.device)
    first_nodes = (sizes.cumsum(0) - sizes).tolist()
    edges = [graph.edge_index + first for graph, first in zip(graphs, first_nodes, strict=True)]
    joined["edge_index"] = torch.cat(edges, dim=1)
    return ModelInput(**joined, batch=torch.repeat_interleave(sizes), batch_size=len(graphs))


def check_coefficients(phi: Tensor, theta: Tensor | None = None) -> tuple[Tensor, Tensor]:
    r"""Return ``phi [..., p]`` and ``theta [..., q]``, which may be missing (``q = 0``), with one
    dtype and equal leading dimensions."""
    check_real("phi", phi, ndim=1)
    if phi.size(-1) == 0:
        raise ValueError(
            f"Expected 'phi' to hold at least one coefficient in its last dimension "
            f"(got shape {tuple(phi.shape)}); pass phi of shape [..., p] with p >= 1"
        )
    if theta is None:
        return phi, phi.new_empty((*phi.shape[:-1], 0))
    check_real("theta", theta, ndim=1)
    phi, theta = broadcast(phi=phi, theta=theta)
    return phi, theta


def check_state_space(
    A: Tensor, B: Tensor, C: Tensor, D: Tensor, inputs: Tensor, state: Tensor | None
) -> tuple[Tensor, ...]:
    r"""Return a state-space model, its inputs ``[..., T]`` and its first state (zeros if missing)
    with one dtype and equal leading dimensions."""
    check_real("A", A, ndim=2)
    check_real("D", D, ndim=0)
    check_real("inputs", inputs, ndim=1)
    size = A.size(-1)
    if A.size(-2) != size or size == 0:
        got = tuple(A.shape)
        raise ValueError(f"Expected 'A' to be square with at least one state (got shape {got})")
    state = A.new_zeros(size) if state is None else state
    for name, value in (("B", B), ("C", C), ("initial_state", state)):
        check_real(name, value, ndim=1)
        check_size(name, value, size, "one per state of 'A'")
    A, D = A.flatten(-2), D.unsqueeze(-1)
    A, B, C, D, *rest = broadcast(A=A, B=B, C=C, D=D, inputs=inputs, initial_state=state)
    return A.unflatten(-1, (size, size)), B, C, D.squeeze(-1), *rest


def check_real(name: str, value: Tensor, ndim: int) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"Expected '{name}' to be a tensor (got {type(value).__name__})")
    if not value.is_floating_point():
        raise ValueError(f"Expected '{name}' to be real floating point (got {value.dtype})")
    if value.dim() < ndim:
        got = tuple(value.shape)
        raise ValueError(f"Expected '{name}' to have at least {ndim} dimension(s) (got {got})")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"Expected '{name}' to be finite (got infinite or undefined entries)")


def check_size(name: str, value: Tensor, size: int, meaning: str) -> None:
    if value.size(-1) != size:
        raise ValueError(
            f"Expected the last dimension of '{name}' to have {size} entries, {meaning} "
            f"(got shape {tuple(value.shape)})"
        )


def check_tolerance(tolerance: float, *, positive: bool = False) -> None:
    usable = tolerance > 0 if positive else tolerance >= 0
    if not usable or tolerance == float("inf"):
        kind = "positive" if positive else "non-negative"
        raise ValueError(f"Expected 'tolerance' to be a {kind} finite number (got {tolerance})")


def check_count(name: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise ValueError(f"Expected '{name}' to be at least {minimum} (got {value})")


def check_batch(x: Tensor, batch: Tensor | None, batch_size: int | None) -> tuple[Tensor, int]:
    r"""Return the graph ``[N]`` of each node and the number of graphs."""
    num_nodes = x.size(0)
    if batch is None:
        if batch_size not in (None, 1):
            raise ValueError(
                f"Expected 'batch' to be given with batch_size={batch_size} (got None); "
                f"pass the graph of each node, or leave 'batch_size' out"
            )
        return torch.zeros(num_nodes, dtype=torch.long, device=x.device), 1
    if batch.dtype != torch.long or batch.shape != (num_nodes,):
        raise ValueError(
            f"Expected 'batch' to be int64 of shape ({num_nodes},), one entry per node "
            f"(got {batch.dtype} of shape {tuple(batch.shape)})"
        )
    check_one_device(nodes=x, batch=batch)
    found = int(batch.max()) + 1 if num_nodes else 0
    too_large = batch_size is not None and found > batch_size
    if num_nodes and (int(batch.min()) < 0 or too_large):
        raise ValueError(
            f"Expected the entries of 'batch' to lie in [0, batch_size) "
            f"(got {int(batch.min())} to {found - 1}, batch_size={batch_size})"
        )
    return batch, found if batch_size is None else batch_size


def check_one_device(**tensors: Tensor) -> None:
    if len({tensor.device for tensor in tensors.values()}) > 1:
        got = ", ".join(f"{name}: {tensor.device}" for name, tensor in tensors.items())
        raise ValueError(f"Expected all tensors on one device (got {got}); move them with .to()")


def broadcast(**vectors: Tensor) -> list[Tensor]:
    r"""Bring the named vectors ``[..., n]`` to the widest dtype and to equal leading dimensions."""
    check_one_device(**vectors)
    dtype = reduce(torch.promote_types, (vector.dtype for vector in vectors.values()))
    try:
        shape = torch.broadcast_shapes(*(vector.shape[:-1] for vector in vectors.values()))
    except RuntimeError as error:
        got = ", ".join(f"{name}: {tuple(vector.shape[:-1])}" for name, vector in vectors.items())
        raise ValueError(
            f"Expected leading dimensions that broadcast against each other (got {got})"
        ) from error
    return [vector.to(dtype).expand(*shape, -1) for vector in vectors.values()]
