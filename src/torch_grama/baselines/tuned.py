"""Classic message-passing models with the recipes of the strong baselines."""

from __future__ import annotations

from typing import Any, ClassVar

from torch_geometric.nn import GCNConv, SAGEConv

from torch_grama.baselines.conv_layer import add_edge_states
from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import LayerStack, first_and_later_widths
from torch_grama.baselines.message_passing import attention_conv, gated_convs
from torch_grama.nn.arguments import Activation
from torch_grama.nn.norms import NormLike


class TunedStack(LayerStack):
    r"""A stack of one kind of convolution with the recipes of :class:`TunedGCN`.

    Args:
        edge_dim (int, optional): Width of the edge attributes, which are then encoded, by one map
            for all layers, and added to the messages.
    """

    conv_class: ClassVar[type[Any]]
    reduce: ClassVar[str]

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
        edge_dim: int | None = None,
    ) -> None:
        widths = first_and_later_widths(in_channels, hidden_channels, num_layers, pre_linear)
        convs = [
            add_edge_states(self.conv_class(width, hidden_channels), self.reduce, edge_dim)
            for width in widths
        ]
        first = (in_channels, hidden_channels, out_channels, convs, readout, dropout, act, norm)
        super().__init__(
            *first, residual, pre_linear, readout_layers, edge_dim, feed_forward, jumping
        )


class TunedGCN(TunedStack):
    r"""The graph convolutional network with the recipes of `"Classic GNNs are
    Strong Baselines" <https://arxiv.org/abs/2406.08993>`_ and `"Can Classic GNNs Be Strong
    Baselines for Graph-level Tasks?" <https://arxiv.org/abs/2502.09263>`_:

    .. math::
        \mathbf{x}'_i = \mathrm{Dropout} \Big( \sigma \Big( \mathrm{Norm} \Big(
        \sum_j \hat{a}_{ij} \mathbf{W} \mathbf{x}_j + \sum_j \mathbf{e}_{ij} + \mathbf{b} +
        \mathbf{R} \mathbf{x}_i \Big) \Big) \Big).

    .. note::
        The two recipes differ, and options say which one is meant. Node tasks (Luo et al., 2024):
        ``residual="linear"``, layer or batch norm, dropout, one linear layer as readout. Graph
        tasks (Luo et al., 2025): ``residual="identity"``, batch norm, dropout, often
        ``feed_forward=True``, edge attributes and positional encodings.

        Encoded edge attributes are added inside the sum, which is how we read the second paper,
        without the factor :math:`\hat{a}_{ij}`.
    """

    card = Card(
        equation="x_i' = Dropout(act(BN(sum_j a_ij W x_j + sum_j e_ij + b + R x_i)))",
        reference="Luo et al., Classic GNNs are Strong Baselines, 2024, and Can Classic GNNs Be "
        "Strong Baselines for Graph-level Tasks?, 2025",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCNConv",
        takes_edge_attr=True,
        departures=(
            "Edge attributes are added to each message; the second paper's released layer applies "
            "ReLU to it and drops the factor a_ij.",
            "Graphs are read out by their mean unless pooling says otherwise; the recipe takes "
            "sum or maximum for some data sets.",
        ),
    )

    conv_class = GCNConv
    reduce = "sum"


