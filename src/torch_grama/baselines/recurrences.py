"""Steps that share their weights: waves on the graph, a linear recurrence, units over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module, ModuleList, Parameter
from torch_geometric.nn.inits import reset
from torch_geometric.nn.models import MLP
from torch_geometric.utils import scatter

from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.baselines.layer_stack import EdgeOptions, EncodedModel, EncodedOptions
from torch_grama.baselines.products import propagate, weigh_without_loops
from torch_grama.nn.arguments import check_number, check_positive
from torch_grama.nn.engine.adjacency import Adjacency, gather
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency


class SONAR(EncodedModel):
    r"""A wave equation on the graph in steps of length :math:`\epsilon`:

    .. math::
        \mathbf{V}_{t+1} &= \mathbf{V}_t - \epsilon \left( \mathbf{L} \mathbf{X}_t \mathbf{W}
        + \mathbf{d}(\mathbf{X}_t) \odot \mathbf{V}_t - \mathbf{f}(\mathbf{X}_t) \right), \qquad
        \mathbf{X}_{t+1} = \mathbf{X}_t + \epsilon \mathbf{V}_{t+1}, \\
        \mathbf{L} &= \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{R} \mathbf{D}^{-1/2}, \qquad
        R_{ij} = a_{ij} \left| \mathrm{MLP}([\mathbf{x}_j, \mathbf{x}_i, \mathbf{e}_{ij}]) \right|,

    from the velocity :math:`\mathbf{V}_0 = 0`, where :math:`a_{ij}` are the edge weights,
    :math:`\mathbf{D}` holds the sums of :math:`\mathbf{R}` over incoming edges,
    :math:`\mathbf{d} \ge 0` is the damping, one layer with ReLU, and :math:`\mathbf{f}` the outer
    force, an MLP of two layers. A block of :math:`T` steps ends with an MLP.

    Args:
        num_layers (int): Steps :math:`T` of a block.
        num_blocks (int, optional): Number of blocks.
        epsilon (float, optional): The step :math:`\epsilon`.
        damping (bool, optional): Whether there is :math:`\mathbf{d}`; without both this and the
            force, energy is conserved.
        forcing (bool, optional): Whether there is :math:`\mathbf{f}`.
    """

    card = Card(
        equation="V' = V - eps (L X W + d(X) * V - f(X)), X' = X + eps V', L of the edges' "
        "resistances, then X = MLP(X)",
        reference="Trenta et al., SONAR: Long-Range Graph Propagation Through Information Waves, "
        "2025 (https://openreview.net/forum?id=Hxfjmc95rl)",
        cost="N F^2 + E F",
        departures=(
            "Of the Laplacians that the authors try, this is the symmetrically normalised one.",
            "Resistances are computed once per block, and edge weights multiply them.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        num_blocks: int = 1,
        epsilon: float = 0.1,
        damping: bool = True,
        forcing: bool = True,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        check_positive(num_blocks=num_blocks)
        check_number("epsilon", epsilon, above=0)
        super().__init__(*sizes, **shared)
        options = (self.num_layers, epsilon, damping, forcing, self.edge_dim is not None)
        self.blocks = ModuleList(
            _WaveBlock(self.hidden_channels, *options) for _ in range(num_blocks)
        )

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        weight = weigh_without_loops(graph.edge_index, graph.edge_weight, x.dtype)
        for block in self.blocks:
            x = F.dropout(block(x, graph, weight), self.dropout, self.training)
        return x


class _WaveBlock(Module):
    def __init__(
        self,
        channels: int,
        num_steps: int,
        epsilon: float,
        damping: bool,
        forcing: bool,
        has_edge_attr: bool,
    ) -> None:
        super().__init__()
        self.num_steps, self.epsilon = num_steps, epsilon
        # the first layer of the resistance, in parts: source, target, edge
        self.source_lin = Linear(channels, channels)
        self.target_lin = Linear(channels, channels, bias=False)
        self.edge_lin = Linear(channels, channels, bias=False) if has_edge_attr else None
        self.resistance_lin = Linear(channels, 1)
        self.lin = Linear(channels, channels, bias=False)
        self.damping = Linear(channels, channels) if damping else None
        self.force = MLP([channels] * 3, norm=None) if forcing else None
        self.mlp = MLP([channels] * 3, norm=None)

    def forward(self, x: Tensor, graph: GraphInput, weight: Tensor) -> Tensor:
        edge_index, eps = graph.edge_index, self.epsilon
        laplacian = self._normalise(self._resist(x, graph) * weight, edge_index, x.size(0))
        matrix = Adjacency(edge_index[1], edge_index[0], laplacian, x.size(0))
        velocity = torch.zeros_like(x)
        for _ in range(self.num_steps):
            moved = self.lin(x)
            change = moved - matrix.propagate(moved)
            if self.damping is not None:
                change = change + F.relu(self.damping(x)) * velocity
            if self.force is not None:
                change = change - self.force(x)
            velocity = velocity - eps * change
            x = x + eps * velocity
        out: Tensor = self.mlp(x)
        return out

    def _resist(self, x: Tensor, graph: GraphInput) -> Tensor:
        """The resistance of each edge [E]."""
        source, target = graph.edge_index
        hidden = gather(self.source_lin(x), source) + gather(self.target_lin(x), target)
        if self.edge_lin is not None:
            hidden = hidden + self.edge_lin(graph.edge_attr)
        resistance: Tensor = self.resistance_lin(F.relu(hidden)).squeeze(-1).abs()
        return resistance.to(hidden.dtype)

    def _normalise(self, resistance: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Divides by the roots of the sums at both ends; a sum of zero leaves nothing to pass."""
        total = scatter(resistance, edge_index[1], dim_size=num_nodes, reduce="sum")
        scale = torch.where(total > 0, total.clamp(min=1e-12).rsqrt(), 0.0)
        return scale[edge_index[0]] * resistance * scale[edge_index[1]]


