"""The graph attention network."""

from __future__ import annotations

from torch_geometric.nn import GATConv

from torch_grama.baselines.layer_stack import LayerStack, first_and_later_widths
from torch_grama.nn.arguments import Activation
from torch_grama.nn.norms import NormLike


class GAT(LayerStack):
    r"""The model of `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_ on PyG's
    :class:`~torch_geometric.nn.GATConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \sum_{j \in \mathcal{N}(i) \cup \{i\}} \alpha_{ij} \,
        \mathbf{W} \mathbf{x}_j \Big), \qquad
        \alpha_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}_{0.2} \left( \mathbf{a}^{\top}
        [ \mathbf{W} \mathbf{x}_i \, \Vert \, \mathbf{W} \mathbf{x}_j ] \right).

    .. note::
        The activation is that of the other models (the paper's is ELU), and attention weights are
        not dropped out.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
            (default: :obj:`0.0`)
        act (str or callable, optional): The activation :math:`\sigma`. (default: :obj:`"relu"`)
        norm (str or callable, optional): ``"batch_norm"``, ``"layer_norm"``, a callable from the
            number of channels to a module, or :obj:`None`. (default: :obj:`None`)
        residual (str, optional): ``"identity"``, ``"linear"`` or :obj:`None`; see
            :class:`~torch_grama.baselines.conv_layer.ConvLayer`. (default: :obj:`None`)
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the first convolution reads the features. (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`2`)
        heads (int, optional): Number of attention heads, whose outputs lie side by side.
            (default: :obj:`1`)
        edge_dim (int, optional): Width of the edge attributes, which then take part in the
            attention. (default: :obj:`None`)
    """

    takes_edge_weight: bool = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        readout: str = "node",
        dropout: float = 0.0,
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        residual: str | None = None,
        pre_linear: bool = True,
        readout_layers: int = 2,
        heads: int = 1,
        edge_dim: int | None = None,
    ) -> None:
        widths = first_and_later_widths(in_channels, hidden_channels, num_layers, pre_linear)
        edge_width = None if edge_dim is None else hidden_channels
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            [attention_conv(width, hidden_channels, heads, edge_width) for width in widths],
            readout=readout,
            dropout=dropout,
            act=act,
            norm=norm,
            residual=residual,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
            edge_dim=edge_dim,
        )


def attention_conv(
    in_channels: int, channels: int, heads: int, edge_dim: int | None = None
) -> GATConv:
    r"""Returns an attention whose heads together have the given width."""
    if heads < 1 or channels % heads != 0:
        raise ValueError(
            f"Expected 'heads' to divide hidden_channels (got heads={heads}, "
            f"hidden_channels={channels})"
        )
    return GATConv(  # type: ignore[abstract]
        in_channels, channels // heads, heads=heads, edge_dim=edge_dim
    )
