"""CPGNN: belief propagation with a learned compatibility of the classes."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.models import MLP

from torch_grama.baselines.graph_head import NodeOutput
from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.baselines.products import propagate, weigh_without_loops
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import gcn_adjacency, sum_adjacency


class CPGNN(GraphModel):
    r"""The MLP form of `"Graph Neural Networks with Heterophily"
    <https://arxiv.org/abs/2009.13566>`_.

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
    the absolute row sums of :math:`\bar{\mathbf{H}}`. Without the two hooks the model starts from
    a small random :math:`\bar{\mathbf{H}}` and is still trained end to end.

    Args:
        hidden_channels (int): Width of the hidden layer of the MLP.
        out_channels (int): Number of classes :math:`C`, at least 2.
        num_layers (int): Number of rounds :math:`K`.
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' beliefs.
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
        self.head = NodeOutput(self.readout)
        if self.out_channels < 2:
            raise ValueError(
                f"Expected at least two classes, each with an output (got "
                f"out_channels={self.out_channels}); give a binary task two outputs"
            )
        self.normalize = normalize
        self.prior_loss_weight = prior_loss_weight
        self.pretrain_steps = pretrain_steps
        self.pretrain_lr = pretrain_lr
        self.prior = MLP(
            [self.in_channels, self.hidden_channels, self.out_channels],
            dropout=self.dropout,
            norm=None,
        )
        self.compatibility = Parameter(torch.empty(self.out_channels, self.out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.prior.reset_parameters()
        torch.nn.init.xavier_uniform_(self.compatibility)
        with torch.no_grad():
            # rows that sum to zero, as compatibilities do once they are centred
            self.compatibility.sub_(self.compatibility.mean(dim=1, keepdim=True))

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        adjacency = self._adjacency(graph.edge_index, graph.edge_weight, x)
        # [N, C_in] -> [N, C]
        first = self._prior_logits(x).softmax(dim=-1) - 1 / self.out_channels
        belief = first
        for _ in range(self.num_layers):
            belief = first + propagate(adjacency, belief @ self.compatibility)
        return belief

    def auxiliary_loss(
        self, y: Tensor, mask: Tensor, x: Tensor, *others: Tensor | int | None
    ) -> Tensor:
        r"""Returns the loss of the MLP on its own and the penalty that keeps the matrix centred.

        See :class:`~torch_grama.training.model_hooks.AddsLoss`.
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
        r"""Trains the MLP on the training nodes and estimates the compatibility of the classes.

        See :class:`~torch_grama.training.model_hooks.FitsLabels`.
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

    def _adjacency(self, edge_index: Tensor, edge_weight: Tensor | None, x: Tensor) -> Adjacency:
        weight = weigh_without_loops(edge_index, edge_weight, x.dtype)
        if self.normalize:
            return gcn_adjacency(edge_index, weight, x.size(0), x.dtype, loop_weight=None)
        return sum_adjacency(edge_index, weight, x.size(0), x.dtype)


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
