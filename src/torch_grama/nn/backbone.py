"""How a graph neural network becomes the backbone of a block."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn import GCNConv, GINEConv
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import choose
from torch_grama.nn.engine.adjacency import Adjacency, LinearMap
from torch_grama.nn.engine.edge_messages import order_edges, reads_order
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.gps_layer import GPSLayer, reset_what_is_left_out
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import find_linear_map
from torch_grama.nn.neighbor_convs import NeighborSumConv, NormedConv, build_gin_conv, convolve

BackboneLike = str | Module | Callable[[int], Module]

# Arguments of a backbone that are attributes of the graph.
_OF_THE_GRAPH = ("edge_weight", "edge_type", "batch", "batch_size", "layout", "x_0")
_UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Backbone(Protocol):
    r"""What a module may declare, to receive or to return more than node states as the backbone of
    a block.

    Only ``forward(x, edge_index)`` is needed: node states :math:`(N, F)` and edges :math:`(2, E)`
    in, node states :math:`(N, F)` out. Any other argument below is passed by name if the signature
    has it. A class need not inherit from this protocol.

    Attributes:
        edge_state: ``"block"`` or ``"model"`` if ``forward`` returns a pair of node states and
            edge attributes, which then are the ``edge_attr`` of the next recurrence of the block,
            or of the model.
    """

    edge_state: str

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        layout: object = None,
        x_0: Tensor | None = None,
        edge_order: object = None,
        step: int = 0,
    ) -> Tensor | tuple[Tensor, Tensor]:
        r"""Returns new node states.

        Args:
            x (Tensor): Node states.
            edge_index (Tensor): Edges, from source to target.
            edge_weight (Tensor, optional): Edge weights :math:`(E)`.
            edge_attr (Tensor, optional): Edge attributes, or the edge state :math:`(E, D)`.
            edge_type (Tensor, optional): The type of each edge :math:`(E)`.
            batch (Tensor, optional): The graph of each node, sorted; :obj:`None` for one graph.
            batch_size (int, optional): Number of graphs.
            layout (PaddedLayout, optional): Where nodes lie in a padded batch, for attention;
                made once for all blocks.
            x_0 (Tensor, optional): The state from which the first recurrence of the model starts,
                the same for all, as of an initial residual (PyG's ``GCN2Conv`` and ``FAConv``).
            edge_order (Adjacency, optional): The edges sorted by target and by source, made once
                for all blocks; :obj:`None` where plain operations of torch will do.
            step (int, optional): Number of the recurrence within the block, from 0 on, for
                statistics that differ from step to step.
        """
        ...


def _gcn(channels: int, has_edge_attr: bool) -> Module:
    if has_edge_attr:
        raise ValueError(
            "Expected a backbone that uses edge attributes (got backbone='gcn' with edge_dim set); "
            "use 'gatedgcn', 'gin', 'gps' or 'neighbor-sum', or a module such as GINEConv"
        )
    return GCNConv(channels, channels)  # type: ignore[abstract]


def _gps(channels: int, has_edge_attr: bool, dropout: float) -> Module:
    if has_edge_attr:
        return GPSLayer(channels, build_gin_conv(channels, True), dropout=dropout)
    conv = GCNConv(channels, channels)  # type: ignore[abstract]
    return GPSLayer(channels, conv, dropout=dropout)


# Each is called with the width, the number of recurrences that share the backbone, whether edge
# attributes (already encoded to the same width) come along, and the model's dropout.
BACKBONES: dict[str, Callable[[int, int, bool, float], Module]] = {
    "gcn": lambda width, _, edges, __: _gcn(width, edges),
    "gatedgcn": lambda width, steps, edges, _: GatedGCNConv(width, edges, steps),
    "gin": lambda width, steps, edges, _: NormedConv(build_gin_conv(width, edges), width, steps),
    "gps": lambda width, _, edges, dropout: _gps(width, edges, dropout),
    "neighbor-sum": lambda width, steps, _, __: NeighborSumConv(width, steps),
}

# Names of version 0.1, and what to write now.
_OLD_BACKBONES = {
    "gcn-root": "RootedGCNConv(channels)",
    "gatedgcn-plain": "GatedGCNConv(channels, norm=None)",
    "gatedgcn-sum": "GatedGCNConv(channels, norm=None, normalize_gates=False)",
    "gin-multi": "build_gin_conv(channels, aggregation='multi')",
    "gps-sum": "GPSLayer(channels, build_gin_conv(channels))",
    "gps-multi": "GPSLayer(channels, build_gin_conv(channels, aggregation='multi'))",
    "gps-performer": "GPSLayer(channels, conv, attention='performer')",
    "gps-pre": "GPSLayer(channels, conv, pre_norm=True)",
    "gps-sum-pre": "GPSLayer(channels, build_gin_conv(channels), pre_norm=True)",
    "gps-multi-pre": (
        "GPSLayer(channels, build_gin_conv(channels, aggregation='multi'), pre_norm=True)"
    ),
}


def build_backbone(
    backbone: BackboneLike,
    channels: int,
    num_recurrences: int,
    has_edge_attr: bool = False,
    dropout: float = 0.0,
) -> Module:
    r"""Makes the backbone of one block, which :obj:`num_recurrences` recurrences share.

    A name is looked up, a module is cloned and re-initialised, a class of convolutions is given
    both widths, and another callable the number of channels. Dropout is that of a backbone by name
    that has a place for it.
    """
    if isinstance(backbone, str):
        if backbone in _OLD_BACKBONES:
            raise ValueError(
                f"Expected 'backbone' to be a name of this version (got {backbone!r} of version "
                f"0.1); pass the module instead: {_OLD_BACKBONES[backbone]}"
            )
        build = choose("backbone", backbone, BACKBONES)
        return build(channels, num_recurrences, has_edge_attr, dropout)
    if isinstance(backbone, Module):
        module = copy.deepcopy(backbone)
        reset_backbone(module)
    elif isinstance(backbone, type) and "out_channels" in inspect.signature(backbone).parameters:
        module = backbone(channels, out_channels=channels)
    elif callable(backbone):
        module = backbone(channels)
    else:
        raise TypeError(
            f"Expected 'backbone' to be a name, a module or a callable channels -> module "
            f"(got {type(backbone).__name__})"
        )
    if not isinstance(module, Module):
        raise TypeError(
            f"Expected 'backbone' to make a torch.nn.Module (got {type(module).__name__})"
        )
    in_channels = getattr(module, "in_channels", channels)
    if isinstance(in_channels, int) and in_channels not in (-1, channels):
        raise ValueError(
            f"Expected a backbone of the model's width {channels} (got {_name(module)} with "
            f"in_channels={in_channels})"
        )
    if has_edge_attr and not BackboneCall.inspect(module).edge_attr:
        raise ValueError(
            f"Expected a backbone that uses edge attributes (got {_name(module)} with edge_dim "
            f"set); give the convolution its own edge_dim, or leave edge_dim out"
        )
    return module


def reset_backbone(module: Module) -> None:
    reset(module)
    reset_what_is_left_out(module)


def ask(module: Module, name: str) -> None:
    r"""Calls a method of a module that has one of that name."""
    method: Callable[[], None] | None = getattr(module, name, None)
    if method is not None:
        method()


def read_compiled(module: Module) -> Module:
    r"""Returns what :func:`torch.compile` compiled, since that hides its signature."""
    original = getattr(module, "_orig_mod", module)
    assert isinstance(original, Module)
    return original


def forward_parameters(module: Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(read_compiled(module).forward).parameters


@dataclass(frozen=True, eq=False)
class BackboneCall:
    r"""Which arguments a backbone takes besides node states and edges, found out once.

    With :obj:`edge_state` it returns new edge attributes beside the node states, for the next
    recurrence, and with :obj:`edges_leave` for the next block too. With :obj:`copies_input` it is
    given a copy of the states, because a part of it may change its input in place.
    """

    edge_weight: bool
    edge_attr: bool
    edge_type: bool
    requires_edge_attr: bool
    batch: bool
    batch_size: bool
    layout: bool
    x_0: bool
    edge_order: bool
    step: bool
    edge_state: bool
    edges_leave: bool
    copies_input: bool

    @classmethod
    def inspect(cls, module: Module) -> BackboneCall:
        r"""Reads the signature of a module's forward method.

        Warns if it names no argument at all, since nothing can be passed by name then.
        """
        module = read_compiled(module)
        parameters = forward_parameters(module)
        names = set(parameters)
        # A wrapper such as GPSConv passes unknown keywords on to the convolution it wraps.
        wrapped = getattr(module, "conv", None)
        takes_keywords = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        inner = cls.inspect(wrapped) if takes_keywords and isinstance(wrapped, Module) else None
        if inner is None and all(p.kind in _UNNAMED for p in parameters.values()):
            warnings.warn(
                f"The backbone {_name(module)} names no arguments in its forward method, so it is "
                "given node states and edges alone: no edge weights or attributes, and attention "
                "inside it sees all graphs of a batch as one; name those it takes, such as 'batch'",
                stacklevel=2,
            )

        def takes(word: str) -> bool:
            return word in names or bool(inner and getattr(inner, word))

        edge_state = getattr(module, "edge_state", None)
        return cls(
            **{name: takes(name) for name in (*_OF_THE_GRAPH, "edge_order", "step")},
            edge_attr=_can_use_edge_attr(module, names) or bool(inner and inner.edge_attr),
            requires_edge_attr=_requires_edge_attr(module, parameters)
            or bool(inner and inner.requires_edge_attr),
            edge_state=isinstance(edge_state, str),
            edges_leave=edge_state == "model",
            copies_input=any(getattr(part, "inplace", False) for part in module.modules()),
        )

    def check(self, module: Module, graph: GraphInput) -> None:
        r"""Raises a :class:`ValueError` if the graph brings what the backbone would ignore."""
        for name in ("edge_weight", "edge_attr", "edge_type"):
            if getattr(graph, name) is not None and not getattr(self, name):
                raise ValueError(
                    f"Expected no '{name}' (got one, but the backbone {_name(module)} cannot use "
                    f"it)"
                )
        if graph.edge_attr is None and self.requires_edge_attr:
            raise ValueError(f"Expected 'edge_attr' (the backbone {_name(module)} needs it)")


def order_of(graph: GraphInput) -> Adjacency | None:
    r"""Returns the edges of a graph in order, made once, if sums over them will ask for it."""
    if not reads_order(graph.edge_index):
        return None
    return graph.adjacency("edge order", lambda: order_edges(graph.edge_index, graph.num_nodes))


class BoundBackbone:
    r"""A backbone together with the graph it runs on: a callable :math:`(N, F) \to (N, F)`.

    Called once for each recurrence, in order; it hands the edge state of a stateful backbone from
    one call to the next. A list of modules has one for each recurrence.
    """

    def __init__(self, module: Module, call: BackboneCall, graph: GraphInput) -> None:
        self.module = module
        self.graph = graph
        self.edge_state = graph.edge_attr
        self._call = call
        self._order = order_of(graph) if call.edge_order else None
        self._step = 0

    def __call__(self, x: Tensor) -> Tensor:
        call, graph = self._call, self.graph
        keywords: dict[str, object] = {
            name: getattr(graph, name) for name in _OF_THE_GRAPH if getattr(call, name)
        }
        if call.edge_attr and self.edge_state is not None:
            keywords["edge_attr"] = self.edge_state
        if self._order is not None:
            keywords["edge_order"] = self._order
        if call.step:
            keywords["step"] = self._step
        module = self.module
        if isinstance(module, ModuleList):
            module = module[self._step]
        given = x.clone() if call.copies_input else x
        version = _version(given)
        states = given if graph.senders is None else (graph.senders, given)
        args: tuple[object, ...] = (states, graph.edge_index)
        if call.x_0:  # which PyG's convolutions have before the edges
            args, keywords = (states,), {"edge_index": graph.edge_index, **keywords}
        result = convolve(module, *args, **keywords)
        if not call.copies_input and _version(given) != version:
            raise RuntimeError(
                f"Expected the backbone {_name(module)} to leave its input as it is (it changed "
                f"the node states in place); let it work on a copy, x.clone()"
            )
        self._step += 1
        out: Tensor = result
        if call.edge_state:
            out, self.edge_state = result
        if out.size() != x.size():
            raise self._wrong_size(list(out.size()), list(x.size()))
        return out

    def as_linear_map(self, channels: int) -> LinearMap | None:
        r"""Returns the linear map that the calls compute, if the backbone is known to be one."""
        linear = find_linear_map(self.module, self.graph) if self.graph.senders is None else None
        if linear is None:
            return None
        if tuple(linear.weight.size()) != (channels, channels):
            wanted = [self.graph.num_nodes, channels]
            raise self._wrong_size([self.graph.num_nodes, linear.weight.size(1)], wanted)
        return linear

    def _wrong_size(self, got: list[int], wanted: list[int]) -> ValueError:
        return ValueError(
            f"Expected the backbone {_name(self.module)} to return node states of shape {wanted} "
            f"(got {got}); its input and output must have the width of the model"
        )


def _version(x: Tensor) -> int:
    # inference tensors do not count changes, and compilers do not follow the count
    return 0 if torch.compiler.is_compiling() or x.is_inference() else x._version


def _can_use_edge_attr(module: Module, names: set[str]) -> bool:
    if "edge_attr" not in names:
        return False
    # PyG's attention convolutions declare edge_attr, and use it only if they were given edge_dim.
    return getattr(module, "edge_dim", 0) is not None


def _requires_edge_attr(module: Module, parameters: Mapping[str, inspect.Parameter]) -> bool:
    parameter = parameters.get("edge_attr")
    if parameter is None:
        return False
    return parameter.default is parameter.empty or isinstance(module, GINEConv)


def _name(module: Module) -> str:
    # a sentence has no room for the many lines in which some modules print themselves
    text = str(module)
    return type(module).__name__ if "\n" in text else text
