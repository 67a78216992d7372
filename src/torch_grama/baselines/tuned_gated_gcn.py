"""The gated graph convolutional network with the recipes of the strong baselines."""

from __future__ import annotations

from torch_grama.baselines.layer_stack import LayerStack, require_hidden_width
from torch_grama.nn.arguments import Activation, check_positive
from torch_grama.nn.gated_gcn_conv import GatedGCNConv


class TunedGatedGCN(LayerStack):
    r"""The gated graph convolutional network with the recipes of `"Classic GNNs are
    Strong Baselines" <https://arxiv.org/abs/2406.08993>`_ and `"Can Classic GNNs Be Strong
    Baselines for Graph-level Tasks?" <https://arxiv.org/abs/2502.09263>`_:

    .. math::
        \mathbf{x}'_i = \mathbf{x}_i + \mathrm{Dropout} ( \sigma ( \mathrm{BN} (
        \mathrm{GatedGCN}(\mathbf{x}, \mathbf{e})_i ) ) ),

    with the gates and edge states of :class:`~torch_grama.baselines.GatedGCN`.

    .. note::
        The two recipes differ, and options say which one is meant. Node tasks (Luo et al., 2024):
        ``residual="linear"``, layer or batch norm, dropout, one linear layer as readout. Graph
        tasks (Luo et al., 2025): ``residual="identity"``, batch norm, dropout, often
        ``feed_forward=True``, edge attributes and positional encodings. The first paper has no
        gated network. The feed-forward part is normalised as the layer is. Graphs are read out by
        their mean, where the second paper takes the sum or the maximum for some data sets.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
            (default: :obj:`0.0`)
        act (str or callable, optional): The activation :math:`\sigma`. (default: :obj:`"relu"`)
        norm (str, optional): ``"batch_norm"``, for nodes and edges, or :obj:`None`.
            (default: :obj:`"batch_norm"`)
        residual (str, optional): ``"identity"``, ``"linear"`` or :obj:`None`; see
            :class:`~torch_grama.baselines.conv_layer.ConvLayer`. (default: :obj:`"identity"`)
        feed_forward (bool, optional): Whether a feed-forward part follows each convolution.
            (default: :obj:`False`)
        jumping (bool, optional): Whether the readout gets the sum of all layers' outputs instead
            of the last. (default: :obj:`False`)
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the features must have that width already. (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`1`)
        edge_dim (int, optional): Width of the edge attributes; without, every edge starts from one
            learned vector. (default: :obj:`None`)
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
        norm: str | None = "batch_norm",
        residual: str | None = "identity",
        feed_forward: bool = False,
        jumping: bool = False,
        pre_linear: bool = True,
        readout_layers: int = 1,
        edge_dim: int | None = None,
    ) -> None:
        require_hidden_width("TunedGatedGCN", in_channels, hidden_channels, pre_linear)
        check_positive(hidden_channels=hidden_channels, num_layers=num_layers)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            [
                GatedGCNConv(
                    hidden_channels,
                    has_edge_attr=True,
                    norm=norm,
                    # nobody reads the edges of the last layer
                    edge_state="block" if layer < num_layers - 1 else "none",
                )
                for layer in range(num_layers)
            ],
            readout=readout,
            dropout=dropout,
            act=act,
            norm=norm,
            conv_normalizes=True,
            residual=residual,
            feed_forward=feed_forward,
            jumping=jumping,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
            edge_dim=edge_dim,
            edge_states=True,
        )
