"""The GatedGCN layer with edge states."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.edge_messages import gated_sum
from torch_grama.nn.norms import StepwiseBatchNorm

EDGE_STATES = {
    "block": "from recurrence to recurrence",
    "model": "and from block to block",
    "none": "not at all",
}


class GatedGCNConv(Module):
    r"""The layer of `"Residual Gated Graph ConvNets" <https://arxiv.org/abs/1711.07553>`_ in the
    form of the benchmarks that made it known, with an edge state:

    .. math::
        \hat{\mathbf{e}}_{ij} &= \mathbf{C} \mathbf{e}_{ij} + \mathbf{D} \mathbf{x}_i +
        \mathbf{E} \mathbf{x}_j, \qquad
        \mathbf{x}'_i = \mathrm{BN}\left( \mathbf{A} \mathbf{x}_i +
        \frac{\sum_j \sigma(\hat{\mathbf{e}}_{ij}) \odot \mathbf{B} \mathbf{x}_j}
        {\sum_j \sigma(\hat{\mathbf{e}}_{ij}) + \epsilon} \right), \\
        \mathbf{e}'_{ij} &= \mathbf{e}_{ij} +
        \mathrm{ReLU}(\mathrm{BN}(\hat{\mathbf{e}}_{ij})),

    where :math:`j \to i` are the edges. As a backbone it passes :math:`\mathbf{e}'` from one
    recurrence to the next.

    .. note::
        There is no activation and no skip connection on the nodes: inside GRAMA the recurrence does
        this. Batch statistics differ from one recurrence to the next, so each recurrence keeps its
        own running statistics.

    Args:
        channels (int): Width of node and edge states.
        has_edge_attr (bool, optional): Whether edge attributes of that width will be given. If
            not, every edge starts from one learned vector. (default: :obj:`False`)
        num_recurrences (int, optional): How many recurrences share the layer. (default: :obj:`1`)
        norm (str, optional): ``"batch_norm"`` or :obj:`None`. (default: :obj:`"batch_norm"`)
        normalize_gates (bool, optional): Whether gates add up to one. (default: :obj:`True`)
        edge_state (str, optional): Where :math:`\mathbf{e}'` is passed on: ``"block"``, from
            recurrence to recurrence; ``"model"``, also from block to block; ``"none"``: edges are
            not updated, for a last layer, whose edges are not used. (default: :obj:`"block"`)

    Shapes:
        - **input:** node states :math:`(N, F)`, edges :math:`(2, E)`, edge state :math:`(E, F)`
          *(optional)*
        - **output:** node states :math:`(N, F)`, edge state :math:`(E, F)`
    """

    def __init__(
        self,
        channels: int,
        has_edge_attr: bool = False,
        num_recurrences: int = 1,
        norm: str | None = "batch_norm",
        normalize_gates: bool = True,
        edge_state: str = "block",
    ) -> None:
        super().__init__()
        check_positive(channels=channels, num_recurrences=num_recurrences)
        if norm not in ("batch_norm", None):
            raise ValueError(f"Expected 'norm' to be 'batch_norm' or None (got {norm!r})")
        choose("edge_state", edge_state, EDGE_STATES)
        self.channels = channels
        self.norm = norm
        self.edge_state = edge_state
        self.normalize_gates = normalize_gates
        self.epsilon = 1e-6
        # A, B, D and E in one product
        self.node_lin = Linear(channels, 4 * channels)
        self.edge_lin = Linear(channels, channels, bias=False)
        self.initial_edge = None if has_edge_attr else Parameter(torch.empty(channels))
        self.node_norm = StepwiseBatchNorm(channels, num_recurrences) if norm else None
        self.edge_norm = StepwiseBatchNorm(channels, num_recurrences) if norm else None
        self.reset_parameters()
        if edge_state == "none":
            self.drop_edge_update()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for block in self.node_lin.weight.split(self.channels):
            torch.nn.init.xavier_uniform_(block)
        torch.nn.init.zeros_(self.node_lin.bias)
        torch.nn.init.xavier_uniform_(self.edge_lin.weight)
        if self.initial_edge is not None:
            torch.nn.init.normal_(self.initial_edge, std=0.1)
        for norm in (self.node_norm, self.edge_norm):
            if norm is not None:
                norm.reset_parameters()

    def drop_edge_update(self) -> None:
        r"""Leaves out the update of the edges, which will not be used."""
        self.edge_state, self.edge_norm = "none", None

    def drop_initial_edge(self) -> None:
        r"""Leaves out the vector that edges start from, because another block provides the edge
        states."""
        self.initial_edge = None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        step: int = 0,
        edge_order: Adjacency | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""Returns the new node states and the new edge state.

        Args:
            x (Tensor): Node states.
            edge_index (Tensor): Edges, from source to target.
            edge_attr (Tensor, optional): Edge state. (default: :obj:`None`)
            step (int, optional): Which running statistics to use. (default: :obj:`0`)
            edge_order (Adjacency, optional): The edges in order, where several calls share them; of
                :func:`~torch_grama.nn.engine.edge_messages.order_edges`. (default: :obj:`None`)
        """
        if edge_attr is None:
            if self.initial_edge is None:
                raise ValueError("Expected 'edge_attr' (the layer was built with has_edge_attr)")
            edge_attr = self.initial_edge.to(x.dtype).expand(edge_index.size(1), -1)
        # edges that are all the same are mapped once
        different = edge_attr[:1] if edge_attr.stride(0) == 0 else edge_attr
        # [N, F] -> [N, 4 F], and with [E, F] back to [N, F]
        out, gate_logit = gated_sum(
            self.node_lin(x),
            self.edge_lin(different),
            edge_index,
            edge_order,
            self.normalize_gates,
            self.epsilon,
        )
        if self.node_norm is not None:
            out = self.node_norm(out, step)
        if self.edge_state == "none":
            return out, edge_attr
        if self.edge_norm is None:
            return out, edge_attr + F.relu(gate_logit)
        return out, self.edge_norm(gate_logit, step, edge_attr)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, norm={self.norm!r})"
