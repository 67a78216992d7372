"""Local message passing and global attention side by side."""

from __future__ import annotations

from collections.abc import Callable

from torch.nn import Module

from torch_grama.baselines.branch_stack import BranchStack
from torch_grama.baselines.global_attention import FullAttention, LinearAttention
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
        Positional encodings are part of the node features here. The Performer has PyG's ReLU
        kernel instead of the softmax kernel of the paper's code. The first linear map takes
        encoded features to the hidden width also where they have it already.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or
            ``"gatedgcn"``. (default: :obj:`"gatedgcn"`)
        attention (str, optional): ``"multihead"``, or ``"performer"`` for large graphs.
            (default: :obj:`"multihead"`)
        heads (int, optional): Number of attention heads. (default: :obj:`4`)
        attention_dropout (float, optional): Dropout of the attention. (default: :obj:`0.0`)
        edge_dim (int, optional): Width of the edge attributes. (default: :obj:`None`)
        readout_layers (int, optional): Linear layers of the head. (default: :obj:`2`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`
        - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks
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
        local: str = "gatedgcn",
        attention: str = "multihead",
        heads: int = 4,
        attention_dropout: float = 0.0,
        edge_dim: int | None = None,
        readout_layers: int = 2,
    ) -> None:
        build = choose("attention", attention, ATTENTIONS)
        choose("local", local, LOCAL_LAYERS)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            local=local,
            build_mixer=lambda: build(hidden_channels, heads, attention_dropout),
            readout=readout,
            dropout=dropout,
            edge_dim=edge_dim,
            readout_layers=readout_layers,
        )
        self.reset_parameters()
