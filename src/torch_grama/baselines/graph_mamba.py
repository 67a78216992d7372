"""A state-space model over the nodes of each graph, beside message passing."""

from __future__ import annotations

from torch_grama.baselines.branch_stack import BranchStack
from torch_grama.baselines.local_layers import LOCAL_LAYERS
from torch_grama.baselines.mamba_block import MambaBlock
from torch_grama.baselines.node_scan import ORDERS, NodeScan
from torch_grama.nn.arguments import choose


class GraphMamba(BranchStack):
    r"""The model of `"Graph-Mamba: Towards Long-Range Graph Sequence Modeling with Selective State
    Spaces" <https://arxiv.org/abs/2402.00789>`_: a GPS layer whose global branch is a state-space
    model over the nodes of each graph, those of high degree last,

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \pi^{-1} \mathrm{Mamba}(\pi \mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})),

    where :math:`\pi` sorts by degree and, among nodes of one degree, at random. At test time the
    global branch is the mean over several orders.

    .. warning::
        The result depends on how the nodes are numbered: the order breaks ties between nodes of
        the same degree. Averaging over orders makes this smaller, not zero.

    .. note::
        The orders of the test are fixed by the number of a node within its graph, so that a
        trained model gives the same result every time; the paper's code draws them anew. The
        random buckets that it has for large graphs are left out: one graph is one sequence.
        Memory is linear in the nodes.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or
            ``"gatedgcn"``. (default: :obj:`"gatedgcn"`)
        order (str, optional): ``"degree"``, or ``"random"`` to sort by the noise alone.
            (default: :obj:`"degree"`)
        num_orders (int, optional): Orders averaged at test time. (default: :obj:`5`)
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
        order: str = "degree",
        num_orders: int = 5,
        state_channels: int = 16,
        expansion: int = 1,
        edge_dim: int | None = None,
        readout_layers: int = 2,
    ) -> None:
        key = choose("order", order, ORDERS)
        choose("local", local, LOCAL_LAYERS)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            local=local,
            build_mixer=lambda: NodeScan(
                MambaBlock(hidden_channels, state_channels, expansion=expansion), key, num_orders
            ),
            readout=readout,
            dropout=dropout,
            edge_dim=edge_dim,
            readout_layers=readout_layers,
        )
        self.reset_parameters()
