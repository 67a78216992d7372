"""Models between a feature encoder and a readout, and stacks of convolutions among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import ClassVar, Unpack, cast

import torch
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, Parameter
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter

from torch_grama.baselines.graph_model import SIZES, GraphHead, GraphModel, ModelOptions
from torch_grama.baselines.products import apply_linear_map
from torch_grama.nn.arguments import Activation, check_positive, choose, resolve_activation
from torch_grama.nn.backbone import BackboneCall, order_of, reset_backbone
from torch_grama.nn.engine.adjacency import value_type
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import find_linear_map
from torch_grama.nn.neighbor_convs import convolve
from torch_grama.nn.norms import NormLike, build_norm, normalize


# Options that constructors pass on, named for their signatures.
class HeadOptions(ModelOptions, total=False):
    readout_layers: int


class EncodedOptions(HeadOptions, total=False):
    pre_linear: bool


class ActOptions(EncodedOptions, total=False):
    act: str | Activation | None


class EdgeOptions(HeadOptions, total=False):
    edge_dim: int | None


class NormOptions(EncodedOptions, total=False):
    norm: NormLike
    residual: str | None


class StackOptions(NormOptions, total=False):
    act: str | Activation | None


class EncodedModel(GraphModel):
    r"""A model that propagates encoded features: a :class:`FeatureEncoder`, what a subclass defines
    as :meth:`propagate`, and a :class:`~torch_grama.baselines.GraphHead`.

    Args:
        dropout (float, optional): Dropout after the encoder and in the readout.
        act (str or callable, optional): Activation of the readout.
    """

    shown: ClassVar[tuple[str, ...]] = ()
    # whether there are edge states even without edge attributes
    has_edge_states: ClassVar[bool] = False
    # whether the layers need features of the hidden width
    keeps_width: ClassVar[bool] = True
    # whether dropout falls on encoder and readout, and not only between them
    drops_ends: ClassVar[bool] = True

    def __init__(
        self,
        *sizes: int,
        pre_linear: bool = True,
        readout_layers: int = 2,
        act: str | Activation | None = "relu",
        edge_dim: int | None = None,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        widths = self.in_channels, self.hidden_channels
        if self.keeps_width and not pre_linear and widths[0] != widths[1]:
            raise ValueError(
                f"Expected in_channels equal to hidden_channels for pre_linear=False, since the "
                f"layers of {type(self).__name__} keep their width (got {widths[0]} and "
                f"{widths[1]}); use pre_linear=True"
            )
        self.edge_dim, self.act = edge_dim, resolve_activation(act)
        dropout = self.dropout if self.drops_ends else 0.0
        self.encoder = FeatureEncoder(*widths, pre_linear, dropout, edge_dim, self.has_edge_states)
        if self.drops_ends:  # the others reset all that they have at the end
            self.encoder.reset_parameters()
        self.head = GraphHead(
            self.hidden_channels, self.out_channels, self.readout, readout_layers, act, dropout
        )
        self.register_load_state_dict_pre_hook(_rename_old_keys)  # type: ignore[no-untyped-call]

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Encodes the features and propagates them."""
        # [N, C] -> [N, F], [E, D] -> [E, F]
        x, edge_state = self.encoder(x, graph.edge_attr, graph.edge_index.size(1))
        return self.propagate(x, dataclasses.replace(graph, edge_attr=edge_state))

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Returns new node states; every model defines its own."""
        raise NotImplementedError


def _rename_old_keys(
    module: Module, state: dict[str, Tensor], prefix: str, *others: object
) -> None:
    """Some models had the maps of the features beside their layers until 0.2, and a part around
    convolutions that added edge states.
    """
    for key in [key for key in state if ".conv.conv." in key]:
        state[key.replace(".conv.conv.", ".conv.")] = state.pop(key)
    for lin in ("node_lin", "edge_lin"):
        for part in ("weight", "bias"):
            if (old := f"{prefix}{lin}.{part}") in state:
                state[f"{prefix}encoder.{lin}.{part}"] = state.pop(old)


class LayerStack(EncodedModel):
    r"""A stack of :class:`ConvLayer` around convolutions.

    Args:
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
        build_conv (callable): Makes the convolution of a layer, of its input width, its output
            width, and whether it is the last; the first reads ``in_channels`` if ``pre_linear`` is
            :obj:`False`.
        act (str or callable, optional): The activation :math:`\sigma` of the layers; the readout
            uses the same, or ReLU for none.
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the first convolution reads the features (of the hidden width, where layers keep it).
    """

    keeps_width: ClassVar[bool] = False
    # whether the convolutions hold the norm, so that only the feed-forward part needs one
    conv_normalizes: ClassVar[bool] = False
    # how edge states are put together that are added to what a convolution gives a node
    added_edges: ClassVar[str | None] = None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        build_conv: Callable[[int, int, bool], Module],
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        residual: str | None = None,
        pre_linear: bool = True,
        edge_dim: int | None = None,
        feed_forward: bool = False,
        jumping: bool = False,
        **shared: Unpack[HeadOptions],
    ) -> None:
        sizes = in_channels, hidden_channels, out_channels, num_layers
        check_positive(**dict(zip(SIZES, sizes, strict=True)))
        first = hidden_channels if pre_linear else in_channels
        widths = [first] + [hidden_channels] * (num_layers - 1)
        convs = [
            build_conv(width, hidden_channels, layer == num_layers - 1)
            for layer, width in enumerate(widths)
        ]
        super().__init__(
            *sizes, pre_linear=pre_linear, act=act or "relu", edge_dim=edge_dim, **shared
        )
        around = (act, norm, self.dropout, residual, feed_forward)
        inside = (self.conv_normalizes, self.added_edges)
        self.layers = ModuleList(
            ConvLayer(conv, width, hidden_channels, *around, *inside)
            for conv, width in zip(convs, widths, strict=True)
        )
        self.jumping = jumping

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        edge_state = graph.edge_attr
        total: Tensor | None = None
        for layer in cast(Iterable[ConvLayer], self.layers):
            x, edge_state = layer(x, graph, edge_state)
            total = x if total is None or not self.jumping else total + x
        assert total is not None
        return total


class FeatureEncoder(Module):
    r"""A linear map of the node features and one of the edge attributes; a model with edge states
    that has no attributes starts every edge from one learned vector.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        pre_linear: bool,
        dropout: float,
        edge_dim: int | None,
        edge_states: bool,
    ) -> None:
        super().__init__()
        check_positive(edge_dim=edge_dim)
        if not pre_linear and edge_dim not in (None, channels):
            raise ValueError(
                f"Expected edge attributes of the hidden width for pre_linear=False "
                f"(got edge_dim={edge_dim}, hidden_channels={channels})"
            )
        self.in_channels, self.edge_dim = in_channels, edge_dim
        self.node_lin = Linear(in_channels, channels) if pre_linear else None
        self.edge_lin = Linear(edge_dim, channels) if pre_linear and edge_dim is not None else None
        starts_edges = edge_states and edge_dim is None
        self.initial_edge = Parameter(torch.empty(channels)) if starts_edges else None
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        reset(self.node_lin)
        reset(self.edge_lin)
        if self.initial_edge is not None:
            torch.nn.init.normal_(self.initial_edge, std=0.1)

    def forward(
        self, x: Tensor, edge_attr: Tensor | None, num_edges: int
    ) -> tuple[Tensor, Tensor | None]:
        if x.dim() != 2 or x.size(1) != self.in_channels:
            raise ValueError(
                f"Expected 'x' of shape [num_nodes, in_channels={self.in_channels}] "
                f"(got {list(x.size())}); lay the elements of a sequence side by side"
            )
        if self.node_lin is not None:
            x = self.dropout(self.node_lin(x))
        if self.initial_edge is not None:
            return x, self.initial_edge.expand(num_edges, -1)
        if self.edge_dim is None:
            return x, None
        if edge_attr is None or edge_attr.size(-1) != self.edge_dim:
            got = None if edge_attr is None else list(edge_attr.size())
            raise ValueError(
                f"Expected 'edge_attr' of shape [num_edges, edge_dim={self.edge_dim}] (got {got})"
            )
        return x, edge_attr if self.edge_lin is None else self.edge_lin(edge_attr)


