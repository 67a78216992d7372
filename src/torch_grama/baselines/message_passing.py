"""The classic message-passing models: one convolution of PyG, or of this package, a layer."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Unpack

from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.nn import ARMAConv, GATConv, GCNConv, GINConv, GINEConv, SAGEConv

from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import (
    EncodedOptions,
    LayerStack,
    NormOptions,
    StackOptions,
)
from torch_grama.nn.arguments import Activation, check_positive, resolve_activation
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.neighbor_convs import build_aggregation


class GCN(LayerStack):
    r"""The model of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_ on PyG's :class:`~torch_geometric.nn.GCNConv`:

    .. math::
        \mathbf{X}' = \sigma ( \hat{\mathbf{A}} \mathbf{X} \mathbf{W} + \mathbf{b} ), \qquad
        \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2},

    where :math:`\tilde{\mathbf{D}}` holds the row sums of :math:`\mathbf{A} + \mathbf{I}`.
    """

    card = Card(
        equation="X' = act(A_hat X W + b)",
        reference="Kipf and Welling, Semi-Supervised Classification with Graph Convolutional "
        "Networks, 2017",
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
    r"""The model of `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_ on PyG's :class:`~torch_geometric.nn.SAGEConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathbf{W}_1 \mathbf{x}_i + \mathbf{W}_2 \,
        \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)} \mathbf{x}_j + \mathbf{b} \Big).
    """

    card = Card(
        equation="x_i' = act(W1 x_i + W2 mean_j x_j + b)",
        reference="Hamilton et al., Inductive Representation Learning on Large Graphs, 2017",
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
    r"""The model of `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_ on PyG's
    :class:`~torch_geometric.nn.GATConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \sum_{j \in \mathcal{N}(i) \cup \{i\}} \alpha_{ij} \,
        \mathbf{W} \mathbf{x}_j \Big), \qquad
        \alpha_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}_{0.2} \left( \mathbf{a}^{\top}
        [ \mathbf{W} \mathbf{x}_i \, \Vert \, \mathbf{W} \mathbf{x}_j ] \right).

    .. note::
        The activation is that of the other models (the paper's is ELU).

    Args:
        heads (int, optional): Number of attention heads, whose outputs lie side by side.
        edge_dim (int, optional): Width of the edge attributes, which then take part in the
            attention.
    """

    card = Card(
        equation="x_i' = act(sum_j softmax_j(LeakyReLU(a [W x_i, W x_j])) W x_j + b)",
        reference="Velickovic et al., Graph Attention Networks, 2018",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GATConv",
        takes_edge_attr=True,
        departures=(
            "An encoder and a readout MLP lie around the layers, as in all models here.",
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
        super().__init__(
            *sizes,
            build_conv=partial(build_attention_conv, heads=heads, has_edges=edge_dim is not None),
            edge_dim=edge_dim,
            **shared,
        )


def build_attention_conv(
    in_channels: int, channels: int, is_last: bool, *, heads: int, has_edges: bool
) -> GATConv:
    r"""Returns an attention whose heads together have the given width."""
    check_heads(channels, heads)
    return GATConv(  # type: ignore[abstract]
        in_channels, channels // heads, heads=heads, edge_dim=channels if has_edges else None
    )


class GIN(LayerStack):
    r"""The model of `"How Powerful are Graph Neural Networks?"
    <https://arxiv.org/abs/1810.00826>`_ on PyG's :class:`~torch_geometric.nn.GINConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathrm{MLP} \Big( (1 + \epsilon) \, \mathbf{x}_i +
        \sum_{j \in \mathcal{N}(i)} \mathbf{x}_j \Big) \Big).

    .. note::
        ``norm="batch_norm"`` puts a norm after each MLP.

    Args:
        mlp_layers (int, optional): Linear layers of each MLP.
        train_eps (bool, optional): Whether :math:`\epsilon`, which starts at zero, is learned.
        aggregation (str, optional): ``"sum"``, or ``"multi"`` for a linear map of sum, mean,
            maximum and minimum in its place.
    """

    card = Card(
        equation="x_i' = act(MLP((1 + eps) x_i + sum_j x_j))",
        reference="Xu et al., How Powerful are Graph Neural Networks?, 2019",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GINConv",
        departures=(
            "No batch norm inside the MLPs.",
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
    r"""The model of `"Strategies for Pre-training Graph Neural Networks"
    <https://arxiv.org/abs/1905.12265>`_, :class:`GIN` with edge attributes, on PyG's
    :class:`~torch_geometric.nn.GINEConv`:

    .. math::
        \mathbf{x}'_i = \sigma \Big( \mathrm{MLP} \Big( (1 + \epsilon) \, \mathbf{x}_i +
        \sum_{j \in \mathcal{N}(i)} \mathrm{ReLU}(\mathbf{x}_j + \mathbf{e}_{ij}) \Big) \Big).

    .. note::
        With 5 layers of width 208, embedded atoms and bonds, and one linear layer as readout, this
        is the GINE of the `Long Range Graph Benchmark <https://arxiv.org/abs/2206.08164>`_ (475,498
        parameters).

    Args:
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the features must have that width already.
        mlp_layers (int, optional): Linear layers of each MLP.
        train_eps (bool, optional): Whether :math:`\epsilon`, which starts at zero, is learned.
        edge_dim (int, optional): Width of the edge attributes; without, every edge starts from one
            learned vector.
    """

    card = Card(
        equation="x_i' = act(MLP((1 + eps) x_i + sum_j ReLU(x_j + e_ij)))",
        reference="Hu et al., Strategies for Pre-training Graph Neural Networks, 2020",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GINEConv",
        takes_edge_attr=True,
        departures=(
            "One map encodes the edge attributes for all layers.",
            "Without edge attributes, every edge has one learned vector.",
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
        :math:`\mathbf{C}` has no bias of its own, which those of :math:`\mathbf{D}` and
        :math:`\mathbf{E}` make superfluous. With 5 layers of width 138, embedded atoms and bonds,
        and one linear layer as readout, this is the GatedGCN of the `Long Range Graph Benchmark
        <https://arxiv.org/abs/2206.08164>`_ (509,368 parameters there).

    Args:
        norm (str, optional): ``"batch_norm"``, for nodes and edges, or :obj:`None`.
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the features must have that width already.
        edge_dim (int, optional): Width of the edge attributes; without, every edge starts from one
            learned vector.
    """

    card = Card(
        equation="e' = C e + D x_i + E x_j; x_i' = x_i + act(BN(A x_i + sum_j s(e') B x_j / sum_j "
        "s(e')))",
        reference="Bresson and Laurent, Residual Gated Graph ConvNets, 2017, in the form of "
        "Dwivedi et al., Benchmarking Graph Neural Networks, 2023",
        cost="(N + E) F^2",
        source="torch_grama.nn.GatedGCNConv",
        takes_edge_attr=True,
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
        act: str | Activation | None = "relu",
        norm: str | None = "batch_norm",
        residual: str | None = "identity",
        edge_dim: int | None = None,
        **shared: Unpack[EncodedOptions],
    ) -> None:
        super().__init__(
            *sizes,
            build_conv=partial(build_gated_conv, norm=norm),
            act=act,
            norm=norm,
            residual=residual,
            edge_dim=edge_dim,
            **shared,
        )


