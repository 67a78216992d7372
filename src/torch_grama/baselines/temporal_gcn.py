"""T-GCN and A3T-GCN: a gated recurrent unit over time, fed by graph convolutions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, ModuleList, Parameter
from torch_geometric.nn.inits import reset

from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.baselines.products import propagate
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency


class TGCN(GraphModel):
    r"""The model of `"T-GCN: A Temporal Graph Convolutional Network for Traffic Prediction"
    <https://arxiv.org/abs/1811.05320>`_ in the form of PyTorch Geometric Temporal.

    .. math::
        \mathbf{Z}_t &= \mathrm{sigmoid} \big( [\hat{\mathbf{A}} \mathbf{X}_t \mathbf{U}_z
        \,\Vert\, \mathbf{H}_{t-1}] \mathbf{W}_z \big), \qquad
        \mathbf{R}_t = \mathrm{sigmoid} \big( [\hat{\mathbf{A}} \mathbf{X}_t \mathbf{U}_r
        \,\Vert\, \mathbf{H}_{t-1}] \mathbf{W}_r \big), \\
        \tilde{\mathbf{H}}_t &= \tanh \big( [\hat{\mathbf{A}} \mathbf{X}_t \mathbf{U}_h \,\Vert\,
        \mathbf{R}_t \odot \mathbf{H}_{t-1}] \mathbf{W}_h \big), \qquad
        \mathbf{H}_t = \mathbf{Z}_t \odot \mathbf{H}_{t-1} + (1 - \mathbf{Z}_t) \odot
        \tilde{\mathbf{H}}_t,

    (all linear maps with a bias), from :math:`\mathbf{H}_0 = 0` over the elements of the sequence,
    oldest first; the output is a linear layer of :math:`\mathrm{ReLU}(\mathbf{H}_L)`. Further
    layers read the states of the layer below as their sequence.

    Args:
        in_channels (int): Width of one element of the sequence.
        num_layers (int): Number of recurrent layers.
        dropout (float, optional): Dropout of the last state.

    Shapes:
        - **input:** node features :math:`(N, L, C_{in})`, edges :math:`(2, E)`, edge weights
          :math:`(E)` *(optional)*
        - **output:** :math:`(N, C_{out})` or :math:`(B, C_{out})`
    """

    card = Card(
        equation="H_t = GRU(A X_t U, H_(t-1)),  y = W relu(H_L)",
        reference="Zhao et al., T-GCN: A Temporal Graph Convolutional Network for Traffic "
        "Prediction, 2019 (arXiv:1811.05320)",
        cost="L (N F^2 + E C)",
        takes_sequence=True,
        departures=(
            "One graph convolution before each gate, as in PyTorch Geometric Temporal; the paper "
            "has two.",
            "Each window starts from a zero state and is read in time; that library's example "
            "carries the state from window to window and reads the lags as channels.",
        ),
    )

    def __init__(self, *sizes: int, **shared: Unpack[ModelOptions]) -> None:
        super().__init__(*sizes, **shared)
        self.cells = ModuleList(
            TGCNCell(self.hidden_channels if layer else self.in_channels, self.hidden_channels)
            for layer in range(self.num_layers)
        )
        self.head = self.build_head()

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        _check_sequence(x, self.in_channels)
        adjacency = shared_gcn_adjacency(graph, x.dtype)
        for cell in self.cells:
            # [N, L, C] -> [N, L, F]
            x = cell(x, adjacency)
        return F.dropout(F.relu(self._summarize(x)), self.dropout, self.training)

    def _summarize(self, states: Tensor) -> Tensor:
        """One state for the whole sequence: the last. [N, L, F] -> [N, F]"""
        return states[:, -1]


class A3TGCN(TGCN):
    r"""The model of `"A3T-GCN: Attention Temporal Graph Convolutional Network for Traffic
    Forecasting" <https://arxiv.org/abs/2006.11583>`_ in the form of PyTorch Geometric Temporal.

    .. math::
        \mathbf{Y} = \mathrm{ReLU} \Big( \sum_{t=1}^{L} \mathrm{softmax}(\mathbf{a})_t \,
        \mathbf{H}_t \Big) \mathbf{W} + \mathbf{b},

    where :math:`\mathbf{a}` has one learned entry for each element of the sequence and
    :math:`\mathbf{H}_t` is the state of :class:`TGCN`.

    Args:
        dropout (float, optional): Dropout of the mean state.
        seq_len (int, optional): Length :math:`L` of the sequence.
        carry_state (bool, optional): Whether the state is passed from one element to the next.

    Shapes:
        - **input:** node features :math:`(N, L, C_{in})`, edges :math:`(2, E)`, edge weights
          :math:`(E)` *(optional)*
        - **output:** :math:`(N, C_{out})` or :math:`(B, C_{out})`
    """

    card = Card(
        equation="y = W relu(sum_t softmax(a)_t H_t),  H_t the state of T-GCN at lag t",
        reference="Bai et al., A3T-GCN: Attention Temporal Graph Convolutional Network for "
        "Traffic Forecasting, 2021 (arXiv:2006.11583)",
        cost="L (N F^2 + E C)",
        takes_sequence=True,
        departures=(
            "As in PyTorch Geometric Temporal, which made the quoted numbers: every state starts "
            "from zero (carry_state=true passes it on, as the paper does) and the attention is "
            "one learned weight per lag, where the paper has a small network.",
            "Needs seq_len, the number of lags.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        seq_len: int = 4,
        carry_state: bool = False,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_positive(seq_len=seq_len)
        for cell in cast(Iterable[TGCNCell], self.cells):
            cell.carry_state = carry_state
        self.attention = Parameter(torch.empty(seq_len))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.uniform_(self.attention)

    def _summarize(self, states: Tensor) -> Tensor:
        """One state for the whole sequence: a weighted mean. [N, L, F] -> [N, F]"""
        if states.size(1) != self.attention.numel():
            raise ValueError(
                f"Expected sequences of length seq_len={self.attention.numel()} "
                f"(got {states.size(1)})"
            )
        return torch.einsum("nlf,l->nf", states, self.attention.softmax(dim=0))


class TGCNCell(Module):
    r"""The recurrent layer of :class:`TGCN`, over a whole sequence."""

    def __init__(self, in_channels: int, channels: int, carry_state: bool = True) -> None:
        super().__init__()
        self.channels = channels
        self.carry_state = carry_state
        # the convolutions of all three gates in one product
        self.conv_lin = Linear(in_channels, 3 * channels)
        self.update_lin = Linear(2 * channels, channels)
        self.reset_lin = Linear(2 * channels, channels)
        self.candidate_lin = Linear(2 * channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for child in self.children():
            reset(child)
        # each as a graph convolution starts
        for block in self.conv_lin.weight.split(self.channels):
            torch.nn.init.xavier_uniform_(block)
        torch.nn.init.zeros_(self.conv_lin.bias)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        # all elements travel over the edges together: [N, L, C] -> [N, L, 3 F]
        smooth = propagate(adjacency, x.flatten(1)).view_as(x)
        inputs = self.conv_lin(smooth).chunk(3, dim=-1)
        state = x.new_zeros(x.size(0), self.channels)
        if not self.carry_state:
            return self._step(inputs, state.unsqueeze(1).expand(-1, x.size(1), -1))
        states = []
        for element in zip(*(part.unbind(dim=1) for part in inputs), strict=True):
            state = self._step(element, state)
            states.append(state)
        return torch.stack(states, dim=1)

    def _step(self, inputs: Sequence[Tensor], state: Tensor) -> Tensor:
        for_update, for_reset, for_new = inputs
        update: Tensor = self.update_lin(torch.cat([for_update, state], dim=-1)).sigmoid()
        keep: Tensor = self.reset_lin(torch.cat([for_reset, state], dim=-1)).sigmoid()
        new: Tensor = self.candidate_lin(torch.cat([for_new, keep * state], dim=-1)).tanh()
        return update * state + (1 - update) * new


def _check_sequence(x: Tensor, in_channels: int) -> None:
    if x.dim() != 3 or x.size(1) == 0 or x.size(2) != in_channels:
        raise ValueError(
            f"Expected a sequence for each node, [num_nodes, length, in_channels={in_channels}] "
            f"(got {list(x.size())})"
        )
