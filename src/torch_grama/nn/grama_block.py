"""One block: coefficients, R linear steps, then the activation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, overload

import torch
from torch import Tensor
from torch.nn import Dropout, Module, Parameter
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn.inits import reset

from torch_grama.nn.activation import Activation, resolve_activation
from torch_grama.nn.backbone import (
    BackboneCall,
    BackboneLike,
    BoundBackbone,
    build_backbone,
    reset_backbone,
)
from torch_grama.nn.choices import choose
from torch_grama.nn.coefficients import (
    ARMACoefficients,
    NaiveCoefficients,
    SelectiveCoefficients,
)
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.engine.handwritten import handwritten_gradients_work
from torch_grama.nn.engine.reading import Reading
from torch_grama.nn.engine.run import (
    ENGINES,
    Recurrence,
    prefers_horner,
    read_mixture,
    read_terms,
    run_horner,
    run_steps,
    uses_linear_engine,
)
from torch_grama.nn.grama_arguments import check_orders, check_positive
from torch_grama.nn.graph_input import GraphInput, read_graph_input
from torch_grama.nn.joint_selection import select_jointly
from torch_grama.nn.linear_backbone import LinearMap, find_linear_map
from torch_grama.nn.node_sequence import NodeSequence
from torch_grama.nn.sequence_norm import NormLike, build_norm, normalize_sequence

# Makes the sequence that a block is given; called when the block reads it.
SequenceSource = Callable[[], NodeSequence]

COEFFICIENTS = {"selective": SelectiveCoefficients, "naive": NaiveCoefficients}
_LINEAR_ENGINES = ("auto", "linear")
COEFFICIENT_UPDATES = {"block": "once a block", "step": "at every recurrence"}


class GRAMABlock(Module):
    r"""One block of GRAMA: an ARMA recurrence around a graph neural network.

    .. math::
        \mathbf{f}^{(t)} = \sum_{i=1}^{p} \phi_i \, \mathbf{f}^{(t-i)}
        + \sum_{j=1}^{q} \theta_j \, \boldsymbol{\delta}^{(t-j)} + \boldsymbol{\delta}^{(t)},
        \qquad \boldsymbol{\delta}^{(t)} = \gamma \, \mathrm{GNN}(\mathbf{f}^{(t-1)}),

    for :math:`t = L, \ldots, L + R - 1`, where the coefficients :math:`\phi, \theta` are those of
    each graph. The :math:`R` new states and residuals then pass through the norm, the activation
    and dropout.

    .. note::
        The paper has no gain :math:`\gamma` (``gain=None``). Its theory treats the residuals as an
        outside input, but :math:`\boldsymbol{\delta} = \mathrm{GNN}(\mathbf{f})` closes the loop:
        every recurrence multiplies the scale of the states by up to
        :math:`\sum_i |\phi_i| + (1 + \sum_j |\theta_j|) \, \gamma \, \|\mathrm{GNN}\|`, and deep
        models collapse. A learned gain that starts at :math:`1 / R` bounds the growth of a block by
        :math:`(1 + c / R)^R < e^c` whatever its depth.

    Args:
        channels (int): Width :math:`F` of states and residuals.
        backbone (str, Module or callable, optional): A word of
            :class:`~torch_grama.nn.GRAMA`, such as ``"gatedgcn"``, a module such as a PyG
            convolution (cloned and re-initialised), or a callable from the number of channels to
            a module. (default: :obj:`"gcn"`)
        seq_len (int, optional): Length :math:`L` of the sequence the block receives.
            (default: :obj:`4`)
        num_recurrences (int, optional): Number :math:`R` of recurrences.
            (default: :obj:`seq_len`)
        ar_order (int, optional): Order :math:`p`. (default: :obj:`seq_len`)
        ma_order (int, optional): Order :math:`q`. (default: :obj:`seq_len`)
        coefficients (str, optional): ``"selective"`` or ``"naive"``.
            (default: :obj:`"selective"`)
        normalization (str, optional): ``"sum"``, ``"l1"``, ``"softmax"`` or ``"none"``.
            (default: :obj:`"sum"`)
        coefficient_update (str, optional): ``"block"``: once, so that the block is linear given
            its coefficients; ``"step"``: again at every recurrence, from the last :math:`L`
            elements. (default: :obj:`"block"`)
        heads (int, optional): Heads of the selective coefficients. (default: :obj:`1`)
        act (str or callable, optional): Activation after the recurrence.
            (default: :obj:`"relu"`)
        norm (str or callable, optional): ``"batch_norm"``, ``"layer_norm"``, a callable from the
            number of channels to a module, or :obj:`None`. (default: :obj:`None`)
        dropout (float, optional): Dropout after the activation. (default: :obj:`0.0`)
        gain (float or str, optional): Where the learned gain :math:`\gamma` starts: ``"auto"`` for
            :math:`1 / R`, a number, or :obj:`None` for no gain. (default: :obj:`"auto"`)
        initial_poles (float, optional): Radius of the poles at initialisation; see
            :func:`~torch_grama.nn.functional.coefficients_with_poles`. (default: :obj:`None`)
        has_edge_attr (bool, optional): Whether edge attributes will be passed.
            (default: :obj:`False`)
        carry_edge_state (bool, optional): Whether a backbone with edge states hands them from
            recurrence to recurrence. (default: :obj:`True`)
        engine (str, optional): ``"auto"``, ``"reference"``, ``"scan"`` or ``"linear"``; see
            :func:`~torch_grama.nn.functional.arma_recurrence`. (default: :obj:`"auto"`)

    Shapes:
        - **input:** states :math:`(L, N, F)`, residuals :math:`(L, N, F)`, edges :math:`(2, E)`
        - **output:** states :math:`(R, N, F)`, residuals :math:`(R, N, F)`
    """

    def __init__(
        self,
        channels: int,
        backbone: BackboneLike = "gcn",
        seq_len: int = 4,
        num_recurrences: int | None = None,
        ar_order: int | None = None,
        ma_order: int | None = None,
        coefficients: str = "selective",
        normalization: str = "sum",
        coefficient_update: str = "block",
        heads: int = 1,
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
        gain: float | Literal["auto"] | None = "auto",
        initial_poles: float | None = None,
        has_edge_attr: bool = False,
        carry_edge_state: bool = True,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        num_recurrences = seq_len if num_recurrences is None else num_recurrences
        check_positive(channels=channels, seq_len=seq_len, num_recurrences=num_recurrences)
        check_orders(seq_len, 1, num_recurrences, ar_order, ma_order)
        self.channels = channels
        self.seq_len = seq_len
        self.num_recurrences = num_recurrences
        self.ar_order = seq_len if ar_order is None else ar_order
        self.ma_order = seq_len if ma_order is None else ma_order
        self.coefficient_update = coefficient_update
        self.carry_edge_state = carry_edge_state
        self.engine = engine
        choose("coefficient_update", coefficient_update, COEFFICIENT_UPDATES)
        choose("engine", engine, ENGINES)

        self.ar_coefficients: NaiveCoefficients | SelectiveCoefficients
        self.ma_coefficients: NaiveCoefficients | SelectiveCoefficients
        if choose("coefficients", coefficients, COEFFICIENTS) is SelectiveCoefficients:
            self.ar_coefficients = SelectiveCoefficients(
                channels, self.ar_order, heads, normalization, initial_poles=initial_poles
            )
            self.ma_coefficients = SelectiveCoefficients(
                channels, self.ma_order, heads, normalization
            )
        else:
            self.ar_coefficients = NaiveCoefficients(
                self.ar_order, normalization, initial_poles=initial_poles
            )
            self.ma_coefficients = NaiveCoefficients(self.ma_order, normalization)
        self.backbone = build_backbone(backbone, channels, self.num_recurrences, has_edge_attr)
        self._call = BackboneCall.inspect(self.backbone)
        self._initial_gain = _initial_gain(gain, self.num_recurrences)
        self.gain = None if self._initial_gain is None else Parameter(torch.empty(()))
        self.act = resolve_activation(act)
        self.state_norm = build_norm(norm, channels)
        self.residual_norm = build_norm(norm, channels)
        self.dropout = Dropout(dropout)
        self._reset_own_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset_backbone(self.backbone)
        for norm in (self.state_norm, self.residual_norm):
            reset(norm)
        self.ar_coefficients.reset_parameters()
        self.ma_coefficients.reset_parameters()
        self._reset_own_parameters()

    def _reset_own_parameters(self) -> None:
        if self.gain is not None and self._initial_gain is not None:
            torch.nn.init.constant_(self.gain, self._initial_gain)

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
        sequence = NodeSequence(states, residuals)
        states, residuals, coefficients = self._recur(lambda: sequence, graph, False, False)
        states, residuals = self._finish(states, residuals).materialize()
        if return_coefficients:
            return states, residuals, coefficients
        return states, residuals

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
        # bound anew for each call: every call is a first recurrence
        return lambda x: self._bind(graph)(x)

    def check(self, graph: GraphInput) -> None:
        r"""Raises a :class:`ValueError` if the backbone has no use for what the graph brings."""
        self._call.check(self.backbone, graph)

    def prepare(self, graph: GraphInput) -> None:
        r"""Makes the matrices that the block will ask the graph for."""
        if self.engine in _LINEAR_ENGINES:
            find_linear_map(self.backbone, graph)

    def advance(
        self, source: SequenceSource, graph: GraphInput, saves_memory: bool = False
    ) -> tuple[NodeSequence, ARMACoefficients]:
        r"""Runs the block inside a model, whose graph is checked and whose gradients nobody sees.

        The activation may be left to the next reader.

        Args:
            source (callable): Makes the given sequence.
            graph (GraphInput): The graph.
            saves_memory (bool, optional): Whether the block runs under a checkpoint, so that its
                input may be overwritten by gradients. (default: :obj:`False`)
        """
        states, residuals, coefficients = self._recur(source, graph, True, saves_memory)
        return self._finish(states, residuals), coefficients

    def advance_to_last(
        self, source: SequenceSource, graph: GraphInput, saves_memory: bool = False
    ) -> tuple[Tensor, ARMACoefficients]:
        r"""Runs the block for its last state alone, :math:`(N, F)`; arguments as
        :meth:`advance`.
        """
        backbone = self._bind(graph)
        if (
            self._uses_handwritten()
            and uses_linear_engine(self.engine, backbone)
            and isinstance(backbone, LinearMap)
            and prefers_horner(self.num_recurrences, backbone)
        ):
            terms, bias_weights, phi, theta = self._read(read_terms, source, graph, saves_memory)
            coefficients = ARMACoefficients(phi, theta)
            state = run_horner((terms, bias_weights), backbone, self._groups(graph), saves_memory)
        else:
            states, _, coefficients = self._recur(source, graph, True, saves_memory)
            state = states[-1]
        if self.state_norm is not None:
            state = normalize_sequence(self.state_norm, state.unsqueeze(0)).squeeze(0)
        return self.dropout(self.act(state)), coefficients

    def _finish(self, states: Tensor, residuals: Tensor) -> NodeSequence:
        if self.state_norm is not None:
            states = normalize_sequence(self.state_norm, states)
        if self.residual_norm is not None:
            residuals = normalize_sequence(self.residual_norm, residuals)
        if self.dropout.p > 0 and self.training:
            states = self.dropout(self.act(states))
            residuals = self.dropout(self.act(residuals))
            return NodeSequence(states, residuals)
        if self.state_norm is not None:
            # whoever watches the norm may have kept what it returned
            return NodeSequence(states, residuals, self.act)
        return NodeSequence.from_owned(states, residuals, self.act)

    def _recur(
        self, source: SequenceSource, graph: GraphInput, internal: bool, saves_memory: bool
    ) -> tuple[Tensor, Tensor, ARMACoefficients]:
        if self.coefficient_update == "step":
            return self._recur_stepwise(source(), graph)
        backbone = self._bind(graph)
        if not self._uses_handwritten():
            return self._recur_plain(source(), graph, backbone)
        linear = uses_linear_engine(self.engine, backbone)
        *mixture, phi, theta = self._read(read_mixture, source, graph, saves_memory)
        states, residuals = run_steps(
            (mixture[0], mixture[1], mixture[2]),
            backbone,
            self._groups(graph),
            linear,
            overwrites=internal,
            saves_memory=saves_memory,
        )
        return states, residuals, ARMACoefficients(phi, theta)

    def _read(
        self,
        read: Callable[[Reading, Tensor, Tensor, int], tuple[Tensor, ...]],
        source: SequenceSource,
        graph: GraphInput,
        saves_memory: bool,
    ) -> tuple[Tensor, ...]:
        r"""Returns what :obj:`read` takes from the sequence, and the coefficients."""

        def read_sequence() -> tuple[Tensor, ...]:
            pools = self._is_selective
            reading = Reading(source(), self._groups(graph), pools, saves_memory)
            phi, theta = select_jointly(
                self.ar_coefficients,
                self.ma_coefficients,
                reading.pooled_states,
                reading.pooled_residuals,
            )
            parts = read(reading, phi, theta, self.num_recurrences)
            if not pools:
                phi, theta = (c.expand(graph.batch_size, -1) for c in (phi, theta))
            return *parts, phi, theta

        if saves_memory:
            # the given sequence is made, read and dropped; the steps do not need it
            out: tuple[Tensor, ...] = checkpoint(read_sequence, use_reentrant=False)
            return out
        return read_sequence()

    def _recur_plain(
        self, sequence: NodeSequence, graph: GraphInput, backbone: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, ARMACoefficients]:
        given = NodeSequence(*sequence.materialize())
        phi = self.ar_coefficients(given.states, graph.batch, graph.batch_size)
        theta = self.ma_coefficients(given.residuals, graph.batch, graph.batch_size)
        recurrence = Recurrence(given, phi, theta, backbone, self.num_recurrences, graph.batch)
        return *recurrence.run(self.engine), ARMACoefficients(phi, theta)

    def _recur_stepwise(
        self, sequence: NodeSequence, graph: GraphInput
    ) -> tuple[Tensor, Tensor, ARMACoefficients]:
        backbone = self._bind(graph)
        states, residuals = (list(part.unbind(0)) for part in sequence.materialize())
        used_phi, used_theta = [], []
        for _ in range(self.num_recurrences):
            window = torch.stack(states[-self.seq_len :]), torch.stack(residuals[-self.seq_len :])
            phi = self.ar_coefficients(window[0], graph.batch, graph.batch_size)
            theta = self.ma_coefficients(window[1], graph.batch, graph.batch_size)
            step = Recurrence(NodeSequence(*window), phi, theta, backbone, 1, graph.batch)
            state, residual = step.run("reference")
            states.append(state[0])
            residuals.append(residual[0])
            used_phi.append(phi)
            used_theta.append(theta)
        return (
            torch.stack(states[-self.num_recurrences :]),
            torch.stack(residuals[-self.num_recurrences :]),
            ARMACoefficients(torch.stack(used_phi), torch.stack(used_theta)),
        )

    @property
    def _is_selective(self) -> bool:
        return isinstance(self.ar_coefficients, SelectiveCoefficients)

    def _groups(self, graph: GraphInput) -> Groups:
        # coefficients that are the same for all graphs make one group of all nodes
        return graph.groups if self._is_selective else Groups()

    def _uses_handwritten(self) -> bool:
        return (
            self.engine != "reference"
            and self.coefficient_update == "block"
            and handwritten_gradients_work()
        )

    def _bind(self, graph: GraphInput) -> BoundBackbone | LinearMap:
        bound = BoundBackbone(self.backbone, self._call, graph, self.gain, self.carry_edge_state)
        linear = bound.as_linear_map(self.channels) if self.engine in _LINEAR_ENGINES else None
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
            f"backbone={type(self.backbone).__name__})"
        )


def _initial_gain(gain: float | str | None, num_recurrences: int) -> float | None:
    if gain is None:
        return None
    if gain == "auto":
        return 1 / num_recurrences
    if isinstance(gain, str) or not math.isfinite(gain):
        raise ValueError(f"Expected 'gain' to be 'auto', a finite number or None (got {gain!r})")
    return float(gain)
