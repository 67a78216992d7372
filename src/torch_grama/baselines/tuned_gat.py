"""The graph attention network with the recipes of the strong baselines."""

from __future__ import annotations

from torch_grama.baselines.gat import attention_conv
from torch_grama.baselines.layer_stack import LayerStack, first_and_later_widths
from torch_grama.nn.arguments import Activation
from torch_grama.nn.norms import NormLike


class TunedGAT(LayerStack):
    r"""The graph attention network with the recipes of `"Classic GNNs are
    Strong Baselines" <https://arxiv.org/abs/2406.08993>`_ and `"Can Classic GNNs Be Strong
    Baselines for Graph-level Tasks?" <https://arxiv.org/abs/2502.09263>`_:

    .. math::
        \mathbf{x}'_i = \mathrm{Dropout} \Big( \sigma \Big( \mathrm{Norm} \Big(
        \sum_j \alpha_{ij} \mathbf{W} \mathbf{x}_j + \mathbf{b} + \mathbf{R} \mathbf{x}_i \Big)
        \Big) \Big),

    with the attention of :class:`~torch_grama.baselines.GAT`.

    .. note::
        The two recipes differ, and options say which one is meant. Node tasks (Luo et al., 2024):
        ``residual="linear"``, layer or batch norm, dropout, one linear layer as readout. Graph
        tasks (Luo et al., 2025): ``residual="identity"``, batch norm, dropout, often
        ``feed_forward=True``, edge attributes and positional encodings. The second paper has no
        graph attention network. Graphs are read out by their mean, where the second paper takes the
        sum or the maximum for some data sets.

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
            number of channels to a module, or :obj:`None`. (default: :obj:`"batch_norm"`)
        residual (str, optional): ``"identity"``, ``"linear"`` or :obj:`None`; see
            :class:`~torch_grama.baselines.conv_layer.ConvLayer`. (default: :obj:`"linear"`)
        feed_forward (bool, optional): Whether a feed-forward part follows each convolution.
            (default: :obj:`False`)
        jumping (bool, optional): Whether the readout gets the sum of all layers' outputs instead
            of the last. (default: :obj:`False`)
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the first convolution reads the features. (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`1`)
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
        norm: NormLike = "batch_norm",
        residual: str | None = "linear",
        feed_forward: bool = False,
        jumping: bool = False,
        pre_linear: bool = True,
        readout_layers: int = 1,
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
            feed_forward=feed_forward,
            jumping=jumping,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
            edge_dim=edge_dim,
        )
