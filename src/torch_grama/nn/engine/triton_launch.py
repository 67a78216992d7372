"""The inner products of the engines through Triton; names and shapes as in the torch twin."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from torch_grama.nn.activation import Activation, identity
from torch_grama.nn.engine.adjacency import CSR
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.engine.triton_kernels import (
    combine_kernel,
    gram_kernel,
    segment_sum_kernel,
    sparse_kernel,
)

# Activations that the kernels can apply while they read.
ACTIVATION_CODES: dict[Activation, int] = {
    identity: 0,
    F.relu: 1,
    F.elu: 2,
    F.gelu: 3,
    F.silu: 4,
    F.tanh: 5,
    F.leaky_relu: 6,
}
_MAX_BLOCK = 512
_ALL_NODES = Groups()
# About how many programs share the nodes in the reductions.
_GRAM_PROGRAMS = 1024
_SUM_PROGRAMS = 128
_MIN_NODES_PER_PROGRAM = 8


def combine(
    first_weights: Tensor,
    first: Tensor,
    second_weights: Tensor | None,
    second: Tensor | None,
    groups: Groups,
    act: Activation,
) -> Tensor:
    r"""Returns the weighted sums over one or two activated sequences, ``[R, N, F]``."""
    out = first.new_empty(first_weights.size(1), *first.shape[1:])
    _launch_combine(out, None, first_weights, first, second_weights, second, groups, act)
    return out


def add_combination(
    out: Tensor, base: Tensor | None, weights: Tensor, sequence: Tensor, groups: Groups
) -> None:
    r"""Writes ``base`` (or zero) plus the weighted sum of ``sequence`` into ``out``, ``[N, F]``."""
    _launch_combine(
        out.unsqueeze(0), base, weights.unsqueeze(1), sequence, None, None, groups, identity
    )


def sequence_gradient(
    out: Tensor,
    weights: Tensor,
    gradient: Tensor,
    share: Tensor | None,
    newest: Tensor | None,
    groups: Groups,
    sequence: Tensor,
    act: Activation,
) -> None:
    r"""Writes the gradient of weighted sums, of means and of the newest element in the sequence,
    ``[L, N, F]``.

    ``out`` may be the sequence itself. ``share`` is ``[B, L, F]``, ``newest`` is ``[N, F]``.
    """
    _launch_combine(
        out,
        None,
        weights.transpose(1, 2),
        gradient,
        None,
        None,
        groups,
        identity,
        slope=None if act is identity else sequence,
        slope_act=act,
        share=None if share is None else share.contiguous(),
        newest=newest,
    )


def gram(gradient: Tensor, sequence: Tensor, groups: Groups, act: Activation) -> Tensor:
    r"""Returns the inner products per graph, ``[B, R, L]``."""
    segments, parts = _segments(sequence, groups, _GRAM_PROGRAMS)
    left, right = gradient.size(0), sequence.size(0)
    partial = gradient.new_empty(segments.numel() - 1, left, right, dtype=torch.float32)
    gram_kernel[(segments.numel() - 1,)](
        partial,
        gradient,
        sequence,
        segments,
        sequence.size(1),
        sequence.size(2),
        LEFT=left,
        RIGHT=right,
        LEFT_PADDED=max(16, triton.next_power_of_2(left)),
        RIGHT_PADDED=max(16, triton.next_power_of_2(right)),
        BLOCK=128,
        ACT=ACTIVATION_CODES[act],
    )
    return _join(partial, parts)


def sum_per_graph(
    sequence: Tensor, groups: Groups, act: Activation = identity, mean: bool = False
) -> Tensor:
    r"""Returns the sums over the nodes of each graph, or their means, ``[B, L, F]``."""
    segments, parts = _segments(sequence, groups, _SUM_PROGRAMS)
    length, num_nodes, channels = sequence.size()
    out = sequence.new_empty(segments.numel() - 1, length, channels, dtype=torch.float32)
    block = min(triton.next_power_of_2(channels), _MAX_BLOCK)
    segment_sum_kernel[(segments.numel() - 1, length, triton.cdiv(channels, block))](
        out,
        sequence,
        segments,
        num_nodes,
        channels,
        length,
        1.0 / max(num_nodes, 1) if mean and groups.batch is None else 1.0,
        BLOCK=block,
        ACT=ACTIVATION_CODES[act],
        MEAN=mean and groups.batch is not None and parts == 1,
    )
    total = _join(out, parts)
    return total / groups.counts if mean and groups.batch is not None and parts > 1 else total


def sparse_product(
    matrix: CSR,
    x: Tensor,
    out: Tensor,
    base: Tensor | None = None,
    bias: Tensor | None = None,
    state: Tensor | None = None,
    history: Tensor | None = None,
    response: Tensor | None = None,
    groups: Groups = _ALL_NODES,
) -> None:
    r"""Writes :math:`\mathbf{A} \mathbf{x}`, plus ``base`` and ``bias``, into ``out``, ``[N, F]``.

    ``bias`` is ``[F]``, or ``[B, F]`` with one row a graph. With ``state``, also adds the new
    residual and the ``history`` of earlier ones, ``[K, N, F]``, to it, weighted by the impulse
    ``response``, ``[B, R]``.
    """
    num_nodes, channels = x.size()
    if num_nodes == 0:
        return
    block = min(triton.next_power_of_2(channels), _MAX_BLOCK)
    sparse_kernel[(num_nodes, triton.cdiv(channels, block))](
        out,
        base,
        bias,
        matrix.row_start,
        matrix.column,
        matrix.value,
        x,
        state,
        history,
        response,
        groups.batch,
        num_nodes,
        channels,
        0 if bias is None or bias.dim() == 1 else bias.stride(0),
        0 if response is None else response.stride(0),
        STEP=0 if history is None else history.size(0),
        BLOCK=block,
        HAS_BASE=base is not None,
        HAS_BIAS=bias is not None,
        HAS_STATE=state is not None,
        HAS_BATCH=groups.batch is not None,
    )


def _launch_combine(
    out: Tensor,
    base: Tensor | None,
    first_weights: Tensor,
    first: Tensor,
    second_weights: Tensor | None,
    second: Tensor | None,
    groups: Groups,
    act: Activation,
    slope: Tensor | None = None,
    slope_act: Activation = identity,
    share: Tensor | None = None,
    newest: Tensor | None = None,
) -> None:
    num_rows, num_nodes, channels = out.size()
    if num_nodes == 0:
        return
    width, share_scale = channels, 1.0 / num_nodes
    if groups.batch is None:
        # the same weights everywhere: one long row of channels, in blocks of full size
        num_nodes, channels = 1, num_nodes * channels
    padded = triton.next_power_of_2(num_rows)
    # at most 8192 sums a program, which four warps hold in registers
    block = min(triton.next_power_of_2(channels), max(8192 // padded, 32), _MAX_BLOCK)
    combine_kernel[(num_nodes * triton.cdiv(channels, block),)](
        out,
        base,
        first,
        second,
        slope,
        share,
        newest,
        first_weights,
        second_weights,
        groups.batch,
        groups.starts if share is not None and groups.batch is not None else None,
        num_nodes,
        channels,
        width,
        share_scale,
        *(
            first_weights.stride()
            if first_weights.size(0) > 1
            else (0, *first_weights.stride()[1:])
        ),
        *((0, 0, 0) if second_weights is None else second_weights.stride()),
        FIRST=first.size(0),
        SECOND=0 if second is None else second.size(0),
        ROWS=num_rows,
        ROWS_PADDED=padded,
        BLOCK=block,
        ACT=ACTIVATION_CODES[act],
        SLOPE=0 if slope is None else ACTIVATION_CODES[slope_act],
        HAS_BATCH=groups.batch is not None,
        HAS_BASE=base is not None,
        HAS_SHARE=share is not None,
        HAS_NEWEST=newest is not None,
    )


def _segments(sequence: Tensor, groups: Groups, programs: int) -> tuple[Tensor, int]:
    r"""Returns where each run of nodes starts, and how many runs make a graph.

    About as many runs as there are to be programs: graphs are cut into even shares.
    """
    num_nodes = sequence.size(1)
    enough = num_nodes // (max(groups.num_graphs, 1) * _MIN_NODES_PER_PROGRAM)
    parts = max(min(programs // max(groups.num_graphs, 1), enough), 1)
    return groups.cuts(num_nodes, parts, sequence.device), parts


def _join(partial: Tensor, parts: int) -> Tensor:
    r"""Adds up the runs of each graph: ``[B * parts, ...] -> [B, ...]``."""
    return partial if parts == 1 else partial.unflatten(0, (-1, parts)).sum(dim=1)
