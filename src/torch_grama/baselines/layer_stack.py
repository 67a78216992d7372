"""Layers one after the other: the body of the classic message-passing models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from torch import Tensor
from torch.nn import Module, ModuleList

from torch_grama.baselines.conv_layer import ConvLayer
from torch_grama.baselines.feature_encoder import FeatureEncoder
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import GraphModel
from torch_grama.nn.arguments import Activation, check_positive
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.norms import NormLike


class LayerStack(GraphModel):
    r"""A stack of :class:`~torch_grama.baselines.conv_layer.ConvLayer` around given convolutions,
    between an encoder and a readout.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        convs (list of Module): One convolution a layer; the first reads ``in_channels`` if
            ``pre_linear`` is :obj:`False`.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
            (default: :obj:`0.0`)
        act (str or callable, optional): Activation of the layers; the readout uses the same, or
            ReLU for none. (default: :obj:`"relu"`)
        norm (str or callable, optional): ``"batch_norm"``, ``"layer_norm"``, a callable, or
            :obj:`None`. (default: :obj:`None`)
        residual (str, optional): ``"identity"``, ``"linear"`` or :obj:`None`.
            (default: :obj:`None`)
        feed_forward (bool, optional): Whether a feed-forward part follows each convolution.
            (default: :obj:`False`)
        jumping (bool, optional): Whether the readout gets the sum of all layers' outputs instead
            of the last. (default: :obj:`False`)
        pre_linear (bool, optional): Whether a linear map comes before the first layer.
            (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`2`)
        edge_dim (int, optional): Width of the edge attributes. (default: :obj:`None`)
        edge_states (bool, optional): Whether the convolutions need edge states even where there
            are no edge attributes. (default: :obj:`False`)
        conv_normalizes (bool, optional): Whether the convolutions hold the norm, so that only the
            feed-forward part needs one. (default: :obj:`False`)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        convs: Sequence[Module],
        *,
        readout: str = "node",
        dropout: float = 0.0,
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        residual: str | None = None,
        feed_forward: bool = False,
        jumping: bool = False,
        pre_linear: bool = True,
        readout_layers: int = 2,
        edge_dim: int | None = None,
        edge_states: bool = False,
        conv_normalizes: bool = False,
    ) -> None:
        check_positive(num_layers=len(convs))
        super().__init__(
            FeatureEncoder(
                in_channels, hidden_channels, pre_linear, dropout, edge_dim, edge_states
            ),
            GraphHead(
                hidden_channels, out_channels, readout, readout_layers, act or "relu", dropout
            ),
        )
        widths = first_and_later_widths(in_channels, hidden_channels, len(convs), pre_linear)
        self.layers = ModuleList(
            [
                ConvLayer(
                    conv,
                    width,
                    hidden_channels,
                    act,
                    norm,
                    dropout,
                    residual,
                    feed_forward,
                    conv_normalizes,
                )
                for conv, width in zip(convs, widths, strict=True)
            ]
        )
        self.jumping = jumping

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the layers."""
        edge_state = graph.edge_attr
        total: Tensor | None = None
        for layer in cast(Iterable[ConvLayer], self.layers):
            x, edge_state = layer(x, graph, edge_state)
            total = x if total is None or not self.jumping else total + x
        assert total is not None
        return total

    def _describe(self) -> str:
        return f", num_layers={len(self.layers)}"


def first_and_later_widths(
    in_channels: int, hidden_channels: int, num_layers: int, pre_linear: bool
) -> list[int]:
    r"""Returns the input width of each layer."""
    check_positive(in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers)
    first = hidden_channels if pre_linear else in_channels
    return [first] + [hidden_channels] * (num_layers - 1)


def require_hidden_width(name: str, in_channels: int, hidden_channels: int, linear: bool) -> None:
    r"""Checks that a model whose layers keep their width gets features of that width."""
    if not linear and in_channels != hidden_channels:
        raise ValueError(
            f"Expected in_channels equal to hidden_channels for pre_linear=False, since the layers "
            f"of {name} keep their width (got {in_channels} and {hidden_channels}); use "
            f"pre_linear=True"
        )
