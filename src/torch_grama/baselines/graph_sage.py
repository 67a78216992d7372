"""GraphSAGE with mean aggregation."""

from __future__ import annotations

from torch_geometric.nn import SAGEConv

from torch_grama.baselines.layer_stack import LayerStack, first_and_later_widths
from torch_grama.nn.arguments import Activation
from torch_grama.nn.norms import NormLike


class GraphSAGE(LayerStack):
    r"""The model of `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_ on PyG's :class:`~torch_geometric.nn.SAGEConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathbf{W}_1 \mathbf{x}_i + \mathbf{W}_2 \,
        \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)} \mathbf{x}_j + \mathbf{b} \Big).

    .. note::
        The mean is over all neighbours; neighbour sampling, if any, is the loader's part. The
        paper's division by the norm of the output is left out.

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
    ) -> None:
        widths = first_and_later_widths(in_channels, hidden_channels, num_layers, pre_linear)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            [SAGEConv(width, hidden_channels) for width in widths],  # type: ignore[abstract]
            readout=readout,
            dropout=dropout,
            act=act,
            norm=norm,
            residual=residual,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
        )
