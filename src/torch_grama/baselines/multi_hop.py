"""Models that lay the features of several hops side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, Linear, ModuleList, Parameter
from torch_geometric.nn import MixHopConv

from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.baselines.hop_pairs import RingMatrices
from torch_grama.baselines.products import propagate, weigh_without_loops
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import gcn_adjacency, shared_gcn_adjacency, sum_adjacency


class H2GCN(GraphModel):
    r"""The model of `"Beyond Homophily in Graph Neural Networks: Current Limitations and Effective
    Designs" <https://arxiv.org/abs/2006.11468>`_.

    .. math::
        \mathbf{R}^{(0)} = \sigma(\mathbf{X} \mathbf{W}_e), \qquad
        \mathbf{R}^{(k)} = \bar{\mathbf{A}}_1 \mathbf{R}^{(k-1)} \,\Vert\,
        \bar{\mathbf{A}}_2 \mathbf{R}^{(k-1)}, \qquad
        \mathbf{Y} = \big( \mathbf{R}^{(0)} \,\Vert\, \cdots \,\Vert\, \mathbf{R}^{(K)} \big)
        \mathbf{W}_c + \mathbf{b},

    where :math:`\bar{\mathbf{A}}_d = \mathbf{D}_d^{-1/2} \mathbf{A}_d \mathbf{D}_d^{-1/2}` holds
    the pairs that are exactly :math:`d` edges apart; no node is its own neighbour. The state
    doubles its width with every round.

    Args:
        hidden_channels (int): Width of :math:`\mathbf{R}^{(0)}`.
        num_layers (int): Number of rounds :math:`K`.
        dropout (float, optional): Dropout before the last layer.
        cached (bool, optional): Whether to remember the rings of each graph.
    """

    card = Card(
        equation="R^k = A_1 R^(k-1) | A_2 R^(k-1),  Y = W [R^0 | ... | R^K],  exact rings 1 and 2",
        reference="Zhu et al., Beyond Homophily in Graph Neural Networks, 2020 (arXiv:2006.11468)",
        cost="(E + E_2) F 2^k, with E_2 pairs at distance two",
        departures=("Edge weights are not used: the rings are sets.",),
    )

    ignores_edge_weight: bool = True

    def __init__(self, *sizes: int, cached: bool = True, **shared: Unpack[ModelOptions]) -> None:
        super().__init__(*sizes, **shared)
        self.lin = Linear(self.in_channels, self.hidden_channels, bias=False)
        width = (2 ** (self.num_layers + 1) - 1) * self.hidden_channels
        self.head = self.build_head(width)
        self.rings = RingMatrices(max_hops=2, cached=cached, normalize=True)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        rings = self.rings.find(
            graph.edge_index, graph.num_nodes, x.dtype, graph.batch, graph.batch_size
        )
        # [N, C] -> [N, F]
        state = F.relu(self.lin(x))
        states = [state]
        for _ in range(self.num_layers):
            # twice as wide as the last
            state = torch.cat([propagate(ring, state) for ring in rings], dim=-1)
            states.append(state)
        # [N, (2^(K+1) - 1) F]
        return F.dropout(torch.cat(states, dim=-1), self.dropout, self.training)


class MixHop(GraphModel):
    r"""The model of `"MixHop: Higher-Order Graph Convolutional Architectures via Sparsified
    Neighborhood Mixing" <https://arxiv.org/abs/1905.00067>`_, by PyG's
    :class:`~torch_geometric.nn.MixHopConv`.

    .. math::
        \mathbf{H}^{(l+1)} = \sigma \Big( \mathrm{BN} \Big( \big\Vert_{p \in P} \,
        \hat{\mathbf{A}}^p \mathbf{H}^{(l)} \mathbf{W}_p^{(l)} + \mathbf{b}^{(l)} \Big) \Big),

    where :math:`\hat{\mathbf{A}}` has self-loops and is normalised symmetrically. The output is a
    linear layer of the last state.

    Args:
        hidden_channels (int): Width for each power; the states have :math:`|P|` times that.
        dropout (float, optional): Dropout after each layer.
        powers (sequence of int, optional): The powers :math:`P`.
        head_layers (int, optional): Number of linear layers at the end.
    """

    card = Card(
        equation="H <- relu(BN(|_p A^p H W_p)),  p in {0, 1, 2}",
        reference="Abu-El-Haija et al., MixHop: Higher-Order Graph Convolutional Architectures, "
        "2019 (arXiv:1905.00067)",
        cost="|P|^2 N F^2 + max(P) |P| E F",
        source="torch_geometric.nn.MixHopConv",
        departures=(
            "hidden_channels is the width for each power.",
            "The paper learns the share of each power by lasso; here all have the same width.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        powers: Sequence[int] = (0, 1, 2),
        batch_norm: bool = True,
        head_layers: int = 1,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        self.powers = sorted(set(powers))
        if not self.powers or self.powers[0] < 0:
            raise ValueError(
                f"Expected 'powers' to name at least one power, none negative (got {list(powers)})"
            )
        width = len(self.powers) * self.hidden_channels
        self.convs = ModuleList(
            MixHopConv(width if layer else self.in_channels, self.hidden_channels, self.powers)  # type: ignore[abstract]
            for layer in range(self.num_layers)
        )
        self.norms = self.per_layer(lambda: BatchNorm1d(width) if batch_norm else Identity())
        self.head = self.build_head(width, head_layers)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            # [N, F] -> [N, |P| F']
            x = F.relu(norm(conv(x, graph.edge_index, graph.edge_weight)))
            x = F.dropout(x, self.dropout, self.training)
        return x


class FSGNN(GraphModel):
    r"""The model of `"Improving Graph Neural Networks with Simple Architecture Design"
    <https://arxiv.org/abs/2105.07634>`_.

    .. math::
        \mathbf{Y} = \mathrm{ReLU} \Big( \big\Vert_{m} \; \alpha_m \, \mathrm{L2} \big(
        \mathbf{M}_m \mathbf{X} \mathbf{W}_m + \mathbf{b}_m \big) \Big) \mathbf{W} + \mathbf{b},
        \qquad \mathbf{M}_m \in \{ \mathbf{I}, \mathbf{A}, \tilde{\mathbf{A}}, \ldots,
        \mathbf{A}^K, \tilde{\mathbf{A}}^K \},

    where :math:`\mathbf{A}` has no self-loops and :math:`\tilde{\mathbf{A}}` has all of them, L2
    scales each row to length one, and :math:`\alpha = \mathrm{softmax}(\mathbf{a})` is learned.

    Args:
        hidden_channels (int): Width for each of the :math:`2 K + 1` matrices.
        num_layers (int): Number of hops :math:`K`.
        dropout (float, optional): Dropout before the last layer.
        normalize (bool, optional): Whether both matrices are normalised symmetrically, as in the
            paper.
    """

    card = Card(
        equation="Y = ReLU(|_m softmax(a)_m L2(M_m X W_m)) W,  M_m in {I, A, A+I, A^2, ...}",
        reference="Maurya et al., Improving Graph Neural Networks with Simple Architecture "
        "Design, 2021 (arXiv:2105.07634)",
        cost="N C F + E C",
        departures=(
            "Powers are normalised as in the paper; the evaluation of Platonov et al. used raw "
            "powers (normalize=false).",
        ),
    )

    def __init__(self, *sizes: int, normalize: bool = True, **shared: Unpack[ModelOptions]) -> None:
        super().__init__(*sizes, **shared)
        self.normalize = normalize
        num_matrices = 2 * self.num_layers + 1
        self.lins = ModuleList(
            Linear(self.in_channels, self.hidden_channels) for _ in range(num_matrices)
        )
        self.attention = Parameter(torch.empty(num_matrices))
        self.head = self.build_head(num_matrices * self.hidden_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.ones_(self.attention)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        features = [x]
        for matrix in self._matrices(graph, x.dtype):
            hop = x
            for _ in range(self.num_layers):
                hop = propagate(matrix, hop)
                features.append(hop)
        share = self.attention.softmax(dim=0)
        # (2 K + 1) times [N, C] -> [N, F]
        parts = [
            share[place] * F.normalize(lin(feature), dim=-1)
            for place, (lin, feature) in enumerate(zip(self.lins, features, strict=True))
        ]
        h = F.relu(torch.cat(parts, dim=-1))
        return F.dropout(h, self.dropout, self.training)

    def _matrices(self, graph: GraphInput, dtype: torch.dtype) -> tuple[Adjacency, Adjacency]:
        """Without and with self-loops."""
        edge_index, num_nodes = graph.edge_index, graph.num_nodes
        plain = weigh_without_loops(edge_index, graph.edge_weight, dtype)
        if self.normalize:
            without = gcn_adjacency(edge_index, plain, num_nodes, dtype, loop_weight=None)
            return without, shared_gcn_adjacency(graph, dtype)
        nodes = torch.arange(num_nodes, device=edge_index.device)
        with_loops = torch.cat([edge_index, nodes.expand(2, -1)], dim=1)
        weight = torch.cat([plain, plain.new_ones(num_nodes)])
        return (
            sum_adjacency(edge_index, plain, num_nodes, dtype),
            sum_adjacency(with_loops, weight, num_nodes, dtype),
        )
