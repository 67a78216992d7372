"""Decoupled graph convolution: heat diffusion with a free time and a free number of steps."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from torch_grama.baselines.feature_encoder import FeatureEncoder
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import GraphModel
from torch_grama.baselines.integrators import METHODS
from torch_grama.baselines.layer_stack import require_hidden_width
from torch_grama.baselines.neighbor_sum import sum_neighbors
from torch_grama.nn.arguments import Activation, check_positive, choose
from torch_grama.nn.graph_input import GraphInput


class DGC(GraphModel):
    r"""The model of `"Dissecting the Diffusion Process in Linear Graph Convolutional Networks"
    <https://arxiv.org/abs/2102.10739>`_: a step of

    .. math::
        \frac{d \mathbf{X}}{dt} = - (\mathbf{I} - \hat{\mathbf{A}}) \, \mathbf{X}, \qquad
        \mathbf{X} \leftarrow (1 - \epsilon) \, \mathbf{X} + \epsilon \, \hat{\mathbf{A}} \mathbf{X}

    for each of the :math:`K` layers, where :math:`\hat{\mathbf{A}}` is the normalised adjacency
    matrix with self-loops. The layers have no parameters; :math:`\epsilon = 1` is the simplified
    graph convolution.

    .. note::
        The paper names the terminal time :math:`T = K \epsilon` in place of the step size. It
        diffuses the raw features and reads them out by one linear layer: ``pre_linear=False``
        and ``readout_layers=1``. A linear encoder commutes with the diffusion.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number :math:`K` of steps.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after the encoder and in the readout.
            (default: :obj:`0.0`)
        act (str or callable, optional): Activation of the readout. (default: :obj:`"relu"`)
        step_size (float, optional): The step size :math:`\epsilon`. (default: :obj:`0.5`)
        method (str, optional): ``"euler"`` or ``"rk4"``. (default: :obj:`"euler"`)
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
        act: str | Activation | None = "relu",
        step_size: float = 0.5,
        method: str = "euler",
        pre_linear: bool = True,
        readout_layers: int = 2,
    ) -> None:
        check_positive(num_layers=num_layers)
        require_hidden_width("DGC", in_channels, hidden_channels, pre_linear)
        super().__init__(
            FeatureEncoder(in_channels, hidden_channels, pre_linear, dropout),
            GraphHead(hidden_channels, out_channels, readout, readout_layers, act, dropout),
        )
        self.num_layers = num_layers
        self.step_size = step_size
        self.step = choose("method", method, METHODS)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Diffuses the states."""
        edge_index, weight = gcn_norm(
            graph.edge_index, graph.edge_weight, graph.num_nodes, dtype=x.dtype
        )

        def flow(state: Tensor) -> Tensor:
            return sum_neighbors(state, edge_index, weight) - state

        for _ in range(self.num_layers):
            x = self.step(flow, x, self.step_size)
        return x

    def _describe(self) -> str:
        return f", num_layers={self.num_layers}, step_size={self.step_size}"
