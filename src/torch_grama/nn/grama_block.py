"""One block: coefficients, R linear steps, then norm, activation and dropout."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, overload

import torch
from torch import Tensor
from torch.nn import Dropout, Module, ModuleList, Parameter
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import (
    Activation,
    check_positive,
    choose,
    explain_old_names,
    resolve_activation,
)
from torch_grama.nn.backbone import (
    BackboneCall,
    BackboneLike,
    BoundBackbone,
    ask,
    build_backbone,
    reset_backbone,
)
from torch_grama.nn.coefficients import WAVE_RETENTION, ARMACoefficients, Coefficients
from torch_grama.nn.engine.adjacency import LinearMap
from torch_grama.nn.engine.recurrence import ENGINES, Recurrence
from torch_grama.nn.engine.sequence import PURE_ACTIVATIONS, Groups, NodeSequence, graph_mean
from torch_grama.nn.graph_input import GraphInput, read_graph_input
from torch_grama.nn.norms import NormLike, SequenceNorm

Gain = float | Literal["auto", "wave"] | None
OLD_COEFFICIENTS = {
    "normalization": "write coefficients=Coefficients(constraint=...)",
    "coefficient_update": "write coefficients=Coefficients(update=...)",
    "ar_order": "write coefficients=Coefficients(ar_order=...)",
    "ma_order": "write coefficients=Coefficients(ma_order=...)",
    "initial_poles": "write coefficients=Coefficients(poles=...)",
    "heads": "leave it out: heads only rescaled the scores",
    "carry_edge_state": "pass the backbone GatedGCNConv(channels, edge_state='none')",
}


class GRAMABlock(Module):
    r"""One block of GRAMA: an ARMA recurrence around a graph neural network.

    .. math::
        \mathbf{f}^{(t)} = \alpha \sum_{i=1}^{p} \phi_i \, \mathbf{f}^{(t-i)}
        + \sum_{j=1}^{q} \theta_j \, \boldsymbol{\delta}^{(t-j)} + \boldsymbol{\delta}^{(t)},
        \qquad \boldsymbol{\delta}^{(t)} = \gamma \, \mathrm{GNN}(\mathbf{f}^{(t-1)}),

    for :math:`t = L, \ldots, L + R - 1`, where each graph has its own coefficients :math:`\phi,
    \theta`. The :math:`R` new states then pass through the norm, states and residuals through the
    activation and dropout.

    .. note::
        The paper has no gain :math:`\gamma`. Its theory treats the residuals as an external input,
        but :math:`\boldsymbol{\delta} = \mathrm{GNN}(\mathbf{f})` closes the loop: every recurrence
        multiplies the scale of the states by up to
        :math:`\sum_i |\phi_i| + (1 + \sum_j |\theta_j|) \, \gamma \, \|\mathrm{GNN}\|`, and deep
        models explode. It has no retention :math:`\alpha` either: with coefficients that add up to
        one, a block can only add to a state, never replace it. Both are learned. They start at
        :math:`\gamma = 1 / R` (as for :math:`R = 2` if :math:`R = 1`) and :math:`\alpha = 1 -
        \gamma`, so that each step of an untrained block replaces a share of the past by the output
        of the backbone.

    .. note::
        Such a start averages: on a path, a node ten hops away has a share of :math:`10^{-8}` or
        less in the output, so a task that needs it gives almost no gradient. With ``gain="wave"`` a
        block starts as a wave equation in steps,

        .. math::
            \mathbf{f}^{(t)} = 2 \mathbf{f}^{(t-1)} - \mathbf{f}^{(t-2)} - (\mathbf{I} -
            \hat{\mathbf{A}}) \mathbf{f}^{(t-1)} \, \mathrm{diag}(w_1, \ldots, w_F),

        where the squared speeds :math:`w` run from 0 to 2 over the channels: each step carries the
        input one hop further, and states neither vanish nor explode. Training then changes all of
        it. It needs :class:`RootedGCNConv`, best without self-loops (the fastest channel then is
        the Chebyshev polynomial of the normalised adjacency matrix and loses nothing), at least two
        elements, and coefficients with the constraint ``"none"``.

    Args:
        channels (int): Width :math:`F` of states and residuals.
        backbone (str, Module or callable, optional): A name that :class:`~torch_grama.nn.GRAMA`
            knows, a module (cloned and re-initialised), or a callable from the number of channels
            to a module. (default: :obj:`"gcn"`)
        seq_len (int, optional): Length :math:`L` of the given sequence. (default: :obj:`4`)
        num_recurrences (int, optional): Number :math:`R` of recurrences. (default: :obj:`seq_len`)
        coefficients (str or Coefficients, optional): As in GRAMA. (default: :obj:`"selective"`)
        act (str or callable, optional): Activation after the recurrence. (default: :obj:`"relu"`)
        norm (str or callable, optional): Norm of the states, as in GRAMA. (default: :obj:`None`)
        dropout (float, optional): Dropout after the activation, as in GRAMA. (default: :obj:`0.0`)
        gain (float or str, optional): Where :math:`\gamma` and :math:`\alpha` start, as in GRAMA.
            (default: :obj:`"auto"`)
        has_edge_attr (bool, optional): Whether edge attributes are given. (default: :obj:`False`)
        share_weights (bool, optional): As in GRAMA. (default: :obj:`True`)
        engine (str, optional): As in :class:`~torch_grama.nn.Running`. (default: :obj:`"auto"`)

    Shapes:
        - **input:** states :math:`(L, N, F)`, residuals :math:`(L, N, F)`, edges :math:`(2, E)`
        - **output:** states :math:`(R, N, F)`, residuals :math:`(R, N, F)`
    """

    @explain_old_names(OLD_COEFFICIENTS)
    def __init__(
        self,
        channels: int,
        backbone: BackboneLike = "gcn",
        seq_len: int = 4,
        num_recurrences: int | None = None,
        coefficients: str | Coefficients = "selective",
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
        gain: Gain = "auto",
        has_edge_attr: bool = False,
        share_weights: bool = True,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        num_recurrences = seq_len if num_recurrences is None else num_recurrences
        coefficients = Coefficients.of(coefficients)
        check_positive(channels=channels, seq_len=seq_len, num_recurrences=num_recurrences)
        coefficients.check_orders(seq_len)
        if gain == "wave":
            coefficients = dataclasses.replace(coefficients, poles="wave")
        choose("engine", engine, ENGINES)
        self.channels = channels
        self.seq_len = seq_len
        self.num_recurrences = num_recurrences
        # powers of the map, which the linear engine sums, are huge beside the waves they add up to
        self.engine = "scan" if gain == "wave" and engine == "auto" else engine
        self.update = coefficients.update
        self.reads_last_only = False

        self.coefficients = coefficients.build(channels, seq_len)
        self.backbone: Module
        if share_weights:
            self.backbone = build_backbone(
                backbone, channels, num_recurrences, has_edge_attr, dropout
            )
            self._call = BackboneCall.inspect(self.backbone)
        else:
            copies = (
                build_backbone(backbone, channels, 1, has_edge_attr, dropout)
                for _ in range(num_recurrences)
            )
            self.backbone = ModuleList(copies)
            self._call = BackboneCall.inspect(self.backbone[0])
            for module in self._backbones()[1:]:
                ask(module, "drop_initial_edge")
        if not self._call.edges_leave:
            self._drop_last_edge_update()
        self._makes_waves = gain == "wave"
        if self._makes_waves and not hasattr(self._backbones()[0], "start_wave"):
            raise ValueError(
                f"Expected a backbone that can start as a wave for gain='wave', such as "
                f"RootedGCNConv (got {backbone_name(self.backbone)})"
            )
        self._start = _gain_and_retention(gain, num_recurrences)
        self.gain = None if self._start is None else Parameter(torch.empty(()))
        self.retention = None if self._start is None else Parameter(torch.empty(()))
        self.act = resolve_activation(act)
        self.norm = None if norm is None else SequenceNorm(norm, channels, num_recurrences)
        self._given_norm = norm
        self.dropout = Dropout(dropout)
        self._reset_gain()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self._backbones():
            reset_backbone(module)
        reset(self.norm)
        self.coefficients.reset_parameters()
        self._reset_gain()

    def _reset_gain(self) -> None:
        for module in self._backbones() if self._makes_waves else ():
            ask(module, "start_wave")
        if self._start is not None and self.gain is not None and self.retention is not None:
            torch.nn.init.constant_(self.gain, self._start[0])
            torch.nn.init.constant_(self.retention, self._start[1])

    def read_last_only(self) -> None:
        r"""Makes :meth:`run` return the last state only, and drops what only other states need."""
        self.reads_last_only = True
        if self._given_norm is not None:
            self.norm = SequenceNorm(self._given_norm, self.channels, 1)
        self._drop_last_edge_update()

    def take_edges(self) -> None:
        r"""Tells the block that another block passes its edge states on to it, if so."""
        if self._call.edges_leave:
            ask(self._backbones()[0], "drop_initial_edge")

    def _drop_last_edge_update(self) -> None:
        # Edges that the last recurrence makes are read by nobody. A module with no other
        # recurrence to serve would hold parameters without a gradient.
        if isinstance(self.backbone, ModuleList) or self.num_recurrences == 1:
            ask(self._backbones()[-1], "drop_edge_update")

    def _backbones(self) -> list[Module]:
        return list(self.backbone) if isinstance(self.backbone, ModuleList) else [self.backbone]

    @property
    def ar_order(self) -> int:
        r"""Order :math:`p` of the autoregressive part."""
        return self.coefficients.ar_order

    @property
    def ma_order(self) -> int:
        r"""Order :math:`q` of the moving average."""
        return self.coefficients.ma_order

    @overload
    def forward(
        self,
        states: Tensor,
        residuals: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = ...,
        edge_attr: Tensor | None = ...,
        batch: Tensor | None = ...,
        batch_size: int | None = ...,
        return_coefficients: Literal[False] = ...,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self,
        states: Tensor,
        residuals: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = ...,
        edge_attr: Tensor | None = ...,
        batch: Tensor | None = ...,
        batch_size: int | None = ...,
        return_coefficients: Literal[True] = ...,
    ) -> tuple[Tensor, Tensor, ARMACoefficients]: ...
    def forward(
        self,
        states: Tensor,
        residuals: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        return_coefficients: bool = False,
    ) -> tuple[Tensor, Tensor] | tuple[Tensor, Tensor, ARMACoefficients]:
        r"""Returns the new states and residuals, and the coefficients if asked for."""
        self._check_sequence(states, residuals)
        graph = read_graph_input(
            states.size(1), edge_index, edge_weight, edge_attr, batch, batch_size
        )
        self.check(graph)
        sequence, coefficients, _ = self.run(NodeSequence(states, residuals), graph, False)
        states, residuals = sequence.materialize()
        if return_coefficients:
            return states, residuals, coefficients
        return states, residuals

    def run(
        self, sequence: NodeSequence, graph: GraphInput, is_inside: bool = True
    ) -> tuple[NodeSequence, ARMACoefficients, GraphInput]:
        r"""Runs the block on a graph that was checked before; inside a model, nothing else sees the
        gradients of the result.

        Returns the new sequence (sometimes before its activation), the coefficients, and the graph
        with the edge attributes for the next block.
        """
        graph = self.keep_first(sequence, graph)
        backbone = self._bind(graph)
        residuals: Tensor | None
        if self.update == "step":
            states, residuals, coefficients = self._run_stepwise(sequence, graph, backbone)
            if is_inside and self.reads_last_only:
                states, residuals = states[-1:], None
        else:
            pools = self.coefficients.is_selective
            recurrence = Recurrence(
                backbone,
                self.num_recurrences,
                # coefficients that are the same for all graphs make one group of all nodes
                graph.groups if pools else Groups(),
                self.gain,
                pools,
                self.engine,
                is_inside and self.reads_last_only,
                overwrites=is_inside and self.norm is None and self.act in PURE_ACTIVATIONS,
            )
            states, residuals, phi, theta = recurrence.run(sequence, self._select)
            if not pools:
                phi, theta = (c.expand(graph.batch_size, -1) for c in (phi, theta))
            coefficients = ARMACoefficients(phi, theta)
        if self._call.edges_leave and isinstance(backbone, BoundBackbone):
            graph = dataclasses.replace(graph, edge_attr=backbone.edge_state)
        return self._finish(states, residuals, graph), coefficients, graph

    def _select(self, states: Tensor, residuals: Tensor | None) -> ARMACoefficients:
        phi, theta = self.coefficients(states, residuals)
        return ARMACoefficients(phi if self.retention is None else self.retention * phi, theta)

    def bind(
        self,
        num_nodes: int,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Callable[[Tensor], Tensor]:
        r"""Returns :math:`\mathbf{f} \mapsto \gamma \, \mathrm{GNN}(\mathbf{f})` on a graph.

        This is what closes the loop; :mod:`torch_grama.analysis` measures it.
        """
        graph = read_graph_input(num_nodes, edge_index, edge_weight, edge_attr, batch, batch_size)
        self.check(graph)

        def loop(x: Tensor) -> Tensor:
            # bound anew for each call: every call is a first recurrence; what x_0 adds is the same
            # in all of them, and no part of the loop
            backbone = self._bind(dataclasses.replace(graph, x_0=torch.zeros_like(x)))
            return backbone(x) * (1.0 if self.gain is None else self.gain)

        return loop

    def check(self, graph: GraphInput) -> None:
        r"""Raises a :class:`ValueError` if the backbone cannot use what the graph has."""
        self._call.check(self.backbone, graph)

    def prepare(self, graph: GraphInput) -> None:
        r"""Computes the matrices of the graph that the block will need."""
        self._bind(graph)

    def keep_first(self, sequence: NodeSequence, graph: GraphInput) -> GraphInput:
        r"""Returns the graph with the newest state for this and all later blocks, if the backbone
        takes one and no block before has kept its own.
        """
        if not self._call.x_0 or graph.x_0 is not None:
            return graph
        return dataclasses.replace(graph, x_0=sequence.act(sequence.states[-1]))

    def _finish(self, states: Tensor, residuals: Tensor | None, graph: GraphInput) -> NodeSequence:
        if self.norm is not None:
            states = self.norm(states, graph.batch, graph.batch_size)
        if self.dropout.p > 0 and self.training:
            active = NodeSequence.activated(states, residuals, self.act)
            states = self.dropout(active.act(active.states))
            if active.residuals is not None:
                residuals = self.dropout(active.act(active.residuals))
            return NodeSequence(states, residuals)
        if self.norm is not None and self.act in PURE_ACTIVATIONS:
            # whoever watches the norm may have kept what it returned
            return NodeSequence(states, residuals, self.act)
        return NodeSequence.activated(states, residuals, self.act)

    def _run_stepwise(
        self, sequence: NodeSequence, graph: GraphInput, backbone: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, ARMACoefficients]:
        states, residuals = (list(part.unbind(0)) for part in sequence.materialize())
        groups = graph.groups if self.coefficients.is_selective else Groups()
        used = []
        for _ in range(self.num_recurrences):
            window = torch.stack(states[-self.seq_len :]), torch.stack(residuals[-self.seq_len :])
            phi, theta = self._select(
                *(graph_mean(part, graph.batch, graph.batch_size) for part in window)
            )
            step = Recurrence(backbone, 1, groups, self.gain, engine="reference")
            new = step.run(NodeSequence(*window), lambda *_, c=(phi, theta): c)
            assert new.residuals is not None
            states.append(new.states[0])
            residuals.append(new.residuals[0])
            used.append([c.expand(graph.batch_size, -1) for c in (phi, theta)])
        coefficients = ARMACoefficients(*(torch.stack(parts) for parts in zip(*used, strict=True)))
        kept = slice(-self.num_recurrences, None)
        return torch.stack(states[kept]), torch.stack(residuals[kept]), coefficients

    def _bind(self, graph: GraphInput) -> BoundBackbone | LinearMap:
        bound = BoundBackbone(self.backbone, self._call, graph)
        linear = bound.as_linear_map(self.channels) if self.engine in ("auto", "linear") else None
        return bound if linear is None else linear

    def _check_sequence(self, states: Tensor, residuals: Tensor) -> None:
        if states.dim() != 3 or states.size(0) != self.seq_len or states.size(2) != self.channels:
            raise ValueError(
                f"Expected 'states' of shape [{self.seq_len}, num_nodes, {self.channels}] "
                f"(got {list(states.size())})"
            )
        if states.size() != residuals.size():
            raise ValueError(
                f"Expected 'residuals' of the same shape as 'states' "
                f"(got {list(residuals.size())} and {list(states.size())})"
            )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, seq_len={self.seq_len}, "
            f"num_recurrences={self.num_recurrences}, "
            f"backbone={backbone_name(self.backbone)})"
        )


def backbone_name(backbone: Module) -> str:
    module = backbone[0] if isinstance(backbone, ModuleList) else backbone
    return type(module).__name__


def _gain_and_retention(
    gain: float | str | None, num_recurrences: int
) -> tuple[float, float] | None:
    if gain is None:
        return None
    if gain == "auto":
        start = 1 / max(num_recurrences, 2)
        return start, 1 - start
    if gain == "wave":
        return 1.0, WAVE_RETENTION
    if isinstance(gain, str) or not math.isfinite(gain):
        raise ValueError(
            f"Expected 'gain' to be 'auto', 'wave', a finite number or None (got {gain!r})"
        )
    return float(gain), 1.0
