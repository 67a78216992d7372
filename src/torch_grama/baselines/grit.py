"""GRIT: attention to all pairs of nodes, with states of the pairs that start from random walks."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, Module, ModuleList, Parameter
from torch_geometric.utils import scatter

from torch_grama.baselines.branch_stack import BatchView, FramedModel
from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import EdgeOptions
from torch_grama.baselines.products import weigh_without_loops
from torch_grama.baselines.scored_edges import SCORE_BOUND
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.engine.adjacency import value_type
from torch_grama.nn.engine.batch_norm import norm_marked_rows
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.norms import normalize
from torch_grama.nn.padding import current_padding


class GRIT(FramedModel):
    r"""Attention to all pairs of nodes. The pairs have states, which start from the probabilities
    of random walks of up to :math:`K - 1` steps,

    .. math::
        \mathbf{e}_{ij} = \mathbf{U} \, [\mathbf{I}, \mathbf{M}, \ldots, \mathbf{M}^{K-1}]_{ij}
        (+ \text{edge attributes}), \qquad \mathbf{M} = \mathbf{D}^{-1} \mathbf{A},

    and so do nodes, with the diagonal. A layer is

    .. math::
        \hat{\mathbf{e}}_{ij} &= \mathrm{ReLU} \left( \rho \left( (\mathbf{W}_Q \mathbf{x}_i +
        \mathbf{W}_K \mathbf{x}_j) \odot \mathbf{W}_w \mathbf{e}_{ij} \right) +
        \mathbf{W}_b \mathbf{e}_{ij} \right), \qquad
        \rho(z) = \mathrm{sign}(z) \sqrt{|z|}, \\
        \mathbf{a}_i &= \sum_j \mathrm{softmax}_j (\mathbf{w}^\top \hat{\mathbf{e}}_{ij})
        (\mathbf{W}_V \mathbf{x}_j + \mathbf{W}_E \hat{\mathbf{e}}_{ij}), \qquad
        \mathbf{u}_i = \mathbf{W}_O \left( \mathbf{a}_i \odot \mathbf{c} + \log(1 + d_i) \,
        \mathbf{a}_i \odot \mathbf{c}' \right),

    in each head, with scores kept within :math:`\pm 5` and :math:`d_i` the degree; then
    :math:`\mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathbf{u})`, :math:`\mathbf{x}' = \mathrm{BN}
    (\mathbf{h} + \mathrm{MLP}(\mathbf{h}))` and :math:`\mathbf{e}'_{ij} = \mathrm{BN}
    (\mathbf{e}_{ij} + \mathbf{W}_P \hat{\mathbf{e}}_{ij})`.

    Time and memory are quadratic in the nodes of a graph: a layer keeps about ten numbers for each
    pair and channel of a batch that is padded to its largest graph.

    Args:
        walk_length (int, optional): Matrices :math:`K` of the random walk.
    """

    card = Card(
        equation="p_ij = relu(rho((q_i + k_j) * w_ij) + b_ij), a_i = sum_j softmax_j(w p_ij) "
        "(v_j + W p_ij), h = BN(x + O(c a + c' log(1 + d) a)), x' = BN(h + MLP(h)), e' = BN(e + "
        "W p)",
        reference="Ma et al., Graph Inductive Biases in Transformers without Message Passing, "
        "2023 (arXiv:2305.17589)",
        cost="N F^2 + n N F^2, n nodes per graph",
        departures=(
            "Nodes without edges have a walk of no steps alone.",
            "The pairs of the last layer, which are not used, are not updated.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        heads: int = 4,
        walk_length: int = 16,
        attention_dropout: float = 0.0,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        check_positive(walk_length=walk_length)
        super().__init__(*sizes, **shared)
        channels = self.hidden_channels
        self.walk_length = walk_length
        self.node_walk_lin = Linear(walk_length, channels, bias=False)
        self.pair_walk_lin = Linear(walk_length, channels)
        self.attentions = self.per_layer(lambda: PairAttention(channels, heads, attention_dropout))
        self.frames = self.build_frames(1)
        self.pair_frames = ModuleList(
            [_PairFrame(channels, self.dropout) for _ in range(self.num_layers - 1)]
        )
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view = BatchView.of(graph)
        weight = weigh_without_loops(view.edge_index, view.edge_weight, value_type(x.dtype))
        walk = self._walk(view, weight)  # [B, n, n, K]
        diagonal = walk.diagonal(dim1=1, dim2=2).transpose(1, 2)
        x = x + self.node_walk_lin(view.unpack(diagonal))
        # [B, n, n, K] -> [B, n, n, F]
        pairs = self.pair_walk_lin(walk)
        if graph.edge_attr is not None:
            pairs = pairs.index_put(view.edge_places(), graph.edge_attr, accumulate=True)
        degree = scatter(weight, view.edge_index[1], dim_size=view.num_nodes, reduce="sum")
        real = _real_pairs(view)
        for layer, (attention, frame) in enumerate(zip(self.attentions, self.frames, strict=True)):
            update, new_pairs = attention(x, pairs, view, degree)
            x = frame(x, [update])
            if layer < len(self.pair_frames):
                pairs = self.pair_frames[layer](pairs, new_pairs, real)
        return x

    def _walk(self, view: BatchView, weight: Tensor) -> Tensor:
        """The probabilities of walks of 0 to K - 1 steps from the row to the column."""
        size = view.max_size
        step = weight.new_zeros(view.num_graphs, size, size)
        step = step.index_put(view.edge_places(), weight, accumulate=True)
        step = step / step.sum(dim=2, keepdim=True).clamp(min=1e-12)
        walks = [torch.eye(size, dtype=step.dtype, device=step.device).expand_as(step)]
        for _ in range(self.walk_length - 1):
            walks.append(walks[-1] @ step)
        return torch.stack(walks, dim=-1)


class PairAttention(Module):
    r"""The attention of :class:`GRIT`, without its norms."""

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.heads, self.dropout = heads, dropout
        self.query_lin = Linear(channels, channels)
        self.key_lin = Linear(channels, channels, bias=False)
        self.value_lin = Linear(channels, channels, bias=False)
        self.pair_lin = Linear(channels, 2 * channels)
        self.score = Parameter(torch.empty(heads, channels // heads))
        self.pair_value = Parameter(torch.empty(heads, channels // heads, channels // heads))
        self.degree_scale = Parameter(torch.empty(2, channels))
        self.out_lin = Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]
        torch.nn.init.xavier_normal_(self.score)
        for part in self.pair_value:
            torch.nn.init.xavier_normal_(part)
        torch.nn.init.ones_(self.degree_scale[0])
        torch.nn.init.zeros_(self.degree_scale[1])

    def forward(
        self, x: Tensor, pairs: Tensor, view: BatchView, degree: Tensor
    ) -> tuple[Tensor, Tensor]:
        query, key = view.pack(self.query_lin(x)), view.pack(self.key_lin(x))
        scale, shift = self.pair_lin(pairs).chunk(2, dim=-1)
        # [B, n, n, F], row for the node that reads
        found = F.relu(_signed_root((query.unsqueeze(2) + key.unsqueeze(1)) * scale) + shift)
        split = found.unflatten(-1, (self.heads, -1))
        scores = (split * self.score).sum(-1).clamp(-SCORE_BOUND, SCORE_BOUND)
        if view.mask is not None:
            scores = scores.masked_fill(~view.mask[:, None, :, None], -torch.inf)
        weight = F.dropout(scores.softmax(dim=2), self.dropout, self.training)
        value = view.pack(self.value_lin(x)).unflatten(-1, (self.heads, -1))
        read = torch.einsum("bijh,bjhd->bihd", weight, value)
        of_pairs = torch.einsum("bijh,bijhd->bihd", weight, split)
        read = read + torch.einsum("bihd,hde->bihe", of_pairs, self.pair_value)
        out = view.unpack(read.flatten(2))
        first, second = self.degree_scale
        mixed: Tensor = self.out_lin(out * (first + torch.log1p(degree).unsqueeze(1) * second))
        return mixed, found


class _PairFrame(Module):
    """Residual and batch norm of the pairs, over those of real nodes."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.lin = Linear(channels, channels)
        self.norm = BatchNorm1d(channels)

    def forward(self, pairs: Tensor, found: Tensor, real: Tensor) -> Tensor:
        rows = (pairs + F.dropout(self.lin(found), self.dropout, self.training)).flatten(0, 2)
        norm = self.norm
        if not self.training or len(rows) < 2:
            out = normalize(norm, rows)
        else:
            running = norm.running_mean, norm.running_var, norm.weight, norm.bias
            assert norm.momentum is not None
            marked = real.flatten()
            out = norm_marked_rows(
                rows, *running, norm.momentum, norm.eps, marked.sum().clamp(min=2), marked
            )
        return out.view_as(pairs)


def _real_pairs(view: BatchView) -> Tensor:
    """Which pairs :math:`(B, n, n)` are of two nodes of a real graph."""
    is_node = ~view.layout.padding
    padding = current_padding()
    if padding is not None:
        number = torch.arange(view.num_graphs, device=is_node.device)
        is_node = is_node & (number < padding.real[2]).unsqueeze(1)
    return is_node.unsqueeze(1) & is_node.unsqueeze(2)


def _signed_root(x: Tensor) -> Tensor:
    """The root of the size with the sign, with a finite slope everywhere."""
    return x.sign() * x.abs().clamp(min=1e-12).sqrt()