class TunedSAGE(TunedStack):
    r"""GraphSAGE with mean aggregation with the recipes of `"Classic GNNs are
    Strong Baselines" <https://arxiv.org/abs/2406.08993>`_ and `"Can Classic GNNs Be Strong
    Baselines for Graph-level Tasks?" <https://arxiv.org/abs/2502.09263>`_:

    .. math::
        \mathbf{x}'_i = \mathrm{Dropout} \Big( \sigma \Big( \mathrm{Norm} \Big(
        \mathbf{W}_1 \mathbf{x}_i + \frac{1}{|\mathcal{N}(i)|} \sum_j (\mathbf{W}_2 \mathbf{x}_j +
        \mathbf{e}_{ij}) + \mathbf{b} + \mathbf{R} \mathbf{x}_i \Big) \Big) \Big).

    .. note::
        For the two recipes see :class:`TunedGCN`.
    """

    card = Card(
        equation="x_i' = Dropout(act(BN(W1 x_i + mean_j (W2 x_j + e_ij) + b + R x_i)))",
        reference="Luo et al., Classic GNNs are Strong Baselines, 2024, and Can Classic GNNs Be "
        "Strong Baselines for Graph-level Tasks?, 2025",
        cost="N F^2 + E F",
        source="torch_geometric.nn.SAGEConv",
        takes_edge_attr=True,
        departures=(
            "The mean is over the neighbours; the released code adds self-loops to the graph.",
            "The second paper has no GraphSAGE; edge attributes are added as for GCN.",
            "Graphs are read out by their mean unless pooling says otherwise; the recipe takes "
            "sum or maximum for some data sets.",
        ),
    )

    takes_edge_weight: bool = False
    conv_class = SAGEConv
    reduce = "mean"


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
        For the two recipes see :class:`TunedGCN`.

    Args:
        heads (int, optional): Number of attention heads, whose outputs lie side by side.
        edge_dim (int, optional): Width of the edge attributes, which then take part in the
            attention.
    """

    card = Card(
        equation="x_i' = Dropout(act(BN(sum_j alpha_ij W x_j + b + R x_i)))",
        reference="Luo et al., Classic GNNs are Strong Baselines, 2024, and Can Classic GNNs Be "
        "Strong Baselines for Graph-level Tasks?, 2025",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GATConv",
        takes_edge_attr=True,
        departures=(
            "The second paper has no GAT; edge attributes take part in the attention.",
            "Graphs are read out by their mean unless pooling says otherwise; the recipe takes "
            "sum or maximum for some data sets.",
        ),
    )

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
        convs = [attention_conv(width, hidden_channels, heads, edge_width) for width in widths]
        first = (in_channels, hidden_channels, out_channels, convs, readout, dropout, act, norm)
        super().__init__(
            *first, residual, pre_linear, readout_layers, edge_dim, feed_forward, jumping
        )


class TunedGatedGCN(LayerStack):
    r"""The gated graph convolutional network with the recipes of `"Classic GNNs are
    Strong Baselines" <https://arxiv.org/abs/2406.08993>`_ and `"Can Classic GNNs Be Strong
    Baselines for Graph-level Tasks?" <https://arxiv.org/abs/2502.09263>`_:

    .. math::
        \mathbf{x}'_i = \mathbf{x}_i + \mathrm{Dropout} ( \sigma ( \mathrm{BN} (
        \mathrm{GatedGCN}(\mathbf{x}, \mathbf{e})_i ) ) ),

    with the gates and edge states of :class:`~torch_grama.baselines.GatedGCN`.

    .. note::
        For the two recipes see :class:`TunedGCN`. The first paper has no gated network. The
        feed-forward part is normalised as the layer is.

    Args:
        norm (str, optional): ``"batch_norm"``, for nodes and edges, or :obj:`None`.
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the features must have that width already.
        edge_dim (int, optional): Width of the edge attributes; without, every edge starts from one
            learned vector.
    """

    card = Card(
        equation="x_i' = x_i + Dropout(act(BN(GatedGCN(x, e)_i)))",
        reference="Luo et al., Classic GNNs are Strong Baselines, 2024, and Can Classic GNNs Be "
        "Strong Baselines for Graph-level Tasks?, 2025",
        cost="(N + E) F^2",
        source="torch_grama.nn.GatedGCNConv",
        takes_edge_attr=True,
        departures=(
            "Dropout falls on the nodes alone.",
            "Graphs are read out by their mean unless pooling says otherwise; the recipe takes "
            "sum or maximum for some data sets.",
        ),
    )

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
        convs = gated_convs(hidden_channels, num_layers, norm)
        first = (in_channels, hidden_channels, out_channels, convs, readout, dropout, act, norm)
        super().__init__(
            *first,
            residual,
            pre_linear,
            readout_layers,
            edge_dim,
            feed_forward,
            jumping,
            conv_normalizes=True,
            edge_states=True,
        )
