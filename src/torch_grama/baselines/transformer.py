"""Attention alone."""

from __future__ import annotations

from torch_grama.baselines.branch_stack import BranchStack
from torch_grama.baselines.global_attention import FullAttention


class Transformer(BranchStack):
    r"""The Transformer of the `"Long Range Graph Benchmark" <https://arxiv.org/abs/2206.08164>`_:
    every node attends to every node of its graph and the edges are not seen,

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    What it knows of the graph it knows from positional encodings among the node features.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        heads (int, optional): Number of attention heads. (default: :obj:`4`)
        attention_dropout (float, optional): Dropout of the attention weights; the benchmark has
            0.5. (default: :obj:`0.0`)
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
        heads: int = 4,
        attention_dropout: float = 0.0,
        readout_layers: int = 2,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            local=None,
            build_mixer=lambda: FullAttention(hidden_channels, heads, attention_dropout),
            readout=readout,
            dropout=dropout,
            readout_layers=readout_layers,
        )
        self.reset_parameters()
