"""The gated graph convolutional network with edge states."""

from __future__ import annotations

from torch_grama.baselines.layer_stack import LayerStack, require_hidden_width
from torch_grama.nn.arguments import Activation, check_positive
from torch_grama.nn.gated_gcn_conv import GatedGCNConv


class GatedGCN(LayerStack):
    r"""The model of `"Residual Gated Graph ConvNets" <https://arxiv.org/abs/1711.07553>`_ in the
    form of `"Benchmarking Graph Neural Networks" <https://arxiv.org/abs/2003.00982>`_, on
    :class:`~torch_grama.nn.GatedGCNConv`:

    .. math::
        \hat{\mathbf{e}}_{ij} &= \mathbf{C} \mathbf{e}_{ij} + \mathbf{D} \mathbf{x}_i +
        \mathbf{E} \mathbf{x}_j, \qquad
        \mathbf{x}'_i = \mathbf{x}_i + \sigma \left( \mathrm{BN}\left( \mathbf{A} \mathbf{x}_i +
        \frac{\sum_j s(\hat{\mathbf{e}}_{ij}) \odot \mathbf{B} \mathbf{x}_j}
        {\sum_j s(\hat{\mathbf{e}}_{ij}) + 10^{-6}} \right) \right), \\
        \mathbf{e}'_{ij} &= \mathbf{e}_{ij} + \mathrm{ReLU}(\mathrm{BN}(\hat{\mathbf{e}}_{ij})),

    where :math:`s` is the logistic function.

    .. note::
        Dropout falls on the nodes alone, and :math:`\mathbf{C}` has no bias of its own, which
        those of :math:`\mathbf{D}` and :math:`\mathbf{E}` make superfluous. With 5 layers of
        width 138, embedded atoms and bonds, and one linear layer as readout, this is the GatedGCN
        of the `Long Range Graph Benchmark <https://arxiv.org/abs/2206.08164>`_ (509,368
        parameters there).

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
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the features must have that width already. (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`2`)
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
        pre_linear: bool = True,
        readout_layers: int = 2,
        edge_dim: int | None = None,
    ) -> None:
        require_hidden_width("GatedGCN", in_channels, hidden_channels, pre_linear)
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
            pre_linear=pre_linear,
            readout_layers=readout_layers,
            edge_dim=edge_dim,
            edge_states=True,
        )
