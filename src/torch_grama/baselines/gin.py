"""The graph isomorphism network, without and with edge attributes."""

from __future__ import annotations

from itertools import pairwise

from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.nn import GINConv, GINEConv

from torch_grama.baselines.layer_stack import (
    LayerStack,
    first_and_later_widths,
    require_hidden_width,
)
from torch_grama.nn.arguments import Activation, check_positive
from torch_grama.nn.neighbor_convs import build_aggregation
from torch_grama.nn.norms import NormLike


class GIN(LayerStack):
    r"""The model of `"How Powerful are Graph Neural Networks?"
    <https://arxiv.org/abs/1810.00826>`_ on PyG's :class:`~torch_geometric.nn.GINConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathrm{MLP} \Big( (1 + \epsilon) \, \mathbf{x}_i +
        \sum_{j \in \mathcal{N}(i)} \mathbf{x}_j \Big) \Big).

    .. note::
        The paper's batch norm inside each MLP is left out (``norm="batch_norm"`` puts one after
        it), and the readout is that of the other models, not the concatenation of all layers.

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
        mlp_layers (int, optional): Linear layers of each MLP. (default: :obj:`2`)
        train_eps (bool, optional): Whether :math:`\epsilon`, which starts at zero, is learned.
            (default: :obj:`True`)
        aggregation (str, optional): ``"sum"``, or ``"multi"`` for a linear map of sum, mean,
            maximum and minimum in its place. (default: :obj:`"sum"`)
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
        mlp_layers: int = 2,
        train_eps: bool = True,
        aggregation: str = "sum",
    ) -> None:
        widths = first_and_later_widths(in_channels, hidden_channels, num_layers, pre_linear)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            [
                GINConv(  # type: ignore[abstract]
                    _mlp(width, hidden_channels, mlp_layers),
                    train_eps=train_eps,
                    aggr=build_aggregation(aggregation, width),
                )
                for width in widths
            ],
            readout=readout,
            dropout=dropout,
            act=act,
            norm=norm,
            residual=residual,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
        )


class GINE(LayerStack):
    r"""The model of `"Strategies for Pre-training Graph Neural Networks"
    <https://arxiv.org/abs/1905.12265>`_, :class:`GIN` with edge attributes, on PyG's
    :class:`~torch_geometric.nn.GINEConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathrm{MLP} \Big( (1 + \epsilon) \, \mathbf{x}_i +
        \sum_{j \in \mathcal{N}(i)} \mathrm{ReLU}(\mathbf{x}_j + \mathbf{e}_{ij}) \Big) \Big).

    .. note::
        Edge attributes are encoded once, by one map that all layers share. With 5 layers of width
        208, embedded atoms and bonds, and one linear layer as readout, this is the GINE of the
        `Long Range Graph Benchmark <https://arxiv.org/abs/2206.08164>`_ (475,498 parameters).

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
            the features must have that width already. (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`2`)
        mlp_layers (int, optional): Linear layers of each MLP. (default: :obj:`2`)
        train_eps (bool, optional): Whether :math:`\epsilon`, which starts at zero, is learned.
            (default: :obj:`False`)
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
        norm: NormLike = None,
        residual: str | None = None,
        pre_linear: bool = True,
        readout_layers: int = 2,
        mlp_layers: int = 2,
        train_eps: bool = False,
        edge_dim: int | None = None,
    ) -> None:
        require_hidden_width("GINE", in_channels, hidden_channels, pre_linear)
        check_positive(num_layers=num_layers)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            [
                GINEConv(  # type: ignore[abstract]
                    _mlp(hidden_channels, hidden_channels, mlp_layers), train_eps=train_eps
                )
                for _ in range(num_layers)
            ],
            readout=readout,
            dropout=dropout,
            act=act,
            norm=norm,
            residual=residual,
            pre_linear=pre_linear,
            readout_layers=readout_layers,
            edge_dim=edge_dim,
            edge_states=True,
        )


def _mlp(in_channels: int, channels: int, num_layers: int) -> Sequential:
    check_positive(mlp_layers=num_layers)
    modules: list[Module] = []
    for pair in pairwise([in_channels] + [channels] * num_layers):
        modules += [Linear(*pair), ReLU()]
    return Sequential(*modules[:-1])
