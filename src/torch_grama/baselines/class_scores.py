"""Models that propagate the scores of classes: by their compatibility, and between all nodes."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Parameter
from torch_geometric.nn.models import MLP

from torch_grama.baselines.graph_model import Card, ModelOptions, ScoreModel
from torch_grama.baselines.products import gather_rows, propagate, weigh_without_loops
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import gcn_adjacency, shared_gcn_adjacency, sum_adjacency


class CPGNN(ScoreModel):
    r"""Beliefs that are passed on by the compatibility of the classes, in its MLP form:

    .. math::
        \bar{\mathbf{B}}^{(0)} = \mathrm{softmax}(\mathrm{MLP}(\mathbf{X})) - \tfrac{1}{C}, \qquad
        \bar{\mathbf{B}}^{(k)} = \bar{\mathbf{B}}^{(0)} + \mathbf{A} \bar{\mathbf{B}}^{(k-1)}
        \bar{\mathbf{H}}, \qquad \mathbf{Y} = \bar{\mathbf{B}}^{(K)},

    where :math:`\mathbf{A}` has no self-loops, and the centred compatibility matrix
    :math:`\bar{\mathbf{H}}` of the :math:`C` classes is learned. :meth:`fit_labels` trains the MLP
    alone for a while and then sets

    .. math::
        \bar{\mathbf{H}} = \tfrac{1}{2} (\mathbf{P} + \mathbf{P}^{\top}) - \tfrac{1}{C}, \qquad
        \mathbf{P} = \mathrm{Sinkhorn} \big( \mathbf{Y}_{train}^{\top} \mathbf{A}
        \tilde{\mathbf{B}} \big),

    where :math:`\tilde{\mathbf{B}}` holds the labels of the training nodes and the MLP's beliefs
    elsewhere. :meth:`auxiliary_loss` is the cross-entropy of the MLP on the training nodes, plus
    the absolute row sums of :math:`\bar{\mathbf{H}}`.

    Args:
        hidden_channels (int): Width of the hidden layer of the MLP.
        out_channels (int): Number of classes :math:`C`, at least 2.
        num_layers (int): Number of rounds :math:`K`.
        dropout (float, optional): Dropout of the features and of the hidden layer.
        normalize (bool, optional): Whether :math:`\mathbf{A}` is normalised symmetrically, which
            keeps the beliefs small on graphs of high degree.
        prior_loss_weight (float, optional): Weight of the cross-entropy of the MLP.
        pretrain_steps (int, optional): Steps of Adam on the MLP in :meth:`fit_labels`.
        pretrain_lr (float, optional): Their learning rate.
    """

    card = Card(
        equation="B <- B0 + A B H,  B0 = softmax(MLP(X)) - 1/C,  H learned from the labels",
        reference="Zhu et al., Graph Neural Networks with Heterophily, 2021 (arXiv:2009.13566)",
        cost="N C^2 + E C",
        departures=(
            "A training loop has to call fit_labels and auxiliary_loss, as the one here does; "
            "without, H starts at random and the prior learns through the posterior alone.",
            "The MLP is trained alone for a fixed number of steps; the released code keeps its "
            "best validation epoch.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        normalize: bool = False,
        prior_loss_weight: float = 1.0,
        pretrain_steps: int = 400,
        pretrain_lr: float = 0.01,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        if self.out_channels < 2:
            raise ValueError(
                f"Expected at least two classes, each with an output (got "
                f"out_channels={self.out_channels}); give a binary task two outputs"
            )
        self.normalize, self.prior_loss_weight = normalize, prior_loss_weight
        self.pretrain_steps, self.pretrain_lr = pretrain_steps, pretrain_lr
        widths = [self.in_channels, self.hidden_channels, self.out_channels]
        self.prior = MLP(widths, dropout=self.dropout, norm=None)
        self.compatibility = Parameter(torch.empty(self.out_channels, self.out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.prior.reset_parameters()
        torch.nn.init.xavier_uniform_(self.compatibility)
        with torch.no_grad():
            # rows that sum to zero, as compatibilities do once they are centred
            self.compatibility.sub_(self.compatibility.mean(dim=1, keepdim=True))

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        weight = weigh_without_loops(graph.edge_index, graph.edge_weight, x.dtype)
        build = partial(gcn_adjacency, loop_weight=None) if self.normalize else sum_adjacency
        adjacency = build(graph.edge_index, weight, graph.num_nodes, x.dtype)
        # [N, C_in] -> [N, C]
        first = self._prior_logits(x).softmax(dim=-1) - 1 / self.out_channels
        belief = first
        for _ in range(self.num_layers):
            belief = first + propagate(adjacency, belief @ self.compatibility)
        return belief

    def auxiliary_loss(
        self, y: Tensor, mask: Tensor, x: Tensor, *others: Tensor | int | None
    ) -> Tensor:
        r"""Returns the loss of the MLP on its own and the penalty that keeps the matrix centred;
        see :class:`~torch_grama.training.input_stage.AddsLoss`.
        """
        prior = F.cross_entropy(self._prior_logits(x)[mask], y[mask])
        return self.prior_loss_weight * prior + self.compatibility.sum(dim=1).abs().sum()

    def fit_labels(
        self,
        y: Tensor,
        mask: Tensor,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *others: Tensor | int | None,
    ) -> None:
        r"""Trains the MLP on the training nodes and estimates the compatibility of the classes; see
        :class:`~torch_grama.training.input_stage.FitsLabels`.
        """
        was_training = self.training
        self.train()
        optimizer = torch.optim.Adam(self.prior.parameters(), lr=self.pretrain_lr)
        with torch.enable_grad():
            for _ in range(self.pretrain_steps):
                optimizer.zero_grad()
                F.cross_entropy(self._prior_logits(x)[mask], y[mask]).backward()
                optimizer.step()
        optimizer.zero_grad()
        self.eval()
        with torch.no_grad():
            labels = F.one_hot(y.masked_fill(~mask, 0), self.out_channels).to(x.dtype)
            labels = labels * mask.unsqueeze(-1)
            belief = torch.where(mask.unsqueeze(-1), labels, self.prior(x).softmax(dim=-1))
            weight = weigh_without_loops(edge_index, edge_weight, x.dtype)
            adjacency = sum_adjacency(edge_index, weight, x.size(0), x.dtype)
            estimate = balance(labels.t() @ propagate(adjacency, belief))
            self.compatibility.copy_((estimate + estimate.t()) / 2 - 1 / self.out_channels)
        self.train(was_training)

    def _prior_logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.prior(F.dropout(x, self.dropout, self.training))
        return logits


def balance(matrix: Tensor, max_iterations: int = 3000) -> Tensor:
    r"""Scales rows and columns until all sum to one (Sinkhorn and Knopp). A small constant is
    added, so that the limit exists; a class that was never seen is compatible with all alike.
    """
    mean = matrix.mean()
    matrix = matrix + torch.where(mean > 0, 1e-4 * mean, 1.0)
    tolerance = 10 * torch.finfo(matrix.dtype).eps
    for _ in range(max_iterations):
        matrix = matrix / matrix.sum(dim=0, keepdim=True)
        rows = matrix.sum(dim=1, keepdim=True)
        matrix = matrix / rows
        if bool((rows - 1).abs().max() < tolerance):
            break
    return matrix


class GloGNN(ScoreModel):
    r"""Every node gathers from all nodes, by weights that solve a regression:

    .. math::
        \mathbf{H}^{(0)} &= \mathbf{W}_2 \, \mathrm{ReLU} \big( \delta \, \mathbf{X} \mathbf{W}_X +
        (1 - \delta) \mathbf{A} \mathbf{W}_A \big), \qquad
        \mathbf{H}^{(l+1)} = (1 - \gamma) \mathbf{Z}^{\ast} \mathbf{H}^{(l)} +
        \gamma \mathbf{H}^{(0)}, \\
        \mathbf{Z}^{\ast} &= \arg\min_{\mathbf{Z}} \; \Vert \mathbf{H}^{(l)} - (1 - \gamma)
        \mathbf{Z} \mathbf{H}^{(l)} - \gamma \mathbf{H}^{(0)} \Vert_F^2 + \alpha \Vert \mathbf{Z}
        \Vert_F^2 + \beta \Vert \mathbf{Z} - \mathbf{S} \Vert_F^2, \qquad
        \mathbf{S} = \sum_{k=1}^{K} \lambda_k \hat{\mathbf{A}}^k.

    The minimiser is never formed. With :math:`\mathbf{Q} = \mathbf{H} \big( (1 - \gamma)^2
    \mathbf{H}^{\top} \mathbf{H} + (\alpha + \beta) \mathbf{I} \big)^{-1}`, an inverse of the size
    of the output,

    .. math::
        \mathbf{Z}^{\ast} \mathbf{H} = (1 - \gamma) (\mathbf{H} - \gamma \mathbf{H}^{(0)})
        \mathbf{H}^{\top} \mathbf{Q} + \beta \, \mathbf{S} \mathbf{Q}.

    "All nodes" are the nodes of the same graph; the graphs of a batch do not see each other.

    Args:
        hidden_channels (int): Width of the hidden layer.
        num_layers (int): How often nodes gather.
        dropout (float, optional): Dropout of the features and of the hidden layer.
        alpha (float, optional): Weight of the size of :math:`\mathbf{Z}`.
        beta (float, optional): Weight of its distance to the graph.
        gamma (float, optional): Share of the first state, below 1.
        delta (float, optional): Share of the features in the first state; read with
            :obj:`num_nodes` alone.
        num_hops (int, optional): The highest power :math:`K`.
    """

    card = Card(
        equation="H <- (1-g) Z* H + g H0,  Z* the ridge fit of H by all nodes, near powers of A",
        reference="Li et al., Finding Global Homophily in Graph Neural Networks When Meeting "
        "Heterophily, 2022 (arXiv:2205.07308)",
        cost="N C^2 + C^3 + E C",
        departures=(
            "Without num_nodes the branch that reads rows of the adjacency matrix is left out.",
            "With num_nodes it learns a vector for each node: it then serves one graph and "
            "depends on the numbering of the nodes.",
            "GloGNN++, which weighs the outputs by a learned diagonal, is not included.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        alpha: float = 1.0,
        beta: float = 1.0,
        gamma: float = 0.1,
        delta: float = 0.5,
        num_hops: int = 2,
        num_nodes: int | None = None,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_positive(num_hops=num_hops, num_nodes=num_nodes)
        if min(alpha, beta) < 0 or alpha + beta == 0:
            raise ValueError(
                f"Expected 'alpha' and 'beta' not to be negative, and not both zero "
                f"(got alpha={alpha}, beta={beta})"
            )
        if not 0 <= gamma < 1:
            raise ValueError(f"Expected 'gamma' to be at least 0 and below 1 (got {gamma})")
        self.alpha, self.beta, self.gamma, self.delta = alpha, beta, gamma, delta
        self.lin = Linear(self.in_channels, self.hidden_channels)
        self.out_lin = Linear(self.hidden_channels, self.out_channels)
        self.node_weight = (
            None if num_nodes is None else Parameter(torch.empty(num_nodes, self.hidden_channels))
        )
        self.hop_weight = Parameter(torch.empty(num_hops))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.constant_(self.hop_weight, 1 / self.hop_weight.numel())
        if self.node_weight is not None:
            bound = self.node_weight.size(0) ** -0.5
            torch.nn.init.uniform_(self.node_weight, -bound, bound)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        # [N, C_in] -> [N, F]
        h: Tensor = self.lin(F.dropout(x, self.dropout, self.training))
        if self.node_weight is not None:
            rows = gather_rows(self.node_weight, graph, graph.edge_weight)
            h = self.delta * h + (1 - self.delta) * rows
        # [N, F] -> [N, C_out]
        first: Tensor = self.out_lin(F.dropout(F.relu(h), self.dropout, self.training))
        # no inverse in half precision
        with torch.autocast(x.device.type, enabled=False):
            first = first.to(x.dtype)
            h = first
            for _ in range(self.num_layers):
                h = (1 - self.gamma) * self._gather(h, first, graph) + self.gamma * first
        return h

    def _gather(self, h: Tensor, first: Tensor, graph: GraphInput) -> Tensor:
        """The minimiser times the states."""
        adjacency, batch, rest = shared_gcn_adjacency(graph, h.dtype), graph.batch, 1 - self.gamma
        eye = torch.eye(h.size(-1), dtype=h.dtype, device=h.device)
        system = rest**2 * _gram(h, h, graph) + (self.alpha + self.beta) * eye
        hop = q = _apply(h, torch.linalg.inv(system), batch)
        gathered = rest * _apply(h - self.gamma * first, _gram(h, q, graph), batch)
        for weight in self.hop_weight.unbind():
            hop = propagate(adjacency, hop)
            gathered = gathered + self.beta * weight * hop
        return gathered


def _gram(left: Tensor, right: Tensor, graph: GraphInput) -> Tensor:
    """The product of columns with columns over the nodes of each graph: [B, C, C]."""
    if graph.batch is None:
        return (left.t() @ right).unsqueeze(0)
    # [N, C, C], small since C is the width of the output
    products = left.unsqueeze(2) * right.unsqueeze(1)
    total = products.new_zeros(graph.batch_size, *products.shape[1:])
    return total.index_add(0, graph.batch, products)


def _apply(h: Tensor, matrices: Tensor, batch: Tensor | None) -> Tensor:
    """Each row times the matrix of its graph."""
    if batch is None:
        return h @ matrices[0]
    return torch.bmm(h.unsqueeze(1), matrices[batch]).squeeze(1)