RESIDUALS = {
    "identity": "the input is added to the output",
    "linear": "a linear map of the input is added before the norm",
}


class ConvLayer(Module):
    r"""A convolution with residual, norm, activation, dropout and feed-forward part:

    .. math::
        \mathbf{x}' = \mathrm{FF}\left( [\mathbf{x} \, +] \, \mathrm{Dropout}\left( \sigma \left(
        \mathrm{Norm}\left( \mathrm{Conv}(\mathbf{x}) \, [+ \, \mathbf{R} \mathbf{x}] \right)
        \right) \right) \right),

    where the first bracket is the residual ``"identity"`` and the second ``"linear"``. The
    convolution gets edge weights, and edge states, if it declares them; one that returns a pair
    hands its second element to the next layer as the edge states.
    """

    def __init__(
        self,
        conv: Module,
        in_channels: int,
        channels: int,
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
        residual: str | None = None,
        feed_forward: bool = False,
        conv_normalizes: bool = False,
        added_edges: str | None = None,
    ) -> None:
        super().__init__()
        if residual is not None:
            choose("residual", residual, RESIDUALS)
        if residual == "identity" and in_channels != channels:
            raise ValueError(
                f"Expected equal widths for residual='identity' (got in_channels={in_channels}, "
                f"hidden_channels={channels}); use pre_linear=True or residual='linear'"
            )
        self.conv = conv
        self.call = BackboneCall.inspect(conv)
        self.skip_lin = Linear(in_channels, channels) if residual == "linear" else None
        self.adds_input = residual == "identity"
        self.added_edges = added_edges
        self.norm = None if conv_normalizes else build_norm(norm, channels)
        self.act = resolve_activation(act)
        self.dropout = Dropout(dropout)
        self.feed_forward = FeedForward(channels, act, norm, dropout) if feed_forward else None

    def reset_parameters(self) -> None:
        for child in self.children():
            reset_backbone(child)

    def forward(
        self, x: Tensor, graph: GraphInput, edge_state: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        # what is known as a linear map shares one matrix between layers, made without a wait
        linear = find_linear_map(self.conv, graph)
        if linear is not None:
            out = apply_linear_map(linear, x)
        else:
            keywords: dict[str, object] = {}
            if self.call.edge_weight:
                keywords["edge_weight"] = graph.edge_weight
            if self.call.edge_attr and edge_state is not None:
                keywords["edge_attr"] = edge_state
            if self.call.edge_order:
                keywords["edge_order"] = order_of(graph)
            out = convolve(self.conv, x, graph.edge_index, **keywords)
        if self.call.edge_state:
            out, edge_state = out
        if self.added_edges is not None and edge_state is not None:
            target = graph.edge_index[1]
            message = edge_state.to(value_type(edge_state.dtype))
            out = out + scatter(message, target, dim_size=x.size(0), reduce=self.added_edges)
        if self.skip_lin is not None:
            out = out + self.skip_lin(x)
        if self.norm is not None:
            out = normalize(self.norm, out, graph.batch, graph.batch_size)
        out = self.dropout(self.act(out))
        if self.adds_input:
            out = x + out
        if self.feed_forward is not None:
            out = self.feed_forward(out)
        return out, edge_state


class FeedForward(Module):
    r"""Two linear layers around a residual, normalised before and after, twice as wide between."""

    def __init__(
        self, channels: int, act: str | Activation | None, norm: NormLike, dropout: float
    ) -> None:
        super().__init__()
        self.lin1 = Linear(channels, 2 * channels)
        self.lin2 = Linear(2 * channels, channels)
        self.norm1 = build_norm(norm, channels)
        self.norm2 = build_norm(norm, channels)
        self.act = resolve_activation(act)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if self.norm1 is not None:
            x = normalize(self.norm1, x)
        hidden = self.dropout(self.act(self.lin1(x)))
        x = x + self.dropout(self.lin2(hidden))
        return x if self.norm2 is None else normalize(self.norm2, x)
