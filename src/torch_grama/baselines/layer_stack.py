"""Models between a feature encoder and a readout, and stacks of convolutions among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import ClassVar, Unpack, cast

import torch
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, Parameter
from torch_geometric.nn.inits import reset

from torch_grama.baselines.conv_layer import ConvLayer
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import GraphModel, ModelOptions
from torch_grama.nn.arguments import Activation, check_input_sizes, check_positive
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.norms import NormLike


class HeadOptions(ModelOptions, total=False):
    r"""Options of every :class:`EncodedModel`."""

    readout_layers: int


class EncodedOptions(HeadOptions, total=False):
    r"""And whether the features are encoded."""

    pre_linear: bool


class NormOptions(EncodedOptions, total=False):
    r"""And what lies around a convolution."""

    norm: NormLike
    residual: str | None


class StackOptions(NormOptions, total=False):
    r"""Options of a :class:`LayerStack`."""

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
        widths = (self.in_channels, self.hidden_channels)
        if self.keeps_width and not pre_linear and widths[0] != widths[1]:
            raise ValueError(
                f"Expected in_channels equal to hidden_channels for pre_linear=False, since the "
                f"layers of {type(self).__name__} keep their width (got {widths[0]} and "
                f"{widths[1]}); use pre_linear=True"
            )
        self.edge_dim = edge_dim
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
    r"""A stack of :class:`~torch_grama.baselines.conv_layer.ConvLayer` around convolutions.

    Args:
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
        build_conv (callable): Makes the convolution of a layer, of its input width, its output
            width, and whether it is the last; the first reads ``in_channels`` if ``pre_linear`` is
            :obj:`False`.
        act (str or callable, optional): The activation :math:`\sigma` of the layers; the readout
            uses the same, or ReLU for none.
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the first convolution reads the features.
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
        check_positive(
            in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers
        )
        first = hidden_channels if pre_linear else in_channels
        widths = [first] + [hidden_channels] * (num_layers - 1)
        convs = [
            build_conv(width, hidden_channels, layer == num_layers - 1)
            for layer, width in enumerate(widths)
        ]
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            pre_linear=pre_linear,
            act=act or "relu",
            edge_dim=edge_dim,
            **shared,
        )
        around = (act, norm, self.dropout, residual, feed_forward)
        inside = (self.conv_normalizes, self.added_edges)
        self.layers = ModuleList(
            [
                ConvLayer(conv, width, hidden_channels, *around, *inside)
                for conv, width in zip(convs, widths, strict=True)
            ]
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
    r"""A linear map of the node features and, for models with edge states, one of the edge
    attributes:

    .. math::
        \mathbf{x}_i \leftarrow \mathbf{W} \mathbf{x}_i + \mathbf{b}, \qquad
        \mathbf{e}_{ij} \leftarrow \mathbf{U} \mathbf{e}_{ij} + \mathbf{c}.

    A model with edge states that is given no edge attributes starts every edge from one learned
    vector.

    Shapes:
        - **input:** node features :math:`(N, C)`, edge attributes :math:`(E, D)` *(optional)*,
          number of edges
        - **output:** node states :math:`(N, F)`, edge states :math:`(E, F)` or :obj:`None`
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        pre_linear: bool = True,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        edge_states: bool = False,
    ) -> None:
        super().__init__()
        check_positive(in_channels=in_channels, hidden_channels=channels, edge_dim=edge_dim)
        check_input_sizes(in_channels, dropout)
        if not pre_linear and edge_dim not in (None, channels):
            raise ValueError(
                f"Expected edge attributes of the hidden width for pre_linear=False "
                f"(got edge_dim={edge_dim}, hidden_channels={channels})"
            )
        self.in_channels = in_channels
        self.channels = channels
        self.edge_dim = edge_dim
        self.node_lin = Linear(in_channels, channels) if pre_linear else None
        self.edge_lin = Linear(edge_dim, channels) if pre_linear and edge_dim is not None else None
        self.initial_edge = (
            Parameter(torch.empty(channels)) if edge_states and edge_dim is None else None
        )
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.channels})"
