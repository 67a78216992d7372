"""One layer of a message-passing model: a convolution and what the recipes put around it."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Dropout, Linear, Module
from torch_geometric.utils import scatter

from torch_grama.baselines.products import apply_linear_map
from torch_grama.nn.arguments import Activation, choose, resolve_activation
from torch_grama.nn.backbone import BackboneCall, order_of
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import find_linear_map
from torch_grama.nn.norms import NormLike, build_norm, normalize

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

    Shapes:
        - **input:** node states :math:`(N, F_{in})`, edge states :math:`(E, F)` or :obj:`None`
        - **output:** node states :math:`(N, F)`, edge states :math:`(E, F)` or :obj:`None`
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

    def forward(
        self, x: Tensor, graph: GraphInput, edge_state: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        keywords: dict[str, object] = {}
        if self.call.edge_weight:
            keywords["edge_weight"] = graph.edge_weight
        if self.call.edge_attr and edge_state is not None:
            keywords["edge_attr"] = edge_state
        if self.call.edge_order:
            keywords["edge_order"] = order_of(graph)
        # what is known as a linear map shares one matrix between layers, made without a wait
        linear = find_linear_map(self.conv, graph)
        if linear is None:
            out = self.conv(x, graph.edge_index, **keywords)
        else:
            out = apply_linear_map(linear, x)
        if self.call.edge_state:
            out, edge_state = out
        if self.added_edges is not None and edge_state is not None:
            target = graph.edge_index[1]
            out = out + scatter(edge_state, target, dim_size=x.size(0), reduce=self.added_edges)
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
    r"""Two linear layers around a residual, normalised before and after:

    .. math::
        \mathbf{h} = \mathrm{Norm}(\mathbf{x}), \qquad
        \mathbf{x}' = \mathrm{Norm}\left( \mathbf{h} + \mathbf{W}_2 \, \sigma(\mathbf{W}_1
        \mathbf{h}) \right),

    with a hidden layer of twice the width, and dropout after each linear layer.
    """

    def __init__(
        self,
        channels: int,
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
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
