"""Attention whose scores read the edges, on pairs of nodes without an edge or on a few more."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Unpack

import torch
from torch import Tensor
from torch.nn import Embedding, Linear, Module
from torch.utils.checkpoint import checkpoint
from torch_geometric.utils import coalesce, remove_self_loops, scatter, to_dense_adj

from torch_grama.baselines.branch_stack import BatchView, FramedModel
from torch_grama.baselines.graph_model import POSITIONS, Card, check_heads
from torch_grama.baselines.layer_stack import EdgeOptions
from torch_grama.nn.arguments import check_count, check_number
from torch_grama.nn.engine.adjacency import gather
from torch_grama.nn.graph_input import GraphInput

# Scores are kept within these bounds before they are exponentiated.
SCORE_BOUND = 5.0
# Added to the sum of the weights.
EPSILON = 1e-6


def exponentiate(scores: Tensor) -> Tensor:
    r"""Returns :math:`\exp(\mathrm{clamp}(s, -5, 5))`, the weight of each score."""
    return torch.exp(scores.clamp(-SCORE_BOUND, SCORE_BOUND))


def sum_over_edges(
    query: Tensor, key: Tensor, value: Tensor, edge: Tensor, edge_index: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Sums the values :math:`(N, H, d)` that reach each node, and their weights :math:`(N, H, 1)`,
    the exponentials of the products of query, key and edge.
    """
    source, target = edge_index[0], edge_index[1]
    scores = (gather(query, target) * gather(key, source) * edge).sum(dim=-1, keepdim=True)
    weight = exponentiate(scores / math.sqrt(query.size(-1)))
    num_nodes = query.size(0)
    total = scatter(weight * gather(value, source), target, dim_size=num_nodes, reduce="sum")
    return total, scatter(weight, target, dim_size=num_nodes, reduce="sum")


class SAN(FramedModel):
    r"""Attention with weights of its own for pairs without an edge, as in the Long Range Graph
    Benchmark:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathbf{W}_O \, \mathrm{Attention}(\mathbf{x})),
        \qquad \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})),

    where, for each head,

    .. math::
        \mathrm{Attention}(\mathbf{x})_i = \frac{\sum_j w_{ij} \mathbf{v}_j}{\sum_j w_{ij} +
        10^{-6}}, \qquad w_{ij} = \frac{1}{1 + \gamma} \begin{cases}
        \exp \langle \mathbf{q}_i \odot \mathbf{k}_j \odot \mathbf{E} \mathbf{e}_{ij} \rangle
        & j \to i \text{ is an edge} \\
        \gamma \exp \langle \mathbf{q}'_i \odot \mathbf{k}'_j \odot \mathbf{E}' \mathbf{e}' \rangle
        & \text{otherwise}, \; j \ne i
        \end{cases}

    over the nodes of the graph of :math:`i`, where :math:`\langle \cdot \rangle` adds up the
    channels, divides by :math:`\sqrt{d}` and keeps the score within :math:`\pm 5`. Without edge
    attributes all edges share one learned vector.

    Args:
        gamma (float, optional): Weight :math:`\gamma` of the pairs without an edge; zero for
            attention along the edges alone. (default: :obj:`1e-6`, as in the benchmark)
    """

    card = Card(
        equation="a_i = sum_j w_ij v_j / sum_j w_ij, w = exp(q k e) on edges and gamma exp(q' k' "
        "e') elsewhere, h = BN(x + W a), x' = BN(h + MLP(h))",
        reference="Kreuzer et al., Rethinking Graph Transformers with Spectral Attention, 2021 "
        "(arXiv:2106.03893)",
        cost="N F^2 + n N F + E F, n nodes per graph",
        departures=(
            "The learned Laplacian encoding is left out: encodings are those of all models here.",
            "Dropout follows the output map of the attention instead of preceding it.",
        ),
    )
    ignores_edge_weight: bool = True

    def __init__(
        self, *sizes: int, heads: int = 4, gamma: float = 1e-6, **shared: Unpack[EdgeOptions]
    ) -> None:
        super().__init__(*sizes, **shared)
        self.gamma = gamma
        self.present_edge = Embedding(1, self.hidden_channels) if self.edge_dim is None else None
        self.absent_edge = Embedding(1, self.hidden_channels)
        self.attentions = self.per_layer(lambda: SANAttention(self.hidden_channels, heads, gamma))
        self.out_lins = self.per_layer(lambda: Linear(self.hidden_channels, self.hidden_channels))
        self.frames = self.build_frames(1)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
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


