"""How a graph neural network becomes the backbone of a block."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.nn import GCNConv, GINConv, GINEConv, MessagePassing
from torch_geometric.nn.inits import reset

from torch_grama.nn.choices import choose
from torch_grama.nn.forward_signature import forward_parameters, read_compiled
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.gps_layer import GPSLayer
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import LinearMap, find_linear_map
from torch_grama.nn.neighbor_aggregation import build_aggregation
from torch_grama.nn.rooted_gcn_conv import RootedGCNConv
from torch_grama.nn.thorough_reset import reset_what_is_left_out

BackboneLike = str | Module | Callable[[int], Module]

_UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _gcn(channels: int, num_recurrences: int, has_edge_attr: bool) -> Module:
    del num_recurrences
    _refuse_edge_attr("gcn", has_edge_attr)
    return GCNConv(channels, channels)  # type: ignore[abstract]


def _rooted_gcn(channels: int, num_recurrences: int, has_edge_attr: bool) -> Module:
    del num_recurrences
    _refuse_edge_attr("gcn-root", has_edge_attr)
    return RootedGCNConv(channels)  # type: ignore[abstract]


def _refuse_edge_attr(word: str, has_edge_attr: bool) -> None:
    if has_edge_attr:
        raise ValueError(
            f"Expected a backbone that uses edge attributes (got backbone='{word}' with edge_dim "
            "set); use 'gatedgcn' or 'gps', or a module such as GINEConv"
        )


def _gated_gcn(channels: int, num_recurrences: int, has_edge_attr: bool) -> Module:
    return GatedGCNConv(channels, has_edge_attr=has_edge_attr, num_recurrences=num_recurrences)


def _gated_gcn_plain(channels: int, num_recurrences: int, has_edge_attr: bool) -> Module:
    return GatedGCNConv(channels, has_edge_attr, num_recurrences, norm=None)


def _gated_gcn_sum(channels: int, num_recurrences: int, has_edge_attr: bool) -> Module:
    return GatedGCNConv(channels, has_edge_attr, num_recurrences, norm=None, normalize_gates=False)


def _gin_multi(channels: int, num_recurrences: int, has_edge_attr: bool) -> Module:
    del num_recurrences
    return _four_summaries(channels, has_edge_attr)


def _gps(
    build_local: Callable[[int, bool], MessagePassing],
    attention: str = "multihead",
    pre_norm: bool = False,
) -> Callable[[int, int, bool], Module]:
    def build(channels: int, num_recurrences: int, has_edge_attr: bool) -> Module:
        del num_recurrences
        conv = build_local(channels, has_edge_attr)
        return GPSLayer(channels, conv, attention=attention, pre_norm=pre_norm)

    return build


def _local_convolution(channels: int, has_edge_attr: bool) -> MessagePassing:
    if not has_edge_attr:
        return GCNConv(channels, channels)  # type: ignore[abstract]
    return _isomorphism_convolution(channels, has_edge_attr)


def _isomorphism_convolution(
    channels: int, has_edge_attr: bool, aggregation: str = "sum"
) -> MessagePassing:
    mlp = Sequential(Linear(channels, channels), ReLU(), Linear(channels, channels))
    aggr = build_aggregation(aggregation, channels)
    if has_edge_attr:
        return GINEConv(mlp, edge_dim=channels, aggr=aggr)  # type: ignore[abstract]
    return GINConv(mlp, aggr=aggr)  # type: ignore[abstract]


def _four_summaries(channels: int, has_edge_attr: bool) -> MessagePassing:
    return _isomorphism_convolution(channels, has_edge_attr, "multi")


# Each is called with the width, the number of recurrences that share the backbone, and whether
# edge attributes (already encoded to the same width) come along.
BACKBONES: dict[str, Callable[[int, int, bool], Module]] = {
    "gcn": _gcn,
    "gcn-root": _rooted_gcn,
    "gatedgcn": _gated_gcn,
    "gatedgcn-plain": _gated_gcn_plain,
    "gatedgcn-sum": _gated_gcn_sum,
    "gin-multi": _gin_multi,
    "gps": _gps(_local_convolution),
    "gps-sum": _gps(_isomorphism_convolution),
    "gps-multi": _gps(_four_summaries),
    "gps-performer": _gps(_local_convolution, attention="performer"),
    "gps-pre": _gps(_local_convolution, pre_norm=True),
    "gps-sum-pre": _gps(_isomorphism_convolution, pre_norm=True),
    "gps-multi-pre": _gps(_four_summaries, pre_norm=True),
}


def build_backbone(
    backbone: BackboneLike, channels: int, num_recurrences: int, has_edge_attr: bool = False
) -> Module:
    r"""Makes the backbone of one block.

    Args:
        backbone (str, Module or callable): A word, a module (cloned and re-initialised), or a
            callable from the number of channels to a module.
        channels (int): Width of the states.
        num_recurrences (int): How many recurrences share the backbone.
        has_edge_attr (bool, optional): Whether edge attributes will be passed.
            (default: :obj:`False`)

    Raises:
        TypeError: If it is none of these.
        ValueError: If the word is unknown, if the module has another width, or if edge attributes
            are asked for and the backbone cannot use them.
    """
    if isinstance(backbone, str):
        return choose("backbone", backbone, BACKBONES)(channels, num_recurrences, has_edge_attr)
    if isinstance(backbone, Module):
        module = copy.deepcopy(backbone)
        reset_backbone(module)
    elif callable(backbone):
        module = backbone(channels)
    else:
        raise TypeError(
            f"Expected 'backbone' to be a word, a module or a callable channels -> module "
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
    r"""Resets all learnable parameters of a backbone."""
    reset(module)
    reset_what_is_left_out(module)


@dataclass(frozen=True, eq=False)
class BackboneCall:
    r"""Which arguments a backbone takes besides node states and edges, found out once.

    Attributes:
        edge_weight: It takes edge weights.
        edge_attr: It takes edge attributes.
        requires_edge_attr: It cannot do without them.
        batch: It takes the batch vector.
        batch_size: It takes the number of graphs.
        layout: It takes the layout of a padded batch.
        step: It takes the number of the recurrence within the block.
        edge_state: It returns new edge attributes beside the node states, to be passed to the
            next recurrence (attribute ``carries_edge_state``).
    """

    edge_weight: bool
    edge_attr: bool
    requires_edge_attr: bool
    batch: bool
    batch_size: bool
    layout: bool
    step: bool
    edge_state: bool

    @classmethod
    def inspect(cls, module: Module) -> BackboneCall:
        r"""Reads the signature of a module's forward method; of a compiled module, that of the
        module it was compiled from.

        Warns if a signature names no argument at all, since nothing can be passed by name then.
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

        return cls(
            edge_weight=takes("edge_weight"),
            edge_attr=_can_use_edge_attr(module, names) or bool(inner and inner.edge_attr),
            requires_edge_attr=_requires_edge_attr(module, parameters)
            or bool(inner and inner.requires_edge_attr),
            batch=takes("batch"),
            batch_size=takes("batch_size"),
            layout=takes("layout"),
            step=takes("step"),
            edge_state=bool(getattr(module, "carries_edge_state", False)),
        )

    def check(self, module: Module, graph: GraphInput) -> None:
        r"""Raises a :class:`ValueError` if the graph brings what the backbone would ignore."""
        if graph.edge_weight is not None and not self.edge_weight:
            raise ValueError(
                f"Expected no 'edge_weight' (got one, but the backbone {_name(module)} cannot use "
                f"it)"
            )
        if graph.edge_attr is not None and not self.edge_attr:
            raise ValueError(
                f"Expected no 'edge_attr' (got one, but the backbone {_name(module)} cannot use it)"
            )
        if graph.edge_attr is None and self.requires_edge_attr:
            raise ValueError(f"Expected 'edge_attr' (the backbone {_name(module)} needs it)")


