"""The states of a GRAMA model after every recurrence, and what the theory says of its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis.closed_loop import (
    closed_loop_bound,
    closed_loop_gain,
    closed_loop_radius,
    operator_norm,
)
from torch_grama.analysis.impulse import impulse_response, memory_length
from torch_grama.analysis.inputs import Graphs, ModelInput, check_batch, evaluation_mode, read_input
from torch_grama.analysis.records import Cube, Matrix, Row, plain_matrix, plain_or_none, plain_row
from torch_grama.analysis.stability import (
    characteristic_roots,
    is_bibo_stable,
    is_stable,
    satisfies_sufficient_condition,
)
from torch_grama.nn import GRAMA, ARMACoefficients, GRAMABlock
from torch_grama.nn.engine.sequence import NodeSequence
from torch_grama.nn.grama_block import backbone_name
from torch_grama.nn.graph_input import GraphInput, read_graph_input

# Lags of the impulse response.
_IMPULSE_LENGTH = 32

# Beyond this many state entries the closed loop is measured in fewer steps.
_LARGE = 2**18


@dataclass(frozen=True)
class ClosedLoop:
    r"""The loop of a block with its own backbone, one number per graph."""

    operator_norm: Row  #: norm of the backbone's Jacobian at the newest given state, gain included
    gain: Row  #: largest factor of one recurrence, see :func:`closed_loop_gain`
    bound: Row  #: bound on the radius from the norm alone, see :func:`closed_loop_bound` (sharp)
    radius: Row  #: measured spectral radius, see :func:`closed_loop_radius`


@dataclass(frozen=True)
class BlockAnalysis:
    r"""The dynamics of one block, one entry per graph in every list."""

    block: int  #: number of the block, from 0
    step: int | None  #: number of the recurrence, from 0; None where it holds for the whole block
    backbone: str  #: class of the backbone
    learned_gain: float | None  #: the gain on the backbone; None where there is none
    learned_retention: float | None  #: the factor within ``phi``; None where there is none
    phi: Matrix  #: autoregressive coefficients ``[B][p]``, newest first, retention included
    theta: Matrix  #: moving-average coefficients ``[B][q]``, newest first
    poles: Cube  #: poles ``[B][p][2]`` as real and imaginary part, in order of falling modulus
    radius: Row  #: largest modulus of the poles
    margin: Row  #: stability margin, one minus the radius; negative outside the unit circle
    sum_abs_phi: Row  #: the sum of :math:`|\phi_i|`
    satisfies_condition: list[bool]  #: whether that sum is at most 1, which suffices for stability
    stable: list[bool]  #: whether the powers of the state matrix stay bounded
    bibo_stable: list[bool]  #: whether bounded input gives bounded output
    impulse_response: Matrix  #: response ``[B][T]`` to a unit input, without feedback
    #: lag beyond which the response stays below 0.001; None for infinite memory
    memory_length: list[float | None]
    closed_loop: ClosedLoop | None  #: the loop with the backbone; None where it was not asked for


def analyze_blocks(
    model: Module, data: Graphs, *, closed_loop: bool = True, seed: int = 0
) -> list[BlockAnalysis]:
    r"""Coefficients, poles, stability, memory and closed loop of every block on every graph.

    All graphs are handled as one batch. The closed loop is linearised at the newest state that the
    block is given, with the first recurrence's weights, edge state and running statistics.

    Args:
        model (Module): A GRAMA model, or a module that contains one and has the same call.
        data (ModelInput, Data, Batch or sequence): The graphs.
        closed_loop (bool, optional): Whether to measure the loop with the backbone, which takes
            most of the time. (default: :obj:`True`)
        seed (int, optional): Seed of its first vector. (default: :obj:`0`)

    Returns:
        list: One record per block, or per recurrence where coefficients are updated at each.
    """
    with evaluation_mode(model), torch.no_grad():
        traces = trace_blocks(model, inner_input(model, read_input(data)))
        blocks = [_records(i, trace, closed_loop, seed) for i, trace in enumerate(traces)]
        return [record for block in blocks for record in block]


def _records(
    index: int, trace: BlockTrace, closed_loop: bool, seed: int
) -> Iterator[BlockAnalysis]:
    phi, theta = trace.coefficients
    whole = phi.dim() == 2  # one set of coefficients for the whole block
    sets = [(phi, theta)] if whole else list(zip(phi, theta, strict=True))
    loops: Sequence[ClosedLoop | None] = [None] * len(sets)
    if closed_loop:
        loops = _measure_loops(trace, sets, seed)
    for step, (used, loop) in enumerate(zip(sets, loops, strict=True)):
        yield _record(index, None if whole else step, trace.block, used, loop)


def _measure_loops(
    trace: BlockTrace, sets: Sequence[tuple[Tensor, Tensor]], seed: int
) -> list[ClosedLoop]:
    r"""The loop of one block with each of its sets of coefficients."""
    point, graph = trace.given[-1].detach(), trace.graph
    edges = (graph.edge_index, graph.edge_weight, graph.edge_attr)
    backbone = trace.block.bind(graph.num_nodes, *edges, graph.batch, graph.batch_size)
    where = (backbone, point, *check_batch(point, graph.batch, graph.batch_size))
    steps, size, products = (20, 12, 8) if point.numel() > _LARGE else (100, 32, 32)
    norm = operator_norm(*where, num_iterations=products, seed=seed)
    loops = []
    for phi, theta in sets:
        phi, theta = phi.to(point.dtype), theta.to(point.dtype)
        gain = closed_loop_gain(phi, theta, norm)
        bound = closed_loop_bound(phi, theta, norm, sharp=True)
        radius = closed_loop_radius(
            phi, theta, *where, num_iterations=steps, krylov_dim=size, seed=seed
        )
        loops.append(ClosedLoop(*(plain_row(values) for values in (norm, gain, bound, radius))))
    return loops


def _record(
    index: int, step: int | None, block: GRAMABlock, used: Sequence[Tensor], loop: ClosedLoop | None
) -> BlockAnalysis:
    phi, theta = used
    # in the dtype of the coefficients, whose rounding the condition allows for
    satisfies_condition = satisfies_sufficient_condition(phi)
    phi, theta = phi.double(), theta.double()
    poles = characteristic_roots(phi)
    radius = poles[..., 0].abs()
    return BlockAnalysis(
        block=index,
        step=step,
        backbone=backbone_name(block.backbone),
        learned_gain=None if block.gain is None else plain_or_none(block.gain),
        learned_retention=None if block.retention is None else plain_or_none(block.retention),
        phi=plain_matrix(phi),
        theta=plain_matrix(theta),
        poles=[plain_matrix(torch.view_as_real(row)) for row in poles],
        radius=plain_row(radius),
        margin=plain_row(1 - radius),
        sum_abs_phi=plain_row(phi.abs().sum(-1)),
        satisfies_condition=satisfies_condition.tolist(),
        stable=is_stable(phi).tolist(),
        bibo_stable=is_bibo_stable(phi, theta).tolist(),
        impulse_response=plain_matrix(impulse_response(phi, theta, _IMPULSE_LENGTH)),
        memory_length=[plain_or_none(lag) for lag in memory_length(phi, theta)],
        closed_loop=loop,
    )


@dataclass(frozen=True, eq=False)
class BlockTrace:
    r"""What went into one block and what came out of it."""

    block: GRAMABlock
    graph: GraphInput  # with the edge attributes that it received
    given: Tensor  # the states it received [L, N, F], oldest first
    states: Tensor  # those it made [R, N, F], as it hands them on: after norm and activation
    coefficients: ARMACoefficients


def find_grama(model: Module) -> GRAMA | None:
    r"""Returns the GRAMA model inside a model, which may be wrapped, or :obj:`None`."""
    return next((module for module in model.modules() if isinstance(module, GRAMA)), None)


def demand_grama(model: Module) -> GRAMA:
    r"""Likewise, with a :class:`ValueError` if there is none."""
    grama = find_grama(model)
    if grama is None:
        raise ValueError(
            f"Expected a GRAMA model or a module that holds one (got {type(model).__name__}); "
            f"influence and smoothness of other models have functions of their own"
        )
    return grama


@torch.no_grad()
def inner_input(model: Module, inputs: ModelInput) -> ModelInput:
    r"""Runs a model once and returns the arguments with which it calls the GRAMA model inside it,
    or was called itself. The model must be in evaluation mode.
    """
    grama = demand_grama(model)
    heard: list[ModelInput] = []

    def hear(_: Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        # the seventh asks for the coefficients
        rest = {name: value for name, value in keywords.items() if name != "return_coefficients"}
        heard.append(ModelInput(*arguments[:6], **rest))

    with grama.register_forward_pre_hook(hear, with_kwargs=True):
        inputs.run(model)
    if not heard:
        raise ValueError(
            f"Expected {type(model).__name__} to call the GRAMA model inside it (got no call)"
        )
    return heard[-1]


def trace_blocks(model: Module, inputs: ModelInput) -> list[BlockTrace]:
    r"""Runs the blocks of a GRAMA model one by one and keeps their states.

    Gradients and forward-mode derivatives by the features pass through. The model must be in
    evaluation mode; for the input see :func:`inner_input`.
    """
    grama = demand_grama(model)
    edge_attr = inputs.edge_attr
    if edge_attr is not None and grama.edge_lin is not None:
        edge_attr = grama.edge_lin(edge_attr)
    edges = (inputs.edge_index, inputs.edge_weight, edge_attr)
    graph = read_graph_input(inputs.num_nodes, *edges, inputs.batch, inputs.batch_size)
    states, residuals = grama.embedding(inputs.x)
    traces = []
    for block in cast(Iterable[GRAMABlock], grama.blocks):
        given = NodeSequence(states, residuals)
        sequence, used, after = block.run(given, graph, is_inside=False)
        states, residuals = sequence.materialize()
        traces.append(BlockTrace(block, graph, given.states, states, used))
        graph = after
    return traces


def step_labels(model: Module) -> list[str]:
    r"""What the newest given state and the state after each recurrence are called."""
    grama = demand_grama(model)
    blocks, steps = range(1, grama.num_blocks + 1), range(1, grama.num_recurrences + 1)
    return ["embedding", *(f"block {b}, step {t}" for b in blocks for t in steps)]