class MPSSM(EncodedModel):
    r"""A linear recurrence over the graph, and an MLP:

    .. math::
        \mathbf{X}_{t+1} = \hat{\mathbf{A}} \mathbf{X}_t \mathbf{W} + \mathbf{U} \mathbf{B}, \qquad
        \mathbf{X}_0 = 0, \qquad \mathbf{Y} = \mathrm{MLP}(\mathbf{X}_T),

    where :math:`\hat{\mathbf{A}}` is the normalised adjacency matrix with self-loops and
    :math:`\mathbf{U}` the input of the block, the same at every step. Nothing between two steps is
    nonlinear, so that the Jacobian is a power of :math:`\hat{\mathbf{A}}` times one of
    :math:`\mathbf{W}`.

    Args:
        num_layers (int): Steps :math:`T` of a block.
        num_blocks (int, optional): Number of blocks.
    """

    card = Card(
        equation="X_(t+1) = A_hat X_t W + U B, U' = U + MLP(LN(X_T))",
        reference="Ceni et al., Message-Passing State-Space Models: Improving Graph Learning with "
        "Modern Sequence Modeling, 2025 (arXiv:2505.18728)",
        cost="N F^2 + E F",
        departures=(
            "A block adds its output to its input, and the state is normalised before the MLP.",
            "The steps are computed one after another; the paper has a parallel form too.",
        ),
    )

    def __init__(self, *sizes: int, num_blocks: int = 1, **shared: Unpack[EncodedOptions]) -> None:
        check_positive(num_blocks=num_blocks)
        super().__init__(*sizes, **shared)
        self.blocks = ModuleList(
            [_LinearBlock(self.hidden_channels, self.num_layers) for _ in range(num_blocks)]
        )

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        adjacency = shared_gcn_adjacency(graph, x.dtype)
        for block in self.blocks:
            x = x + F.dropout(block(x, adjacency), self.dropout, self.training)
        return x


class _LinearBlock(Module):
    def __init__(self, channels: int, num_steps: int) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.state_lin = Linear(channels, channels, bias=False)
        self.in_lin = Linear(channels, channels, bias=False)
        self.norm = LayerNorm(channels)
        self.mlp = MLP([channels, channels, channels], norm=None)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        given = self.in_lin(x)
        state = torch.zeros_like(given)
        for _ in range(self.num_steps):
            state = self.state_lin(propagate(adjacency, state)) + given
        out: Tensor = self.mlp(self.norm(state))
        return out


class TGCN(GraphModel):
    r"""A gated recurrent unit over time, fed by graph convolutions:

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
        if x.dim() != 3 or x.size(1) == 0 or x.size(2) != self.in_channels:
            raise ValueError(
                f"Expected a sequence for each node, [num_nodes, length, "
                f"in_channels={self.in_channels}] (got {list(x.size())})"
            )
        adjacency = shared_gcn_adjacency(graph, x.dtype)
        for cell in self.cells:
            # [N, L, C] -> [N, L, F]
            x = cell(x, adjacency)
        return F.dropout(F.relu(self._summarize(x)), self.dropout, self.training)

    def _summarize(self, states: Tensor) -> Tensor:
        """One state for the whole sequence: the last. [N, L, F] -> [N, F]"""
        return states[:, -1]


class A3TGCN(TGCN):
    r"""A learned mean over time of the states of :class:`TGCN`:

    .. math::
        \mathbf{Y} = \mathrm{ReLU} \Big( \sum_{t=1}^{L} \mathrm{softmax}(\mathbf{a})_t \,
        \mathbf{H}_t \Big) \mathbf{W} + \mathbf{b},

    where :math:`\mathbf{a}` has one learned entry for each element of the sequence and
    :math:`\mathbf{H}_t` is the state of :class:`TGCN`.

    Args:
        dropout (float, optional): Dropout of the mean state.
        seq_len (int, optional): Length :math:`L` of the sequence.
        carry_state (bool, optional): Whether the state is passed from one element to the next.
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
