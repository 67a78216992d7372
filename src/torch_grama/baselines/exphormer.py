"""Attention on a sparse graph: edges, an expander, virtual nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Unpack

import torch
from torch import Tensor
from torch.nn import Embedding, Linear, Module
from torch_geometric.utils import coalesce, remove_self_loops, to_dense_adj

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.branch_stack import EdgeOptions, build_frames, build_local_layers
from torch_grama.baselines.global_attention import EPSILON, sum_over_edges
from torch_grama.baselines.graph_model import POSITIONS, Card, check_heads
from torch_grama.baselines.layer_stack import EncodedModel
from torch_grama.nn.graph_input import GraphInput


@dataclass(frozen=True, eq=False)
class _Links:
    """The edges of the attention, those of the graph first, and the states they come with."""

    edge_index: Tensor
    state: Tensor


class Exphormer(EncodedModel):
    r"""The sparse transformer of `"Exphormer: Sparse Transformers for Graphs"
    <https://arxiv.org/abs/2303.06147>`_: a GPS layer whose attention runs along the edges of the
    graph, of an expander graph on the same nodes, and between each node and a few virtual nodes,

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

    .. note::
        The expander is the same in every layer and epoch. Cost and memory are linear in nodes and
        edges.

    Args:
        dropout (float, optional): Dropout inside the layers.
        expander_degree (int, optional): Half the degree of the expander; zero for none.
        num_virtual_nodes (int, optional): Virtual nodes per graph.
        expander_seed (int, optional): Seed of the expander.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + a), a_i = sum_j w_ij v_j / sum_j w_ij, w = "
        "exp(q k e) on edges, expander edges and virtual nodes, x' = BN(h + MLP(h))",
        reference="Shirzad et al., Exphormer: Sparse Transformers for Graphs, 2023",
        cost="N F^2 + (E + 2 d N) F, d the expander's degree",
        equivariant=False,
        takes_edge_attr=True,
        departures=(
            "One expander per seed and graph size; the paper's code draws one for each graph.",
            "Equivariant with expander_degree=0 alone.",
            POSITIONS,
        ),
    )

    ignores_edge_weight: bool = True
    drops_ends = False

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
        for name, size in (
            ("expander_degree", expander_degree),
            ("num_virtual_nodes", num_virtual_nodes),
        ):
            if size < 0:
                raise ValueError(f"Expected '{name}' not to be negative (got {size})")
        self.expander_degree = expander_degree
        self.expander_seed = expander_seed
        self.num_virtual_nodes = num_virtual_nodes
        self.graph_edge = Embedding(1, self.hidden_channels) if self.edge_dim is None else None
        self.expander_edge = Embedding(1, self.hidden_channels) if expander_degree > 0 else None
        self.virtual_node = Embedding(num_virtual_nodes, self.hidden_channels)
        self.to_virtual = Embedding(num_virtual_nodes, self.hidden_channels)
        self.from_virtual = Embedding(num_virtual_nodes, self.hidden_channels)
        self.ignores_edge_weight = local != "gcn"
        self.locals = build_local_layers(self, local)
        self.attentions = self.per_layer(lambda: _SparseAttention(self.hidden_channels, heads))
        self.frames = build_frames(self, 2)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
        links = self._link(edge_state, view)
        # [V, F] -> [V B, F], all graphs' first virtual nodes first
        virtual = self.virtual_node.weight.repeat_interleave(view.num_graphs, dim=0)
        for layer, (attention, frame) in enumerate(zip(self.attentions, self.frames, strict=True)):
            attended = attention(torch.cat([x, virtual]), links)
            update, edge_state = self.locals[layer](x, edge_state, view)
            x, virtual = frame(x, [attended[: x.size(0)], update]), attended[x.size(0) :]
        return x

    def _link(self, edge_state: Tensor | None, view: BatchView) -> _Links:
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
        return _Links(torch.cat(parts, dim=1), torch.cat(states))

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

    def forward(self, x: Tensor, links: _Links) -> Tensor:
        # [N + V B, F] -> [N + V B, H, d], and the same for the edges
        query, key, value, edge = (
            lin(part).unflatten(-1, (self.heads, -1))
            for lin, part in (
                (self.query, x),
                (self.key, x),
                (self.value, x),
                (self.edge, links.state),
            )
        )
        total, weight = sum_over_edges(query, key, value, edge, links.edge_index)
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