DEFAULT_ELEMENTS = 2**25


class SANAttention(Module):
    r"""The attention of :class:`SAN`. The scores of the pairs without an edge are made for some
    rows at a time and again in the backward pass, so that no tensor has more than
    :obj:`max_elements` of them; what stays quadratic is one byte a pair for which pairs these are
    (25 MB for 128 graphs of 444 nodes, 0.5 GB for one of 22,662).
    """

    def __init__(
        self, channels: int, heads: int, gamma: float, max_elements: int = DEFAULT_ELEMENTS
    ) -> None:
        super().__init__()
        check_heads(channels, heads)
        check_number("gamma", gamma)
        self.heads, self.gamma, self.max_elements = heads, gamma, max_elements
        self.query, self.key, self.edge, self.value = (
            Linear(channels, channels, bias=False) for _ in range(4)
        )
        self.absent_query, self.absent_key, self.absent_edge = (
            Linear(channels, channels, bias=False) for _ in range(3)
        )

    def forward(
        self,
        x: Tensor,
        edge_state: Tensor,
        absent_state: Tensor,
        view: BatchView,
        is_absent: Tensor | None,
    ) -> Tensor:
        # x [N, F], edge_state [E, F], absent_state [F] of all pairs without an edge
        value = self.value(x)
        total, weight = sum_over_edges(
            self._split(self.query(x)),
            self._split(self.key(x)),
            self._split(value),
            self._split(self.edge(edge_state)),
            view.edge_index,
        )
        if is_absent is not None:
            absent_total, absent_weight = self._sum_over_absent_pairs(
                self.absent_query(x) * self.absent_edge(absent_state),
                self.absent_key(x),
                value,
                view,
                is_absent,
            )
            total = (total + self.gamma * absent_total) / (1 + self.gamma)
            weight = (weight + self.gamma * absent_weight) / (1 + self.gamma)
        # [N, H, d] -> [N, F]
        out: Tensor = (total / (weight + EPSILON)).flatten(1)
        return out

    def _split(self, x: Tensor) -> Tensor:
        # [N, F] -> [N, H, d]
        out: Tensor = x.unflatten(-1, (self.heads, -1))
        return out

    def _sum_over_absent_pairs(
        self, query: Tensor, key: Tensor, value: Tensor, view: BatchView, is_absent: Tensor
    ) -> tuple[Tensor, Tensor]:
        # [N, F] -> [B, n, F] -> [B, H, n, d]
        query, key, value = (
            view.pack(part).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (query, key, value)
        )
        rows = max(1, self.max_elements // max(1, query.size(0) * self.heads * view.max_size))
        sums = [
            checkpoint(_sum_rows, part, key, value, mask, use_reentrant=False)
            if view.max_size > rows and torch.is_grad_enabled()
            else _sum_rows(part, key, value, mask)
            for part, mask in zip(
                query.split(rows, dim=2), is_absent.split(rows, dim=1), strict=True
            )
        ]
        total, weight = (torch.cat(parts, dim=2) for parts in zip(*sums, strict=True))
        # [B, H, n, d] -> [N, H, d]
        total, weight = (
            view.unpack(part.transpose(1, 2).flatten(2)).unflatten(-1, (self.heads, -1))
            for part in (total, weight)
        )
        return total, weight


def mark_absent_pairs(view: BatchView) -> Tensor:
    r"""Returns which pairs of two nodes of one graph have no edge :math:`(B, n, n)`.

    Entry :math:`(b, i, j)` stands for :math:`j \to i`; padding is never marked.
    """
    mask = view.mask
    if mask is None:
        shape = (view.num_graphs, view.max_size, view.max_size)
        is_absent = torch.ones(shape, dtype=torch.bool, device=view.edge_index.device)
    else:
        is_absent = mask.unsqueeze(1) & mask.unsqueeze(2)
    is_absent[view.edge_places()] = False
    is_absent.diagonal(dim1=1, dim2=2).fill_(False)
    return is_absent


def _sum_rows(
    query: Tensor, key: Tensor, value: Tensor, is_absent: Tensor
) -> tuple[Tensor, Tensor]:
    """The sums of some rows :math:`(B, H, r, d)` over the marked pairs, and their weights."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weight = exponentiate(scores) * is_absent.unsqueeze(1)
    return weight @ value, weight.sum(dim=-1, keepdim=True)


class Exphormer(FramedModel):
    r"""A GPS layer whose attention runs along the edges of the graph, of an expander graph on the
    same nodes, and between each node and a few virtual nodes,

    .. math::
        \mathbf{u}_i = \frac{\sum_j w_{ij} \mathbf{v}_j}{\sum_j w_{ij} + 10^{-6}}, \qquad
        w_{ij} = \exp \left( \mathrm{clamp} \left( \frac{1}{\sqrt{d}} \sum_c q_{i,c} k_{j,c}
        (\mathbf{E} \mathbf{e}_{ij})_c, -5, 5 \right) \right),

    for each head, where :math:`\mathbf{e}_{ij}` is the edge attribute, or a learned vector for
    edges without one, for those of the expander, and for those from and to each virtual node. The
    virtual nodes start from learned states and keep what they read from layer to layer.

    .. warning::
        The expander knows the nodes by their numbers, so that renumbering them changes the result
        unless :obj:`expander_degree` is 0.

    Args:
        expander_degree (int, optional): Half the degree of the expander; zero for none.
        num_virtual_nodes (int, optional): Virtual nodes per graph.
        expander_seed (int, optional): Seed of the expander.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + a), a_i = sum_j w_ij v_j / sum_j w_ij, w = "
        "exp(q k e) on edges, expander edges and virtual nodes, x' = BN(h + MLP(h))",
        reference="Shirzad et al., Exphormer: Sparse Transformers for Graphs, 2023 "
        "(arXiv:2303.06147)",
        cost="N F^2 + (E + 2 d N) F, d the expander's degree",
        equivariant=False,
        departures=(
            "One expander per seed and graph size; the paper's code draws one for each graph.",
            "Equivariant with expander_degree=0 alone.",
            POSITIONS,
        ),
    )
    ignores_edge_weight: bool = True

    def __init__(
        self,
        *sizes: int,
        local: str = "gatedgcn",
        heads: int = 4,
        expander_degree: int = 3,
        num_virtual_nodes: int = 1,
        expander_seed: int = 0,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_heads(self.hidden_channels, heads)
        check_count("expander_degree", expander_degree, least=0)
        check_count("num_virtual_nodes", num_virtual_nodes, least=0)
        self.expander_degree, self.expander_seed = expander_degree, expander_seed
        self.num_virtual_nodes = num_virtual_nodes
        self.graph_edge = Embedding(1, self.hidden_channels) if self.edge_dim is None else None
        self.expander_edge = Embedding(1, self.hidden_channels) if expander_degree > 0 else None
        self.virtual_node = Embedding(num_virtual_nodes, self.hidden_channels)
        self.to_virtual = Embedding(num_virtual_nodes, self.hidden_channels)
        self.from_virtual = Embedding(num_virtual_nodes, self.hidden_channels)
        self.locals = self.build_locals(local)
        self.attentions = self.per_layer(lambda: _SparseAttention(self.hidden_channels, heads))
        self.frames = self.build_frames(2)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
        edge_index, edge = self._link(edge_state, view)
        # [V, F] -> [V B, F], all graphs' first virtual nodes first
        virtual = self.virtual_node.weight.repeat_interleave(view.num_graphs, dim=0)
        for layer, (attention, frame) in enumerate(zip(self.attentions, self.frames, strict=True)):
            attended = attention(torch.cat([x, virtual]), edge_index, edge)
            update, edge_state = self.locals[layer](x, graph, edge_state)
            x, virtual = frame(x, [attended[: x.size(0)], update]), attended[x.size(0) :]
        return x

    def _link(self, edge_state: Tensor | None, view: BatchView) -> tuple[Tensor, Tensor]:
        """The edges of the attention, those of the graph first, and the states they come with."""
        num_edges = view.edge_index.size(1)
        if edge_state is None:
            assert self.graph_edge is not None
            edge_state = self.graph_edge.weight.expand(num_edges, -1)
        parts, states = [view.edge_index], [edge_state]
        if self.expander_edge is not None:
            expander = self._expand(view)
            parts.append(expander)
            states.append(self.expander_edge.weight.expand(expander.size(1), -1))
        nodes = torch.arange(view.num_nodes, device=view.graph.device)
        for number in range(self.num_virtual_nodes):
            virtual = view.num_nodes + number * view.num_graphs + view.graph
            parts += [torch.stack([nodes, virtual]), torch.stack([virtual, nodes])]
            states += [
                kind.weight[number].expand(view.num_nodes, -1)
                for kind in (self.to_virtual, self.from_virtual)
            ]
        return torch.cat(parts, dim=1), torch.cat(states)

    def _expand(self, view: BatchView) -> Tensor:
        edges, first = [], 0
        for size in view.sizes.tolist():
            edges.append(expander_edges(size, self.expander_degree, self.expander_seed) + first)
            first += size
        return torch.cat(edges, dim=1).to(view.graph.device)


class _SparseAttention(Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.edge, self.value = (
            Linear(channels, channels, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor, edge_index: Tensor, edge: Tensor) -> Tensor:
        # [N + V B, F] -> [N + V B, H, d], and the same for the edges
        query, key, value, edge = (
            part.unflatten(-1, (self.heads, -1))
            for part in (self.query(x), self.key(x), self.value(x), self.edge(edge))
        )
        total, weight = sum_over_edges(query, key, value, edge, edge_index)
        return (total / (weight + EPSILON)).flatten(1)


# Below this size a random regular graph often fails, and the complete graph is small.
COMPLETE_UP_TO = 10
# Up to this size the spectral gap is measured.
MEASURED_UP_TO = 512
MAX_DRAWS = 10


@lru_cache(maxsize=4096)
def expander_edges(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    r"""Draws the edges of an expander graph, the same for the same arguments.

    The graph is the union of :obj:`degree` random permutations :math:`\pi` of the nodes, with
    edges :math:`i \to \pi(i)` and back: regular of degree :math:`2d` but for loops and double
    edges, which are taken out. Up to 512 nodes it is drawn again, ten times at most, until its
    second eigenvalue is at most :math:`2 \sqrt{2d - 1} + 0.1`, close to the smallest possible;
    larger random regular graphs have that property almost surely. Up to 10 nodes it is the
    complete graph. The edges are kept for the next call and must not be written to.
    """
    if degree == 0 or num_nodes < 2:
        return torch.zeros(2, 0, dtype=torch.long)
    if num_nodes <= COMPLETE_UP_TO:
        return (1 - torch.eye(num_nodes, dtype=torch.long)).nonzero().t().contiguous()
    generator = torch.Generator().manual_seed(seed)
    best, best_value = torch.zeros(2, 0, dtype=torch.long), math.inf
    for _ in range(MAX_DRAWS):
        edges = _draw_edges(num_nodes, degree, generator)
        if num_nodes > MEASURED_UP_TO:
            return edges
        value = _second_eigenvalue(edges, num_nodes)
        if value < best_value:
            best, best_value = edges, value
        if value <= 2 * math.sqrt(2 * degree - 1) + 0.1:
            break
    return best


def _draw_edges(num_nodes: int, degree: int, generator: torch.Generator) -> Tensor:
    nodes = torch.arange(num_nodes).repeat(degree)
    images = torch.cat([torch.randperm(num_nodes, generator=generator) for _ in range(degree)])
    edges = torch.stack([torch.cat([nodes, images]), torch.cat([images, nodes])])
    edges, _ = remove_self_loops(edges)
    unique: Tensor = coalesce(edges, num_nodes=num_nodes)
    return unique


def _second_eigenvalue(edges: Tensor, num_nodes: int) -> float:
    adjacency = to_dense_adj(edges, max_num_nodes=num_nodes)[0].double()
    return float(torch.linalg.eigvalsh(adjacency)[-2])