def build_gated_conv(
    in_channels: int,
    channels: int,
    is_last: bool,
    *,
    norm: str | None,
    normalize_gates: bool = True,
) -> GatedGCNConv:
    r"""Returns a gated convolution; nobody reads the edges of the last."""
    state = "none" if is_last else "block"
    return GatedGCNConv(
        channels,
        has_edge_attr=True,
        norm=norm,
        normalize_gates=normalize_gates,
        edge_state=state,
    )


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
        act (str or callable, optional): The activation :math:`\sigma`.
        num_stacks (int, optional): Number :math:`K` of parallel stacks.
        stack_layers (int, optional): Number :math:`T` of steps of each stack, and so of hops of a
            layer.
        shared_weights (bool, optional): Whether the steps of a stack share their weights.
    """

    card = Card(
        equation="X_k <- act(D^-1/2 A D^-1/2 X_k W_k + X V_k + b_k), T times; X' = mean_k X_k",
        reference="Bianchi et al., Graph Neural Networks with Convolutional ARMA Filters, 2021",
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
            conv = ARMAConv(  # type: ignore[abstract]
                in_channels,
                channels,
                num_stacks=num_stacks,
                num_layers=stack_layers,
                shared_weights=shared_weights,
                act=resolve_activation(act),
                dropout=shared.get("dropout", 0.0),
            )
            if stack_layers == 1:
                # PyG keeps a weight for the steps after the first even if there are none
                conv.register_parameter("weight", None)
            return conv

        super().__init__(*sizes, build_conv=build_conv, act=None, **shared)
