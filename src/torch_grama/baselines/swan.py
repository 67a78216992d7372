"""The space-weight anti-symmetric network: non-dissipative in time and over the graph."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter
from torch_geometric.nn import GCNConv
from torch_geometric.nn.inits import reset

from torch_grama.baselines.feature_encoder import FeatureEncoder
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import GraphModel
from torch_grama.baselines.layer_stack import require_hidden_width
from torch_grama.baselines.neighbor_sum import sum_neighbors
from torch_grama.baselines.swan_edges import EdgeWeights, antisymmetric_edges, symmetric_edges
from torch_grama.nn.arguments import Activation, check_positive, choose, resolve_activation
from torch_grama.nn.graph_input import GraphInput

AGGREGATIONS = {
    "antisymmetric": "symmetric matrix, antisymmetric weights: non-dissipative as a whole",
    "gcn": "graph convolution: bounded",
    "sum": "sum of the mapped neighbours: bounded",
}


class SWAN(GraphModel):
    r"""The model of `"On Oversquashing in Graph Neural Networks Through the Lens of Dynamical
    Systems" <https://arxiv.org/abs/2405.01009>`_, :class:`~torch_grama.baselines.ADGN` with a term
    that is antisymmetric over the graph:

    .. math::
        \mathbf{x}_i \leftarrow \mathbf{x}_i + \epsilon \, \sigma \Big( (\mathbf{W} -
        \mathbf{W}^{\top} - \gamma \mathbf{I}) \, \mathbf{x}_i + \sum_j \hat{a}_{ij} (\mathbf{V} -
        \mathbf{V}^{\top}) \, \mathbf{x}_j + \beta \sum_j \tilde{a}_{ij} (\mathbf{U} +
        \mathbf{U}^{\top}) \, \mathbf{x}_j + \mathbf{b} \Big),

    where :math:`\hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}` is symmetric and
    :math:`\tilde{\mathbf{A}} = \mathbf{D}^{-1} \mathbf{A} - (\mathbf{D}^{-1} \mathbf{A})^{\top}`
    antisymmetric. With :math:`\gamma = 0`, the linear map of all nodes together is antisymmetric.

    .. note::
        The released code computes both matrices wrongly for edge weights other than one; they are
        made from the equations here, also for directed graphs. On a graph whose nodes all have
        the same degree, such as a ring, :math:`\tilde{\mathbf{A}}` is zero and :math:`\beta` has
        no effect. The variant with learned matrices (SWAN-learn) is not provided.

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
        aggregation (str, optional): The second term: ``"antisymmetric"``, or the bounded variants
            ``"gcn"`` and ``"sum"``. (default: :obj:`"antisymmetric"`)
        epsilon (float, optional): The step size. (default: :obj:`0.1`)
        gamma (float, optional): The strength of the diffusion. (default: :obj:`0.1`)
        beta (float, optional): The weight of the third term. (default: :obj:`1.0`)
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
        aggregation: str = "antisymmetric",
        epsilon: float = 0.1,
        gamma: float = 0.1,
        beta: float = 1.0,
        weight_sharing: bool = True,
        pre_linear: bool = True,
        readout_layers: int = 2,
    ) -> None:
        check_positive(num_layers=num_layers)
        choose("aggregation", aggregation, AGGREGATIONS)
        require_hidden_width("SWAN", in_channels, hidden_channels, pre_linear)
        super().__init__(
            FeatureEncoder(in_channels, hidden_channels, pre_linear, dropout),
            GraphHead(hidden_channels, out_channels, readout, readout_layers, "relu", dropout),
        )
        self.num_layers = num_layers
        self.aggregation = aggregation
        self.epsilon = epsilon
        self.act = resolve_activation(act)
        self.fields = ModuleList(
            [
                SWANField(hidden_channels, aggregation, gamma, beta)
                for _ in range(1 if weight_sharing else num_layers)
            ]
        )

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the steps."""
        symmetric = symmetric_edges(graph, x.dtype)
        antisymmetric = antisymmetric_edges(graph, x.dtype)
        for number in range(self.num_layers):
            field = self.fields[number % len(self.fields)]
            x = x + self.epsilon * self.act(field(x, graph, symmetric, antisymmetric))
        return x

    def _describe(self) -> str:
        return f", num_layers={self.num_layers}, aggregation={self.aggregation!r}"


class SWANField(Module):
    r"""The affine map inside the activation of :class:`SWAN`.

    Args:
        channels (int): Width of the states.
        aggregation (str): ``"antisymmetric"``, ``"gcn"`` or ``"sum"``.
        gamma (float): The strength of the diffusion.
        beta (float): The weight of the third term.
    """

    def __init__(self, channels: int, aggregation: str, gamma: float, beta: float) -> None:
        super().__init__()
        self.aggregation = aggregation
        self.gamma = gamma
        self.beta = beta
        self.own_weight = Parameter(torch.empty(channels, channels))
        self.space_weight = Parameter(torch.empty(channels, channels))
        is_gcn = aggregation == "gcn"
        self.neighbor_weight = None if is_gcn else Parameter(torch.empty(channels, channels))
        self.gcn = (
            GCNConv(channels, channels, bias=False)  # type: ignore[abstract]
            if is_gcn
            else None
        )
        self.bias = Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for weight in (self.own_weight, self.space_weight, self.neighbor_weight):
            if weight is not None:
                torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
        torch.nn.init.zeros_(self.bias)
        reset(self.gcn)

    def forward(
        self, x: Tensor, graph: GraphInput, symmetric: EdgeWeights, antisymmetric: EdgeWeights
    ) -> Tensor:
        r"""Returns the argument of the activation."""
        own = x @ (self.own_weight - self.own_weight.t()).t() - self.gamma * x
        space = x @ (self.space_weight + self.space_weight.t()).t()
        out = own + self.beta * sum_neighbors(space, *antisymmetric) + self.bias
        if self.neighbor_weight is None:
            assert self.gcn is not None
            near = self.gcn(x, graph.edge_index, graph.edge_weight)
        elif self.aggregation == "sum":
            near = sum_neighbors(x @ self.neighbor_weight.t(), graph.edge_index, graph.edge_weight)
        else:
            weight = self.neighbor_weight - self.neighbor_weight.t()
            near = sum_neighbors(x @ weight.t(), *symmetric)
        total: Tensor = out + near
        return total
