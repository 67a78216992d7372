"""The graph convolutional network."""

from __future__ import annotations

from torch_geometric.nn import GCNConv

from torch_grama.baselines.layer_stack import LayerStack, first_and_later_widths
from torch_grama.nn.arguments import Activation
from torch_grama.nn.norms import NormLike


class GCN(LayerStack):
    r"""The model of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_ on PyG's :class:`~torch_geometric.nn.GCNConv`:

    .. math::
        \mathbf{X}' = \sigma ( \hat{\mathbf{A}} \mathbf{X} \mathbf{W} + \mathbf{b} ), \qquad
        \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2},

    where :math:`\tilde{\mathbf{D}}` holds the row sums of :math:`\mathbf{A} + \mathbf{I}`.

    .. note::
        The paper has two layers and no other readout than the last one. Here an encoder and a
        readout MLP lie around the layers, as around those of all models it is compared with.

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
    """

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
    ) -> None:
        widths = first_and_later_widths(in_channels, hidden_channels, num_layers, pre_linear)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            [GCNConv(width, hidden_channels) for width in widths],  # type: ignore[abstract]
            readout=readout,
            dropout=dropout,
            act=act,
            norm=norm,
            residual=residual,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
        )
