"""GPS with a state-space model in place of the attention."""

from __future__ import annotations

from torch_grama.baselines.branch_stack import BranchStack
from torch_grama.baselines.local_layers import LOCAL_LAYERS
from torch_grama.baselines.mamba_block import MambaBlock
from torch_grama.baselines.node_scan import StoredScan
from torch_grama.nn.arguments import choose


class GPSMamba(BranchStack):
    r"""GPS with a state-space model in place of the attention, the baseline "GPS + Mamba" of
    `"Graph Mamba: Towards Learning on Graphs with State Space Models"
    <https://arxiv.org/abs/2402.08678>`_:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \mathrm{Mamba}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    .. warning::
        The result depends on how the nodes are numbered: the nodes of each graph are scanned in
        the order in which they are stored.

    .. note::
        The paper names the baseline and does not say in which order, in which direction or with
        which local branch it runs. Taken here: the stored order, one direction, GatedGCN.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or
            ``"gatedgcn"``. (default: :obj:`"gatedgcn"`)
        state_channels (int, optional): States a channel of the scan. (default: :obj:`16`)
        expansion (int, optional): Inner width of the scan, in multiples of the hidden channels.
            (default: :obj:`1`)
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
        state_channels: int = 16,
        expansion: int = 1,
        edge_dim: int | None = None,
        readout_layers: int = 2,
    ) -> None:
        choose("local", local, LOCAL_LAYERS)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            local=local,
            build_mixer=lambda: StoredScan(
                MambaBlock(hidden_channels, state_channels, expansion=expansion)
            ),
            readout=readout,
            dropout=dropout,
            edge_dim=edge_dim,
            readout_layers=readout_layers,
        )
        self.reset_parameters()
