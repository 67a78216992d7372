"""Attention that tells the edges of a graph from the pairs without one."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Embedding, Linear, ModuleList

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.branch_sum import BranchSum
from torch_grama.baselines.san_attention import SANAttention, mark_absent_pairs
from torch_grama.baselines.stack_model import StackModel


class SAN(StackModel):
    r"""The spectral attention network of `"Rethinking Graph Transformers with Spectral Attention"
    <https://arxiv.org/abs/2106.03893>`_ in the form of the Long Range Graph Benchmark:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathbf{W}_O \, \mathrm{Attention}(\mathbf{x})),
        \qquad \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})),

    where the attention of :class:`~torch_grama.baselines.san_attention.SANAttention` has its own
    queries, keys and edge maps for the edges of the graph and for the pairs without an edge.

    .. note::
        The learned encoding of the Laplacian's eigenvectors is
        :class:`~torch_grama.baselines.laplace_encoder.LaplaceEncoder`; it comes before the model,
        as part of the node features. Dropout follows :math:`\mathbf{W}_O` instead of preceding it.
        Without edge attributes all edges share one learned vector.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        heads (int, optional): Number of attention heads. (default: :obj:`4`)
        gamma (float, optional): Weight :math:`\gamma` of the pairs without an edge; zero for
            attention along the edges alone. (default: :obj:`1e-6`, as in the benchmark)
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
        heads: int = 4,
        gamma: float = 1e-6,
        edge_dim: int | None = None,
        readout_layers: int = 2,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            readout=readout,
            dropout=dropout,
            edge_dim=edge_dim,
            readout_layers=readout_layers,
        )
        self.gamma = gamma
        self.present_edge = Embedding(1, hidden_channels) if edge_dim is None else None
        self.absent_edge = Embedding(1, hidden_channels)
        self.attentions = ModuleList(
            [SANAttention(hidden_channels, heads, gamma) for _ in range(num_layers)]
        )
        self.out_lins = ModuleList(
            [Linear(hidden_channels, hidden_channels) for _ in range(num_layers)]
        )
        self.frames = ModuleList(
            [BranchSum(hidden_channels, 1, dropout) for _ in range(num_layers)]
        )
        self.reset_parameters()

    def propagate(self, x: Tensor, edge_state: Tensor | None, view: BatchView) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
        if edge_state is None:
            assert self.present_edge is not None
            edge_state = self.present_edge.weight.expand(view.edge_index.size(1), -1)
        is_absent = mark_absent_pairs(view) if self.gamma > 0 else None
        for attention, out_lin, frame in zip(
            self.attentions, self.out_lins, self.frames, strict=True
        ):
            attended = attention(x, edge_state, self.absent_edge.weight[0], view, is_absent)
            x = frame(x, [out_lin(attended)])
        return x
