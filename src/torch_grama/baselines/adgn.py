"""The anti-symmetric deep graph network."""

from __future__ import annotations

from typing import cast

from torch import Tensor
from torch.nn import Linear, Module, ModuleList
from torch_geometric.nn import AntiSymmetricConv, GCNConv, MessagePassing
from torch_geometric.nn.inits import reset

from torch_grama.baselines.feature_encoder import FeatureEncoder
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import GraphModel
from torch_grama.baselines.layer_stack import require_hidden_width
from torch_grama.baselines.neighbor_sum import sum_neighbors
from torch_grama.nn.arguments import Activation, check_positive, choose, resolve_activation
from torch_grama.nn.graph_input import GraphInput

AGGREGATIONS = {"sum": "sum of the mapped neighbours", "gcn": "graph convolution"}


class ADGN(GraphModel):
    r"""The model of `"Anti-Symmetric DGN: a stable architecture for Deep Graph Networks"
    <https://arxiv.org/abs/2210.09789>`_ on PyG's :class:`~torch_geometric.nn.AntiSymmetricConv`:

    .. math::
        \mathbf{x}_i \leftarrow \mathbf{x}_i + \epsilon \, \sigma \left( (\mathbf{W} -
        \mathbf{W}^{\top} - \gamma \mathbf{I}) \, \mathbf{x}_i + \Phi(\mathbf{X})_i + \mathbf{b}
        \right),

    where :math:`\Phi` is the plain sum :math:`\sum_{j \in \mathcal{N}(i)} \mathbf{V} \mathbf{x}_j`
    or the graph convolution :math:`\sum_j \hat{a}_{ij} \mathbf{V} \mathbf{x}_j`.

    .. note::
        The bias starts at zero, as PyG has it. The readout is that of the other models; the paper
        joins sum, maximum and mean of the nodes for graph tasks.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of steps.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after the encoder and in the readout.
            (default: :obj:`0.0`)
        act (str or callable, optional): The activation :math:`\sigma`, which the theory wants
            monotone. (default: :obj:`"tanh"`)
        aggregation (str, optional): ``"sum"`` or ``"gcn"``. (default: :obj:`"gcn"`)
        epsilon (float, optional): The step size. (default: :obj:`0.1`)
        gamma (float, optional): The strength of the diffusion. (default: :obj:`0.1`)
        weight_sharing (bool, optional): Whether all steps share their weights.
            (default: :obj:`True`)
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the features must have that width already. (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`2`)
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
        act: str | Activation | None = "tanh",
        aggregation: str = "gcn",
        epsilon: float = 0.1,
        gamma: float = 0.1,
        weight_sharing: bool = True,
        pre_linear: bool = True,
        readout_layers: int = 2,
    ) -> None:
        check_positive(num_layers=num_layers)
        choose("aggregation", aggregation, AGGREGATIONS)
        require_hidden_width("ADGN", in_channels, hidden_channels, pre_linear)
        super().__init__(
            FeatureEncoder(in_channels, hidden_channels, pre_linear, dropout),
            GraphHead(hidden_channels, out_channels, readout, readout_layers, "relu", dropout),
        )
        self.num_layers = num_layers
        self.aggregation = aggregation
        self.convs = ModuleList(
            [
                AntiSymmetricConv(
                    hidden_channels,
                    _neighbor_term(hidden_channels, aggregation),
                    num_iters=num_layers if weight_sharing else 1,
                    epsilon=epsilon,
                    gamma=gamma,
                    act=resolve_activation(act),
                )
                for _ in range(1 if weight_sharing else num_layers)
            ]
        )

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the steps."""
        for conv in self.convs:
            x = conv(x, graph.edge_index, graph.edge_weight)
        return x

    def _describe(self) -> str:
        return f", num_layers={self.num_layers}, aggregation={self.aggregation!r}"


def _neighbor_term(channels: int, aggregation: str) -> MessagePassing:
    if aggregation == "gcn":
        return GCNConv(channels, channels, bias=False)  # type: ignore[abstract]
    # PyG asks for a message-passing class and calls no more of it than any module has
    return cast(MessagePassing, _LinearSum(channels))


class _LinearSum(Module):
    r"""The weighted sum of the neighbours after a linear map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = Linear(channels, channels, bias=False)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.lin)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        r"""Returns new node states."""
        return sum_neighbors(self.lin(x), edge_index, edge_weight)
