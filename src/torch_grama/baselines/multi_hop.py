"""Models that see several hops at once: side by side, or by a diffusion of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, Linear, ModuleList, Parameter
from torch_geometric.nn import GCNConv, MixHopConv
from torch_geometric.transforms import GDC
from torch_geometric.utils import add_remaining_self_loops, coalesce, to_dense_adj

from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.baselines.hop_pairs import GraphMemo, RingMatrices
from torch_grama.baselines.products import propagate, weigh_without_loops
from torch_grama.nn.arguments import check_number, check_positive, choose
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import gcn_adjacency, shared_gcn_adjacency, sum_adjacency
from torch_grama.nn.neighbor_convs import convolve
from torch_grama.nn.norms import normalize


class H2GCN(GraphModel):
    r"""The neighbours and those at distance two, apart from each other and from the node:

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
        rings = self.rings.find(graph, x.dtype)
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
    r"""Several powers of the adjacency matrix side by side:

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
            out = convolve(conv, x, graph.edge_index, graph.edge_weight)
            x = F.relu(normalize(norm, out))
            x = F.dropout(x, self.dropout, self.training)
        return x


class FSGNN(GraphModel):
    r"""A weighted choice among the features of several hops:

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


DIFFUSIONS = {"ppr": "personalised PageRank", "heat": "the heat kernel"}


@dataclass(frozen=True)
class GraphDiffusion:
    r"""The transform of `"Diffusion Improves Graph Learning" <https://arxiv.org/abs/1911.05485>`_.

    .. math::
        \mathbf{S} = \alpha \big( \mathbf{I} - (1 - \alpha) \hat{\mathbf{A}} \big)^{-1}
        \qquad \text{or} \qquad
        \mathbf{S} = e^{-t} \, e^{t \hat{\mathbf{A}}}, \qquad
        \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2},

    then small entries are dropped and what enters a node is scaled to sum to one. Normalisation and
    sparsification are those of PyG's :class:`~torch_geometric.transforms.GDC`; the dense matrix is
    made by torch alone, in float64, and rounded to ten decimals so that entries that are equal stay
    equal whatever the numbering of the nodes.
    """

    method: str = "ppr"  #: ``"ppr"`` or ``"heat"``
    alpha: float = 0.15  #: return probability of ``"ppr"``
    t: float = 5.0  #: diffusion time of ``"heat"``
    avg_degree: int = 16  #: keep the largest entries, so many for each node on average
    top_k: int | None = None  #: keep so many entries for each node instead
    max_nodes: int = 20_000  #: the largest graph that is taken, since the matrix is dense

    def __post_init__(self) -> None:
        choose("diffusion", self.method, DIFFUSIONS)
        if not 0 < self.alpha <= 1:
            raise ValueError(f"Expected 'alpha' to be above 0 and at most 1 (got {self.alpha})")
        check_number("t", self.t, above=0)
        check_positive(avg_degree=self.avg_degree, top_k=self.top_k)

    def __call__(
        self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> tuple[Tensor, Tensor]:
        r"""Returns the edges and the weights of the diffused graph, self-loops among them.

        Args:
            edge_index (Tensor): Edges :math:`(2, E)` of one graph.
            edge_weight (Tensor, optional): Edge weights :math:`(E)`, not negative.
            num_nodes (int): Number of nodes.

        Raises:
            ValueError: If the graph has more than :obj:`max_nodes` nodes.
        """
        if num_nodes > self.max_nodes:
            raise ValueError(
                f"Expected a graph of at most max_nodes={self.max_nodes} nodes, since the "
                f"diffusion matrix is dense (got {num_nodes})"
            )
        if num_nodes == 0:
            return edge_index, torch.zeros(0, dtype=torch.float64, device=edge_index.device)
        gdc = GDC()
        if edge_weight is None:
            edge_weight = torch.ones(edge_index.size(1), device=edge_index.device)
        weight = edge_weight.detach().double()
        edge_index, weight = add_remaining_self_loops(edge_index, weight, 1.0, num_nodes)
        edge_index, weight = coalesce(edge_index, weight, num_nodes)
        edge_index, weight = gdc.transition_matrix(edge_index, weight, num_nodes, "sym")
        # [N, N], from row to column
        walk = to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=num_nodes)[0]
        eye = torch.eye(num_nodes, dtype=walk.dtype, device=walk.device)
        if self.method == "heat":
            matrix: Tensor = torch.linalg.matrix_exp(self.t * (walk - eye))
        else:
            matrix = self.alpha * torch.linalg.inv(eye - (1 - self.alpha) * walk)
        matrix = matrix.round(decimals=10)
        if self.top_k is None:
            eps = _threshold(matrix, self.avg_degree)
            edge_index, weight = gdc.sparsify_dense(matrix, method="threshold", eps=eps)
        else:
            edge_index, weight = gdc.sparsify_dense(matrix, method="topk", k=self.top_k, dim=0)
        # nodes that no walk joins
        edge_index, weight = edge_index[:, weight > 0], weight[weight > 0]
        edge_index, weight = coalesce(edge_index, weight, num_nodes)
        edge_index, weight = gdc.transition_matrix(edge_index, weight, num_nodes, "col")
        return edge_index, weight


