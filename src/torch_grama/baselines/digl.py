"""DIGL: message passing on a diffused graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, Linear
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import GDC
from torch_geometric.utils import add_remaining_self_loops, coalesce, to_dense_adj

from torch_grama.baselines.graph_memo import GraphMemo
from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.nn.arguments import choose
from torch_grama.nn.graph_input import GraphInput

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
        if self.t <= 0:
            raise ValueError(f"Expected 't' to be positive (got {self.t})")
        if min(self.avg_degree, self.avg_degree if self.top_k is None else self.top_k) < 1:
            raise ValueError(
                f"Expected 'avg_degree' and 'top_k' to be at least 1 "
                f"(got avg_degree={self.avg_degree}, top_k={self.top_k})"
            )

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
        weight = (
            torch.ones(edge_index.size(1), device=edge_index.device)
            if edge_weight is None
            else edge_weight.detach()
        ).double()
        edge_index, weight = add_remaining_self_loops(edge_index, weight, 1.0, num_nodes)
        edge_index, weight = coalesce(edge_index, weight, num_nodes)
        edge_index, weight = gdc.transition_matrix(edge_index, weight, num_nodes, "sym")
        # [N, N], from row to column
        walk = to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=num_nodes)[0]
        matrix = self._diffuse(walk).round(decimals=10)
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

    def _diffuse(self, walk: Tensor) -> Tensor:
        eye = torch.eye(walk.size(0), dtype=walk.dtype, device=walk.device)
        if self.method == "heat":
            heat: Tensor = torch.linalg.matrix_exp(self.t * (walk - eye))
            return heat
        inverse: Tensor = torch.linalg.inv(eye - (1 - self.alpha) * walk)
        return self.alpha * inverse


def _threshold(matrix: Tensor, avg_degree: int) -> float:
    """Between the last entry that is kept and the first that is dropped.

    PyG's own search for it fails where a graph has just as many nodes as are kept for each.
    """
    count = avg_degree * matrix.size(0)
    if count >= matrix.numel():
        return 0.0
    last, next_one = matrix.flatten().sort(descending=True).values[count - 1 : count + 1].tolist()
    return float(last + next_one) / 2


class DIGL(GraphModel):
    r"""The method of `"Diffusion Improves Graph Learning" <https://arxiv.org/abs/1911.05485>`_ with
    graph convolutions, by PyG's :class:`~torch_geometric.nn.GCNConv`.

    .. math::
        \mathbf{H}^{(0)} = \mathbf{X} \mathbf{W}_0 + \mathbf{b}_0, \qquad
        \mathbf{H}^{(l+1)} = \mathbf{H}^{(l)} + \sigma \big( \mathrm{BN} ( \tilde{\mathbf{S}}
        \mathbf{H}^{(l)} \mathbf{W}^{(l)} + \mathbf{b}^{(l)} ) \big),

    where :math:`\tilde{\mathbf{S}}` is the sparsified diffusion matrix of
    :class:`~torch_grama.baselines.digl.GraphDiffusion`. It is computed for each graph by
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
        self.lin = Linear(self.in_channels, self.hidden_channels)
        self.convs = self.per_layer(
            lambda: GCNConv(self.hidden_channels, self.hidden_channels, normalize=False)  # type: ignore[abstract]
        )
        self.norms = self.per_layer(
            lambda: BatchNorm1d(self.hidden_channels) if batch_norm else Identity()
        )
        self.head = self.build_head(num_layers=2)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        edges = graph.edge_index, graph.edge_weight, graph.num_nodes
        edge_index, weight = self.memo.find(*edges, graph.batch, graph.batch_size)
        weight = weight.to(x.dtype)
        # [N, C] -> [N, F]
        h: Tensor = self.lin(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            update = F.relu(norm(conv(h, edge_index, weight)))
            update = F.dropout(update, self.dropout, self.training)
            h = h + update if self.residual else update
        return h
