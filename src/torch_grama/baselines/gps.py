"""Attention to all nodes, alone or beside local message passing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from torch.nn import Module

from torch_grama.baselines.branch_stack import BranchStack, EdgeOptions
from torch_grama.baselines.global_attention import FullAttention, LinearAttention
from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import HeadOptions
from torch_grama.baselines.local_layers import LOCAL_LAYERS
from torch_grama.nn.arguments import choose

ATTENTIONS: dict[str, Callable[[int, int, float], Module]] = {
    "multihead": FullAttention,
    "performer": LinearAttention,
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

    Args:
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or ``"gatedgcn"``.
        attention (str, optional): ``"multihead"``, or ``"performer"`` for large graphs.
        attention_dropout (float, optional): Dropout of the attention.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + multihead(x)), x' = BN(h + MLP(h))",
        reference="Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, "
        "2022",
        cost="N F^2 + n N F + E F, n nodes a graph",
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
        cost="N F^2 + n N F, n nodes a graph",
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
