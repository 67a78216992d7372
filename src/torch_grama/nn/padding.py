"""Rows that fill a batch up to a fixed size, and how a model leaves them alone."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.utils
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch_geometric.utils import add_self_loops

from torch_grama.nn.engine.batch_norm import batch_norm


class PaddingError(RuntimeError):
    r"""A model does something over all rows that padding would change."""


@dataclass(frozen=True, eq=False)
class Padding:
    r"""Which rows of a batch of fixed size are real.

    Real nodes, edges and graphs come first. What is left of the nodes and edges is one more graph,
    the last. Numbers of rows tell nodes, edges and graphs apart, so the three differ.

    Attributes:
        num_nodes: Rows of nodes, the padding included.
        num_edges: Rows of edges, likewise.
        num_graphs: Graphs, the one that takes the padding included.
        real: How many nodes, edges and graphs are real :math:`(3)`, on the device.
        max_graph_size: No real graph has more nodes.
        has_loops: Whether an edge may lead from a node to itself.
    """

    num_nodes: int
    num_edges: int
    num_graphs: int
    real: Tensor
    max_graph_size: int
    has_loops: bool = True

    def __post_init__(self) -> None:
        sizes = (self.num_nodes, self.num_edges, self.num_graphs)
        if len(set(sizes)) != 3:
            raise ValueError(
                f"Expected different numbers of nodes, edges and graphs in a padded batch (got "
                f"{sizes}), since they tell the rows apart"
            )

    def real_rows(self, num_rows: int) -> Tensor:
        r"""Returns how many of so many rows are real.

        Raises:
            PaddingError: If so many rows are neither nodes nor edges nor graphs.
        """
        sizes = (self.num_nodes, self.num_edges, self.num_graphs)
        if num_rows not in sizes:
            raise PaddingError(
                f"Expected a batch norm over nodes, edges or graphs (got {num_rows} rows, of "
                f"{self.num_nodes} nodes, {self.num_edges} edges and {self.num_graphs} graphs)"
            )
        return self.real[sizes.index(num_rows)]


_current: ContextVar[Padding | None] = ContextVar("padding", default=None)


def current_padding() -> Padding | None:
    r"""Returns the padding of the batch that is being worked on, if it has one."""
    return _current.get()


@contextmanager
def padded(padding: Padding) -> Iterator[None]:
    r"""Lets everything within know that the batch has padding.

    Batch norms of any module then count real rows alone. Where no edge is a loop, PyG's functions
    that look for loops are spared the search, which would wait for the device.
    """
    token = _current.set(padding)
    spared = [] if padding.has_loops else _find_searches()
    try:
        for module, name, _ in spared:
            setattr(module, name, _WITHOUT_SEARCH[name])
        with _RealRowsOnly(padding):
            yield
    finally:
        for module, name, search in spared:
            setattr(module, name, search)
        _current.reset(token)


def _find_searches() -> list[tuple[ModuleType, str, Callable[..., Any]]]:
    """Wherever PyG's functions that search for loops were imported to."""
    found = []
    for name in _WITHOUT_SEARCH:
        search: Callable[..., Any] = getattr(torch_geometric.utils, name)
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is search:
                found.append((module, name, search))
    return found


def _keep_all(edge_index: Tensor, edge_attr: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    return edge_index, edge_attr


_WITHOUT_SEARCH = {"remove_self_loops": _keep_all, "add_remaining_self_loops": add_self_loops}


class _RealRowsOnly(TorchFunctionMode):
    """Has the batch norms of modules that know nothing of padding count real rows alone."""

    def __init__(self, padding: Padding) -> None:
        super().__init__()
        self._padding = padding

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is not F.batch_norm:
            return func(*args, **(kwargs or {}))
        given = _BATCH_NORM.bind(*args, **(kwargs or {}))
        given.apply_defaults()
        values = given.arguments
        if not values["training"]:
            return func(*args, **(kwargs or {}))
        x: Tensor = values["input"]
        count = self._padding.real_rows(x.size(0) if x.dim() == 2 else -1)
        return batch_norm(
            x,
            values["running_mean"],
            values["running_var"],
            values["weight"],
            values["bias"],
            values["momentum"],
            values["eps"],
            count,
        )


_GUMBEL = inspect.signature(F.gumbel_softmax)
_BATCH_NORM = inspect.signature(F.batch_norm)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> None: ...


class NoChance(TorchFunctionMode):
    r"""Takes chance out of a forward pass: nothing is dropped, and every draw is the same."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.gumbel_softmax:
            given = _GUMBEL.bind(*args, **kwargs)
            given.apply_defaults()
            return (given.arguments["logits"] / given.arguments["tau"]).softmax(
                given.arguments["dim"]
            )
        if func in _ATTENTIONS:
            given = _ATTENTIONS[func].bind(*args, **kwargs)
            given.arguments["dropout_p"] = 0.0
            args, kwargs = given.args, given.kwargs
        out = func(*args, **kwargs)
        if func in _DRAWS:
            with torch.no_grad():
                out.fill_(0.25)
        return out


_DROPOUTS = (F.dropout, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout)
_ATTENTIONS = {
    F.multi_head_attention_forward: inspect.signature(F.multi_head_attention_forward),
    F.scaled_dot_product_attention: inspect.signature(_attention),
}
_DRAWS = (torch.rand, torch.randn, torch.rand_like, torch.randn_like)