class BoundBackbone:
    r"""A backbone together with the graph it runs on: a callable :math:`(N, F) \to (N, F)`.

    Called once for each recurrence, in order; it hands the edge state of a stateful backbone from
    one call to the next.

    Args:
        module (Module): The backbone.
        call (BackboneCall): Which arguments it takes.
        graph (GraphInput): The graph.
        gain (Tensor, optional): Multiplies the output. (default: :obj:`None`)
        carry_edge_state (bool, optional): If :obj:`False`, every recurrence starts from the given
            edge attributes. (default: :obj:`True`)
    """

    def __init__(
        self,
        module: Module,
        call: BackboneCall,
        graph: GraphInput,
        gain: Tensor | None = None,
        carry_edge_state: bool = True,
    ) -> None:
        self.module = module
        self.graph = graph
        self.gain = gain
        self._call = call
        self._carry = carry_edge_state
        self._edge_state = graph.edge_attr
        self._step = 0

    def __call__(self, x: Tensor) -> Tensor:
        keywords: dict[str, object] = {}
        if self._call.edge_weight:
            keywords["edge_weight"] = self.graph.edge_weight
        if self._call.edge_attr and self._edge_state is not None:
            keywords["edge_attr"] = self._edge_state
        if self._call.batch:
            keywords["batch"] = self.graph.batch
        if self._call.batch_size:
            keywords["batch_size"] = self.graph.batch_size
        if self._call.layout:
            keywords["layout"] = self.graph.layout
        if self._call.step:
            keywords["step"] = self._step
        result = self.module(x, self.graph.edge_index, **keywords)
        self._step += 1
        out: Tensor = result
        if self._call.edge_state:
            out, edge_state = result
            if self._carry:
                self._edge_state = edge_state
        if out.size() != x.size():
            raise self._wrong_size(list(out.size()), list(x.size()))
        return out if self.gain is None else self.gain * out

    def as_linear_map(self, channels: int) -> LinearMap | None:
        r"""Returns the linear map that the calls compute, if the backbone is known to be one."""
        linear = find_linear_map(self.module, self.graph)
        if linear is None:
            return None
        if tuple(linear.weight.size()) != (channels, channels):
            wanted = [self.graph.num_nodes, channels]
            raise self._wrong_size([self.graph.num_nodes, linear.weight.size(1)], wanted)
        return linear.scale(self.gain)

    def _wrong_size(self, got: list[int], wanted: list[int]) -> ValueError:
        return ValueError(
            f"Expected the backbone {_name(self.module)} to return node states of shape {wanted} "
            f"(got {got}); its input and output must have the width of the model"
        )


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
