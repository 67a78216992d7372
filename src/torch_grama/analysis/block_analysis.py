"""Everything the theory says about the blocks of a trained model, on the graphs it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis._checks import check_batch
from torch_grama.analysis.block_trace import BlockTrace, encode_input, trace_blocks
from torch_grama.analysis.closed_loop import closed_loop_radius
from torch_grama.analysis.closed_loop_bounds import (
    closed_loop_bound,
    closed_loop_gain,
    operator_norm,
)
from torch_grama.analysis.impulse import impulse_response, memory_length
from torch_grama.analysis.model_input import GraphLike, ModelInput, evaluation_mode, read_input
from torch_grama.analysis.plain_numbers import (
    Cube,
    Matrix,
    Row,
    plain_flags,
    plain_matrix,
    plain_or_none,
    plain_row,
)
from torch_grama.analysis.stability import (
    characteristic_roots,
    is_bibo_stable,
    is_stable,
    satisfies_sufficient_condition,
)

# Beyond this many state entries the closed loop is measured in fewer steps.
_LARGE = 2**18


@dataclass(frozen=True)
class ClosedLoop:
    r"""The loop of a block with its own backbone, one number a graph.

    Attributes:
        operator_norm: Norm of the backbone's Jacobian at the newest given state, gain included.
        gain: Largest factor of one recurrence, see :func:`closed_loop_gain`.
        bound: Bound on the radius from the norm alone, see :func:`closed_loop_bound` (sharp).
        radius: Measured spectral radius, see :func:`closed_loop_radius`.
        num_iterations: Steps of the power iteration behind it.
        krylov_dim: Dimension of the subspace behind it.
    """

    operator_norm: Row
    gain: Row
    bound: Row
    radius: Row
    num_iterations: int
    krylov_dim: int


@dataclass(frozen=True)
class BlockAnalysis:
    r"""The dynamics of one block, one entry a graph in every list.

    Attributes:
        block: Number of the block, from 0.
        step: Number of the recurrence whose coefficients these are, from 0, where they are
            recomputed at every recurrence; :obj:`None` where they hold for the whole block.
        backbone: Class of the backbone.
        learned_gain: The gain on the backbone; :obj:`None` where there is none.
        phi: Autoregressive coefficients ``[B][p]``, newest first.
        theta: Moving-average coefficients ``[B][q]``, newest first.
        poles: Poles ``[B][p][2]`` as real and imaginary part, in order of falling modulus.
        radius: Largest modulus of the poles.
        margin: Stability margin, one minus the radius; negative outside the unit circle.
        sum_abs_phi: The sum of :math:`|\phi_i|`.
        satisfies_condition: Whether that sum is at most 1, which suffices for stability.
        stable: Whether the powers of the state matrix stay bounded.
        bibo_stable: Whether bounded input gives bounded output.
        impulse_response: Response ``[B][T]`` to a unit input, without the backbone's feedback.
        memory_length: Lag beyond which the response stays below 0.001; :obj:`None` for infinite
            memory.
        closed_loop: The loop with the backbone; :obj:`None` where it was not asked for.
    """

    block: int
    step: int | None
    backbone: str
    learned_gain: float | None
    phi: Matrix
    theta: Matrix
    poles: Cube
    radius: Row
    margin: Row
    sum_abs_phi: Row
    satisfies_condition: list[bool]
    stable: list[bool]
    bibo_stable: list[bool]
    impulse_response: Matrix
    memory_length: list[float | None]
    closed_loop: ClosedLoop | None


def analyze_blocks(
    model: Module,
    data: GraphLike | ModelInput | Sequence[GraphLike | ModelInput],
    *,
    impulse_length: int = 32,
    closed_loop: bool = True,
    num_iterations: int | None = None,
    krylov_dim: int | None = None,
    seed: int = 0,
) -> list[BlockAnalysis]:
    r"""Coefficients, poles, stability, memory and closed loop of every block on every graph.

    All graphs are handled as one batch. The closed loop is linearised at the newest state that the
    block is given, with the first recurrence's edge state and running statistics.

    Args:
        model (Module): A GRAMA model, or a module that holds one and is called alike.
        data (ModelInput, Data, Batch or sequence): The graphs.
        impulse_length (int, optional): Lags of the impulse response. (default: :obj:`32`)
        closed_loop (bool, optional): Whether to measure the loop with the backbone, which takes
            most of the time. (default: :obj:`True`)
        num_iterations (int, optional): Steps of its power iteration. (default: 100, or 20 for more
            than 262,144 state entries)
        krylov_dim (int, optional): Dimension of its subspace. (default: 32, or 12 likewise)
        seed (int, optional): Seed of the first vector. (default: :obj:`0`)

    Returns:
        list: One record a block; one a recurrence where coefficients are updated at each.

    Raises:
        ValueError: If there is no GRAMA model inside, or a value is not usable.
    """
    with evaluation_mode(model):
        encoded = encode_input(model, read_input(data))
        with torch.no_grad():
            traces = trace_blocks(model, encoded)
        return records_of_blocks(
            traces, encoded, impulse_length, closed_loop, num_iterations, krylov_dim, seed
        )


def records_of_blocks(
    traces: Sequence[BlockTrace],
    encoded: ModelInput,
    impulse_length: int,
    closed_loop: bool,
    num_iterations: int | None,
    krylov_dim: int | None,
    seed: int,
) -> list[BlockAnalysis]:
    r"""The records of blocks that were run already; arguments as :func:`analyze_blocks`."""
    records = []
    for index, trace in enumerate(traces):
        phi, theta = (c.detach() for c in trace.coefficients)
        loop = None
        if closed_loop:
            large = trace.given[-1].numel() > _LARGE
            iterations = (20 if large else 100) if num_iterations is None else num_iterations
            dimension = (12 if large else 32) if krylov_dim is None else krylov_dim
            loop = _Loop(trace, encoded, iterations, dimension, seed)
        steps: Sequence[int | None] = [None] if phi.dim() == 2 else range(len(phi))
        for step in steps:
            now = (phi, theta) if step is None else (phi[step], theta[step])
            measured = None if loop is None else loop.measure(*now)
            records.append(_record(index, step, trace, *now, impulse_length, measured))
    return records


class _Loop:
    r"""The backbone of a block on its graphs, linearised once for all sets of coefficients."""

    def __init__(
        self, trace: BlockTrace, encoded: ModelInput, iterations: int, dimension: int, seed: int
    ) -> None:
        self.point = trace.given[-1].detach()
        self.graph, self.num_graphs = check_batch(self.point, encoded.batch, encoded.batch_size)
        self.iterations, self.dimension, self.seed = iterations, dimension, seed
        self.backbone = trace.block.bind(
            self.point.size(0),
            encoded.edge_index,
            encoded.edge_weight,
            encoded.edge_attr,
            encoded.batch,
            encoded.batch_size,
        )
        self.norm = operator_norm(
            self.backbone,
            self.point,
            self.graph,
            self.num_graphs,
            num_iterations=8 if self.point.numel() > _LARGE else 32,
            seed=seed,
        )

    def measure(self, phi: Tensor, theta: Tensor) -> ClosedLoop:
        phi, theta = phi.to(self.point.dtype), theta.to(self.point.dtype)
        radius = closed_loop_radius(
            phi,
            theta,
            self.backbone,
            self.point,
            self.graph,
            self.num_graphs,
            num_iterations=self.iterations,
            krylov_dim=self.dimension,
            seed=self.seed,
        )
        return ClosedLoop(
            operator_norm=plain_row(self.norm),
            gain=plain_row(closed_loop_gain(phi, theta, self.norm)),
            bound=plain_row(closed_loop_bound(phi, theta, self.norm, sharp=True)),
            radius=plain_row(radius),
            num_iterations=self.iterations,
            krylov_dim=self.dimension,
        )


def _record(
    index: int,
    step: int | None,
    trace: BlockTrace,
    phi: Tensor,
    theta: Tensor,
    impulse_length: int,
    closed_loop: ClosedLoop | None,
) -> BlockAnalysis:
    phi, theta = phi.double(), theta.double()
    poles = characteristic_roots(phi)
    radius = poles[..., 0].abs()
    gain = trace.block.gain
    return BlockAnalysis(
        block=index,
        step=step,
        backbone=type(trace.block.backbone).__name__,
        learned_gain=None if gain is None else plain_or_none(gain.detach()),
        phi=plain_matrix(phi),
        theta=plain_matrix(theta),
        poles=[plain_matrix(torch.view_as_real(row)) for row in poles],
        radius=plain_row(radius),
        margin=plain_row(1 - radius),
        sum_abs_phi=plain_row(phi.abs().sum(-1)),
        # in the dtype of the coefficients, whose rounding the condition allows for
        satisfies_condition=plain_flags(
            satisfies_sufficient_condition(phi.to(trace.coefficients.phi.dtype))
        ),
        stable=plain_flags(is_stable(phi)),
        bibo_stable=plain_flags(is_bibo_stable(phi, theta)),
        impulse_response=plain_matrix(impulse_response(phi, theta, impulse_length)),
        memory_length=[plain_or_none(lag) for lag in memory_length(phi, theta)],
        closed_loop=closed_loop,
    )