def _threshold(matrix: Tensor, avg_degree: int) -> float:
    """Between the last entry that is kept and the first that is dropped; PyG's own search for it
    fails where a graph has just as many nodes as are kept for each."""
    count = avg_degree * matrix.size(0)
    if count >= matrix.numel():
        return 0.0
    last, next_one = matrix.flatten().sort(descending=True).values[count - 1 : count + 1].tolist()
    return float(last + next_one) / 2


class DIGL(GraphModel):
    r"""Graph convolutions on a diffused graph:

    .. math::
        \mathbf{H}^{(0)} = \mathbf{X} \mathbf{W}_0 + \mathbf{b}_0, \qquad
        \mathbf{H}^{(l+1)} = \mathbf{H}^{(l)} + \sigma \big( \mathrm{BN} ( \tilde{\mathbf{S}}
        \mathbf{H}^{(l)} \mathbf{W}^{(l)} + \mathbf{b}^{(l)} ) \big),

    where :math:`\tilde{\mathbf{S}}` is the sparsified diffusion matrix of
    :class:`~torch_grama.baselines.GraphDiffusion`. It is computed for each graph by
    itself, also inside a batch, and remembered: a graph is diffused once.

    Args:
        dropout (float, optional): Dropout after each layer.
        diffusion (GraphDiffusion or str, optional): The transform, or the word for one with the
            settings that follow: ``"ppr"`` or ``"heat"``.
        alpha (float, optional): Return probability of ``"ppr"``.
        t (float, optional): Diffusion time of ``"heat"``.
        avg_degree (int, optional): Keep the largest entries, so many for each node on average.
        top_k (int, optional): Keep so many entries for each node instead.
        residual (bool, optional): Whether a layer adds its input.
        cached (bool, optional): Whether diffused graphs are remembered.
    """

    card = Card(
        equation="H <- H + relu(BN(S H W)),  S = a (I - (1-a) A)^-1 sparsified",
        reference="Gasteiger et al., Diffusion Improves Graph Learning, 2019 (arXiv:1911.05485)",
        cost="N F^2 + E_S F, and N^3 once per graph",
        source="torch_geometric.transforms.GDC, torch_geometric.nn.GCNConv",
        departures=(
            "The convolutions have batch norm and a skip connection, which the paper leaves to the "
            "model that is combined with it.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        diffusion: GraphDiffusion | str = "ppr",
        alpha: float = 0.15,
        t: float = 5.0,
        avg_degree: int = 16,
        top_k: int | None = None,
        residual: bool = True,
        batch_norm: bool = True,
        cached: bool = True,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        if isinstance(diffusion, str):
            diffusion = GraphDiffusion(diffusion, alpha, t, avg_degree, top_k)
        self.memo = GraphMemo(diffusion) if cached else GraphMemo(diffusion, max_pairs=0)
        self.residual = residual
        width = self.hidden_channels
        self.lin = Linear(self.in_channels, width)
        self.convs = self.per_layer(lambda: GCNConv(width, width, normalize=False))  # type: ignore[abstract]
        self.norms = self.per_layer(lambda: BatchNorm1d(width) if batch_norm else Identity())
        self.head = self.build_head(num_layers=2)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        edge_index, weight = self.memo.find(graph)
        weight = weight.to(x.dtype)
        # [N, C] -> [N, F]
        h: Tensor = self.lin(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            update = F.relu(normalize(norm, convolve(conv, h, edge_index, weight)))
            update = F.dropout(update, self.dropout, self.training)
            h = h + update if self.residual else update
        return h
