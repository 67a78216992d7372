"""Graph convolutions with ARMA filters."""

from __future__ import annotations

from torch_geometric.nn import ARMAConv

from torch_grama.baselines.layer_stack import LayerStack, first_and_later_widths
from torch_grama.nn.arguments import Activation, check_positive, resolve_activation
from torch_grama.nn.norms import NormLike


class ARMA(LayerStack):
    r"""The model of `"Graph Neural Networks with Convolutional ARMA Filters"
    <https://arxiv.org/abs/1901.01343>`_ on PyG's :class:`~torch_geometric.nn.ARMAConv`:

    .. math::
        \mathbf{X}' = \frac{1}{K} \sum_{k=1}^K \mathbf{X}_k^{(T)}, \qquad
        \mathbf{X}_k^{(t+1)} = \sigma \left( \hat{\mathbf{L}} \mathbf{X}_k^{(t)} \mathbf{W}_k +
        \mathbf{X} \mathbf{V}_k + \mathbf{b}_k \right), \qquad
        \hat{\mathbf{L}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}.

    Its ARMA filter runs over the hops of the graph; that of :class:`~torch_grama.nn.GRAMA` runs
    over a sequence of states.

    .. note::
        The activation is that of the operator, applied before the norm if there is one. Dropout
        falls on the skip term :math:`\mathbf{X} \mathbf{V}_k`, as in the paper, and after the
        layer.

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
        num_stacks (int, optional): Number :math:`K` of parallel stacks. (default: :obj:`2`)
        stack_layers (int, optional): Number :math:`T` of steps of each stack, and so of hops of a
            layer. (default: :obj:`2`)
        shared_weights (bool, optional): Whether the steps of a stack share their weights.
            (default: :obj:`True`)
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
        num_stacks: int = 2,
        stack_layers: int = 2,
        shared_weights: bool = True,
    ) -> None:
        check_positive(num_stacks=num_stacks, stack_layers=stack_layers)
        widths = first_and_later_widths(in_channels, hidden_channels, num_layers, pre_linear)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            [
                _conv(
                    width, hidden_channels, num_stacks, stack_layers, shared_weights, act, dropout
                )
                for width in widths
            ],
            readout=readout,
            dropout=dropout,
            act=None,
            norm=norm,
            residual=residual,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
        )


def _conv(
    in_channels: int,
    channels: int,
    num_stacks: int,
    num_layers: int,
    shared_weights: bool,
    act: str | Activation | None,
    dropout: float,
) -> ARMAConv:
    conv = ARMAConv(  # type: ignore[abstract]
        in_channels,
        channels,
        num_stacks=num_stacks,
        num_layers=num_layers,
        shared_weights=shared_weights,
        act=resolve_activation(act),
        dropout=dropout,
    )
    if num_layers == 1:
        # PyG keeps a weight for the steps after the first even if there are none
        conv.register_parameter("weight", None)
    return conv
