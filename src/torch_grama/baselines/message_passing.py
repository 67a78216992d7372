"""The classic message-passing models: one convolution of PyG, or of this package, a layer."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Unpack

from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.nn import ARMAConv, GATConv, GCNConv, GINConv, GINEConv, SAGEConv

from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import ActOptions, LayerStack, NormOptions, StackOptions
from torch_grama.nn.arguments import Activation, check_positive, resolve_activation
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.neighbor_convs import build_aggregation


class GCN(LayerStack):
    r"""Graph convolutions:

    .. math::
        \mathbf{X}' = \sigma ( \hat{\mathbf{A}} \mathbf{X} \mathbf{W} + \mathbf{b} ), \qquad
        \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2},

    where :math:`\tilde{\mathbf{D}}` holds the row sums of :math:`\mathbf{A} + \mathbf{I}`.
    """

    card = Card(
        equation="X' = act(A_hat X W + b)",
        reference="Kipf and Welling, Semi-Supervised Classification with Graph Convolutional "
        "Networks, 2017 (arXiv:1609.02907)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCNConv",
        departures=("An encoder and a readout MLP lie around the layers, as in all models here.",),
    )

    def __init__(self, *sizes: int, **shared: Unpack[StackOptions]) -> None:
        super().__init__(*sizes, build_conv=build_gcn_conv, **shared)


def build_gcn_conv(in_channels: int, channels: int, is_last: bool) -> GCNConv:
    r"""Returns a graph convolution for any layer."""
    return GCNConv(in_channels, channels)  # type: ignore[abstract]


class GraphSAGE(LayerStack):
    r"""Means over the neighbours:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathbf{W}_1 \mathbf{x}_i + \mathbf{W}_2 \,
        \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)} \mathbf{x}_j + \mathbf{b} \Big).
    """

    card = Card(
        equation="x_i' = act(W1 x_i + W2 mean_j x_j + b)",
        reference="Hamilton et al., Inductive Representation Learning on Large Graphs, 2017 "
        "(arXiv:1706.02216)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.SAGEConv",
        departures=(
            "The mean is over all neighbours.",
            "States are not divided by their norm.",
        ),
    )
    takes_edge_weight: bool = False

    def __init__(self, *sizes: int, **shared: Unpack[StackOptions]) -> None:
        super().__init__(*sizes, build_conv=build_sage_conv, **shared)


def build_sage_conv(in_channels: int, channels: int, is_last: bool) -> SAGEConv:
    r"""Returns a mean over neighbours for any layer."""
    return SAGEConv(in_channels, channels)  # type: ignore[abstract]


class GAT(LayerStack):
    r"""Attention to the neighbours:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \sum_{j \in \mathcal{N}(i) \cup \{i\}} \alpha_{ij} \,
        \mathbf{W} \mathbf{x}_j \Big), \qquad
        \alpha_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}_{0.2} \left( \mathbf{a}^{\top}
        [ \mathbf{W} \mathbf{x}_i \, \Vert \, \mathbf{W} \mathbf{x}_j ] \right).

    Args:
        heads (int, optional): Number of attention heads, whose outputs lie side by side.
        edge_dim (int, optional): Width of the edge attributes, which then take part in the
            attention.
    """

    card = Card(
        equation="x_i' = act(sum_j softmax_j(LeakyReLU(a [W x_i, W x_j])) W x_j + b)",
        reference="Velickovic et al., Graph Attention Networks, 2018 (arXiv:1710.10903)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GATConv",
        departures=(
            "An encoder and a readout MLP lie around the layers, as in all models here.",
            "The activation is that of the other models; the paper's is ELU.",
            "Attention weights are not dropped out.",
        ),
    )
    takes_edge_weight: bool = False

    def __init__(
        self,
        *sizes: int,
        heads: int = 1,
        edge_dim: int | None = None,
        **shared: Unpack[StackOptions],
    ) -> None:
        build = partial(build_attention_conv, heads=heads, has_edges=edge_dim is not None)
        super().__init__(*sizes, build_conv=build, edge_dim=edge_dim, **shared)


def build_attention_conv(
    in_channels: int, channels: int, is_last: bool, *, heads: int, has_edges: bool
) -> GATConv:
    r"""Returns an attention whose heads together have the given width."""
    check_heads(channels, heads)
    return GATConv(  # type: ignore[abstract]
        in_channels, channels // heads, heads=heads, edge_dim=channels if has_edges else None
    )


class GIN(LayerStack):
    r"""Sums over the neighbours, and an MLP:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathrm{MLP} \Big( (1 + \epsilon) \, \mathbf{x}_i +
        \sum_{j \in \mathcal{N}(i)} \mathbf{x}_j \Big) \Big).

    Args:
        mlp_layers (int, optional): Linear layers of each MLP.
        train_eps (bool, optional): Whether :math:`\epsilon`, which starts at zero, is learned.
        aggregation (str, optional): ``"sum"``, or ``"multi"`` for a linear map of sum, mean,
            maximum and minimum in its place.
    """

    card = Card(
        equation="x_i' = act(MLP((1 + eps) x_i + sum_j x_j))",
        reference="Xu et al., How Powerful are Graph Neural Networks?, 2019 (arXiv:1810.00826)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GINConv",
        departures=(
            "No batch norm inside the MLPs (norm='batch_norm' puts one after each).",
            "The readout sees the last layer, not all of them.",
        ),
    )
    takes_edge_weight: bool = False

    def __init__(
        self,
        *sizes: int,
        mlp_layers: int = 2,
        train_eps: bool = True,
        aggregation: str = "sum",
        **shared: Unpack[StackOptions],
    ) -> None:
        def build_conv(in_channels: int, channels: int, is_last: bool) -> Module:
            mlp = _mlp(in_channels, channels, mlp_layers)
            aggr = build_aggregation(aggregation, in_channels)
            return GINConv(mlp, train_eps=train_eps, aggr=aggr)  # type: ignore[abstract]

        super().__init__(*sizes, build_conv=build_conv, **shared)


class GINE(LayerStack):
    r""":class:`GIN` with edge attributes:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathrm{MLP} \Big( (1 + \epsilon) \, \mathbf{x}_i +
        \sum_{j \in \mathcal{N}(i)} \mathrm{ReLU}(\mathbf{x}_j + \mathbf{e}_{ij}) \Big) \Big).

    With 5 layers of width 208, embedded atoms and bonds, and one linear layer as readout, this is
    the GINE of the `Long Range Graph Benchmark <https://arxiv.org/abs/2206.08164>`_ (475,498
    parameters).

    Args:
        mlp_layers (int, optional): Linear layers of each MLP.
        train_eps (bool, optional): Whether :math:`\epsilon`, which starts at zero, is learned.
        edge_dim (int, optional): Width of the edge attributes; without, every edge starts from one
            learned vector.
    """

    card = Card(
        equation="x_i' = act(MLP((1 + eps) x_i + sum_j ReLU(x_j + e_ij)))",
        reference="Hu et al., Strategies for Pre-training Graph Neural Networks, 2020 "
        "(arXiv:1905.12265)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GINEConv",
        departures=(
            "One map encodes the edge attributes for all layers; without, every edge has one "
            "learned vector.",
        ),
    )
    takes_edge_weight: bool = False
    has_edge_states = keeps_width = True

    def __init__(
        self,
        *sizes: int,
        mlp_layers: int = 2,
        train_eps: bool = False,
        edge_dim: int | None = None,
        **shared: Unpack[StackOptions],
    ) -> None:
        def build_conv(in_channels: int, channels: int, is_last: bool) -> Module:
            mlp = _mlp(in_channels, channels, mlp_layers)
            return GINEConv(mlp, train_eps=train_eps)  # type: ignore[abstract]

        super().__init__(*sizes, build_conv=build_conv, edge_dim=edge_dim, **shared)


def _mlp(in_channels: int, channels: int, num_layers: int) -> Sequential:
    check_positive(mlp_layers=num_layers)
    modules: list[Module] = []
    for pair in pairwise([in_channels] + [channels] * num_layers):
        modules += [Linear(*pair), ReLU()]
    return Sequential(*modules[:-1])


class GatedGCN(LayerStack):
    r"""Gated sums over the neighbours:

    .. math::
        \hat{\mathbf{e}}_{ij} &= \mathbf{C} \mathbf{e}_{ij} + \mathbf{D} \mathbf{x}_i +
        \mathbf{E} \mathbf{x}_j, \qquad
        \mathbf{x}'_i = \mathbf{x}_i + \sigma \left( \mathrm{BN}\left( \mathbf{A} \mathbf{x}_i +
        \frac{\sum_j s(\hat{\mathbf{e}}_{ij}) \odot \mathbf{B} \mathbf{x}_j}
        {\sum_j s(\hat{\mathbf{e}}_{ij}) + 10^{-6}} \right) \right), \\
        \mathbf{e}'_{ij} &= \mathbf{e}_{ij} + \mathrm{ReLU}(\mathrm{BN}(\hat{\mathbf{e}}_{ij})),

    where :math:`s` is the logistic function. :math:`\mathbf{C}` has no bias of its own, which those
    of :math:`\mathbf{D}` and :math:`\mathbf{E}` make superfluous. With 5 layers of width 138,
    embedded atoms and bonds, and one linear layer as readout, this is the GatedGCN of the `Long
    Range Graph Benchmark <https://arxiv.org/abs/2206.08164>`_ (509,368 parameters there).

    Args:
        norm (str, optional): ``"batch_norm"``, for nodes and edges, or :obj:`None`.
        edge_dim (int, optional): Width of the edge attributes; without, every edge starts from one
            learned vector.
    """

    card = Card(
        equation="e' = C e + D x_i + E x_j; x_i' = x_i + act(BN(A x_i + sum_j s(e') B x_j / sum_j "
        "s(e')))",
        reference="Bresson and Laurent, Residual Gated Graph ConvNets, 2017 (arXiv:1711.07553), "
        "in the form of Dwivedi et al., Benchmarking Graph Neural Networks, 2023 "
        "(arXiv:2003.00982)",
        cost="(N + E) F^2",
        source="torch_grama.nn.GatedGCNConv",
        departures=(
            "Dropout applies to the nodes only.",
            "Without edge attributes, every edge starts from one learned vector.",
        ),
    )
    takes_edge_weight: bool = False
    has_edge_states = keeps_width = conv_normalizes = True

    def __init__(
        self,
        *sizes: int,
        norm: str | None = "batch_norm",
        residual: str | None = "identity",
        edge_dim: int | None = None,
        **shared: Unpack[ActOptions],
    ) -> None:
        super().__init__(
            *sizes,
            build_conv=partial(build_gated_conv, norm=norm),
            norm=norm,
            residual=residual,
            edge_dim=edge_dim,
            **shared,
        )


def build_gated_conv(
    in_channels: int, channels: int, is_last: bool, *, norm: str | None, **gates: bool
) -> GatedGCNConv:
    r"""Returns a gated convolution; nobody reads the edges of the last."""
    state = "none" if is_last else "block"
    return GatedGCNConv(channels, has_edge_attr=True, norm=norm, edge_state=state, **gates)


class ARMA(LayerStack):
    r"""A filter over the hops of the graph:

    .. math::
        \mathbf{X}' = \frac{1}{K} \sum_{k=1}^K \mathbf{X}_k^{(T)}, \qquad
        \mathbf{X}_k^{(t+1)} = \sigma \left( \hat{\mathbf{L}} \mathbf{X}_k^{(t)} \mathbf{W}_k +
        \mathbf{X} \mathbf{V}_k + \mathbf{b}_k \right), \qquad
        \hat{\mathbf{L}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}.

    That of :class:`~torch_grama.nn.GRAMA` runs over a sequence of states. The activation comes
    before the norm, if there is one; dropout falls on the skip term :math:`\mathbf{X}
    \mathbf{V}_k`, as in the paper, and after the layer.

    Args:
        act (str or callable, optional): The activation :math:`\sigma`.
        num_stacks (int, optional): Number :math:`K` of parallel stacks.
        stack_layers (int, optional): Number :math:`T` of steps of each stack, and so of hops of a
            layer.
        shared_weights (bool, optional): Whether the steps of a stack share their weights.
    """

    card = Card(
        equation="X_k <- act(D^-1/2 A D^-1/2 X_k W_k + X V_k + b_k), T times; X' = mean_k X_k",
        reference="Bianchi et al., Graph Neural Networks with Convolutional ARMA Filters, 2021 "
        "(arXiv:1901.01343)",
        cost="K T (N F^2 + E F)",
        source="torch_geometric.nn.ARMAConv",
        departures=("An encoder and a readout MLP lie around the layers, as in all models here.",),
    )

    def __init__(
        self,
        *sizes: int,
        act: str | Activation | None = "relu",
        num_stacks: int = 2,
        stack_layers: int = 2,
        shared_weights: bool = True,
        **shared: Unpack[NormOptions],
    ) -> None:
        check_positive(num_stacks=num_stacks, stack_layers=stack_layers)

        def build_conv(in_channels: int, channels: int, is_last: bool) -> Module:
            sizes = in_channels, channels, num_stacks, stack_layers, shared_weights
            dropout = shared.get("dropout", 0.0)
            conv = ARMAConv(*sizes, act=resolve_activation(act), dropout=dropout)  # type: ignore[abstract]
            if stack_layers == 1:
                # PyG keeps a weight for the steps after the first even if there are none
                conv.register_parameter("weight", None)
            return conv

        super().__init__(*sizes, build_conv=build_conv, act=None, **shared)
