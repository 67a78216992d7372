"""Attention to all nodes, alone or beside local message passing, and along the edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import GELU, Dropout, LayerNorm, Linear, Module, Sequential
from torch_geometric.nn import TransformerConv
from torch_geometric.utils import add_self_loops

from torch_grama.baselines.bigbird import BigBirdAttention
from torch_grama.baselines.branch_stack import LOCAL_LAYERS, BranchStack, EdgeOptions
from torch_grama.baselines.global_attention import FullAttention, LinearAttention
from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import EncodedModel, HeadOptions
from torch_grama.nn.arguments import choose
from torch_grama.nn.graph_input import GraphInput

ATTENTIONS: dict[str, Callable[[int, int, float], Module]] = {
    "multihead": FullAttention,
    "performer": LinearAttention,
    "bigbird": BigBirdAttention,
}


class GPS(BranchStack):
    r"""The general, powerful, scalable graph transformer of `"Recipe for a General, Powerful,
    Scalable Graph Transformer" <https://arxiv.org/abs/2205.12454>`_:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    .. note::
        The Performer has PyG's ReLU kernel instead of the softmax kernel of the paper's code. The
        first linear map takes encoded features to the hidden width also where they have it already.

    .. warning::
        What BigBird sees depends on how the nodes are numbered.

    Args:
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or ``"gatedgcn"``.
        attention (str, optional): ``"multihead"``, or ``"performer"`` or ``"bigbird"`` for large
            graphs.
        attention_dropout (float, optional): Dropout of the attention.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + multihead(x)), x' = BN(h + MLP(h))",
        reference="Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, "
        "2022",
        cost="N F^2 + n N F + E F, n nodes per graph",
        source="torch_grama, with torch.nn.MultiheadAttention and the PyG operators",
        takes_edge_attr=True,
        departures=(
            "Positional encodings are part of the node features, encoded once for all models "
            "alike.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        local: str = "gatedgcn",
        attention: str = "multihead",
        heads: int = 4,
        attention_dropout: float = 0.0,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        build = choose("attention", attention, ATTENTIONS)
        choose("local", local, LOCAL_LAYERS)

        def build_mixer(channels: int) -> Module:
            return build(channels, heads, attention_dropout)

        super().__init__(*sizes, local=local, build_mixer=build_mixer, **shared)


class Transformer(BranchStack):
    r"""The Transformer of the `"Long Range Graph Benchmark" <https://arxiv.org/abs/2206.08164>`_:
    every node attends to every node of its graph and the edges are not seen,

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    What it knows of the graph it knows from positional encodings among the node features.

    Args:
        attention_dropout (float, optional): Dropout of the attention weights; the benchmark has
            0.5.
    """

    card = Card(
        equation="h = BN(x + attention(x)), x' = BN(h + MLP(h)), over all nodes of a graph",
        reference="Dwivedi et al., Long Range Graph Benchmark, 2022",
        cost="N F^2 + n N F, n nodes per graph",
        source="torch.nn.MultiheadAttention",
        departures=(
            "Positional encodings are part of the node features, encoded once for all models "
            "alike.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        heads: int = 4,
        attention_dropout: float = 0.0,
        **shared: Unpack[HeadOptions],
    ) -> None:
        def build_mixer(channels: int) -> Module:
            return FullAttention(channels, heads, attention_dropout)

        super().__init__(*sizes, local=None, build_mixer=build_mixer, **shared)


class GT(EncodedModel):
    r"""The graph transformer of `"A critical look at the evaluation of GNNs under heterophily"
    <https://arxiv.org/abs/2302.11640>`_, whose attention is restricted to the edges:

    .. math::
        \mathbf{a}_i &= \Big\Vert_h \sum_{j \in \mathcal{N}(i) \cup \{i\}} \mathrm{softmax}_j
        \left( \frac{\mathbf{q}_{h,i}^\top \mathbf{k}_{h,j}}{\sqrt{d}} \right) \mathbf{v}_{h,j}, \\
        \mathbf{h}_i &= \mathbf{x}_i + \mathbf{W} \mathbf{a}_i, \qquad
        \mathbf{x}'_i = \mathbf{h}_i + \mathrm{FFN}(\mathrm{LN}(\mathbf{h}_i)),

    where queries, keys and values are maps of :math:`\mathrm{LN}(\mathbf{x})`. The variant with
    separation (GT-sep) leaves node :math:`i` out of the sum and has
    :math:`\mathbf{W} [\mathrm{LN}(\mathbf{x}_i) \Vert \mathbf{a}_i]` instead. The attention is
    PyG's :class:`~torch_geometric.nn.TransformerConv` without its skip connection.

    .. note::
        Edge attributes are added as :class:`~torch_geometric.nn.TransformerConv` does; the loop at
        a node has zeros.

    Args:
        dropout (float, optional): Dropout inside the layers.
        separate (bool, optional): Whether a node is kept apart from its neighbours.
    """

    card = Card(
        equation="h_i = x_i + W sum_j a_ij v_j, a_ij = softmax_j(q_i k_j / sqrt(d)) over the "
        "edges, z = LN(x), x' = h + FFN(LN(h))",
        reference="Platonov et al., A critical look at the evaluation of GNNs under heterophily, "
        "2023",
        cost="N F^2 + E F",
        source="torch_geometric.nn.TransformerConv",
        takes_edge_attr=True,
        departures=(
            "Edge attributes, which the paper does not have, are added to keys and values.",
            "The head is a readout MLP; the paper's is one linear map.",
        ),
    )

    ignores_edge_weight: bool = True
    drops_ends = False

    def __init__(
        self, *sizes: int, heads: int = 8, separate: bool = False, **shared: Unpack[EdgeOptions]
    ) -> None:
        super().__init__(*sizes, **shared)
        check_heads(self.hidden_channels, heads)
        self.separate = separate
        state_dim = None if self.edge_dim is None else self.hidden_channels
        self.layers = self.per_layer(
            lambda: _Layer(self.hidden_channels, heads, self.dropout, separate, state_dim)
        )
        self.norm = LayerNorm(self.hidden_channels)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
        edge_index, edge_state = graph.edge_index, graph.edge_attr
        if not self.separate:
            edge_index, edge_state = add_self_loops(
                edge_index, edge_state, fill_value=0.0, num_nodes=graph.num_nodes
            )
        x = F.gelu(F.dropout(x, self.dropout, self.training))
        for layer in self.layers:
            x = layer(x, edge_index, edge_state)
        out: Tensor = self.norm(x)
        return out


class _Layer(Module):
    def __init__(
        self, channels: int, heads: int, dropout: float, separate: bool, edge_dim: int | None
    ) -> None:
        super().__init__()
        self.separate = separate
        self.dropout = dropout
        self.attention_norm = LayerNorm(channels)
        self.attention = TransformerConv(  # type: ignore[abstract]
            channels, channels // heads, heads, edge_dim=edge_dim, root_weight=False
        )
        # it makes the map of the skip connection also where it does not use it
        self.attention.register_module("lin_skip", _NoMap())
        self.out_lin = Linear(2 * channels if separate else channels, channels)
        self.mlp = Sequential(
            LayerNorm(channels),
            Linear(channels, channels),
            Dropout(dropout),
            GELU(),
            Linear(channels, channels),
            Dropout(dropout),
        )

    def forward(self, x: Tensor, edge_index: Tensor, edge_state: Tensor | None) -> Tensor:
        normed = self.attention_norm(x)
        message = self.attention(normed, edge_index, edge_state)
        if self.separate:
            # [N, F] -> [N, 2 F]
            message = torch.cat([normed, message], dim=-1)
        x = x + F.dropout(self.out_lin(message), self.dropout, self.training)
        out: Tensor = x + self.mlp(x)
        return out


class _NoMap(Module):
    def reset_parameters(self) -> None:
        """Has none."""
