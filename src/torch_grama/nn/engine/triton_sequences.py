"""The inner products of the engines as Triton kernels; names and shapes as in the torch twin.

Every kernel gives one program the channels of one node (or of a run of nodes), so that
coefficients per graph cost no more than coefficients for all: the program reads those of its own
graph. Sums are float32 whatever the inputs are.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from torch_grama.nn.engine.adjacency import CSR
from torch_grama.nn.engine.sequence import Activation, Groups, identity

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
_SUM_PROGRAMS = 256
_MIN_NODES_PER_PROGRAM = 32
# Elements of a sequence on each side that a program multiplies.
_GRAM_TILE = 8


def combine(
    out: Tensor,
    first_weights: Tensor,
    first: Tensor,
    second_weights: Tensor | None,
    second: Tensor | None,
    groups: Groups,
    act: Activation,
    base: Tensor | None = None,
    slope: Tensor | None = None,
    slope_act: Activation = identity,
    share: Tensor | None = None,
    newest: Tensor | None = None,
    kept: Tensor | None = None,
    reverse: bool = False,
) -> None:
    r"""As :func:`kernels.combine`; with ``reverse`` the first weights stand from last to first, and
    the element of ``second`` is written into ``kept``.
    """
    num_rows, num_nodes, channels = out.size()
    if num_nodes == 0:
        return
    width, share_scale = channels, 1.0 / num_nodes
    if groups.batch is None:
        # the same weights everywhere: one long row of channels, in blocks of full size
        num_nodes, channels = 1, num_nodes * channels
    padded = triton.next_power_of_2(num_rows)
    # at most 8192 sums a program, which two warps hold in registers
    block = min(triton.next_power_of_2(channels), max(8192 // padded, 32), _MAX_BLOCK)
    combine_kernel[(num_nodes * triton.cdiv(channels, block),)](
        out,
        base,
        first,
        second,
        slope,
        share,
        newest,
        kept,
        first_weights[..., -1:] if reverse else first_weights,
        second_weights,
        groups.batch,
        groups.starts if share is not None and groups.batch is not None else None,
        num_nodes,
        channels,
        width,
        share_scale,
        first_weights.stride(0) if first_weights.size(0) > 1 else 0,
        first_weights.stride(1),
        first_weights.stride(2) * (-1 if reverse else 1),
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
        HAS_KEPT=kept is not None,
        num_warps=2,
    )


def add_combination(
    out: Tensor, base: Tensor | None, weights: Tensor, sequence: Tensor, groups: Groups
) -> None:
    rows = weights.unsqueeze(1)
    combine(out.unsqueeze(0), rows, sequence, None, None, groups, identity, base)


def respond(
    out: Tensor,
    base: Tensor | None,
    response: Tensor,
    buffer: Tensor,
    step: int,
    new: Tensor,
    groups: Groups,
    backwards: bool,
) -> None:
    others = buffer[step + 1 :] if backwards else buffer[:step]
    weights = response[:, None, 1 : others.size(0) + 1]
    combine(
        out.unsqueeze(0),
        weights,
        others,
        response[:, None, :1],
        new.unsqueeze(0),
        groups,
        identity,
        base,
        kept=buffer[step],
        reverse=not backwards,
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
    columns = weights.transpose(1, 2)
    slope = None if act is identity else sequence
    share = None if share is None else share.contiguous()
    combine(out, columns, gradient, None, None, groups, identity, None, slope, act, share, newest)


def gram(gradient: Tensor, sequence: Tensor, groups: Groups, act: Activation) -> Tensor:
    segments, parts = _segments(sequence, groups, _GRAM_PROGRAMS)
    left, right = gradient.size(0), sequence.size(0)
    tile = [min(triton.next_power_of_2(size), _GRAM_TILE) for size in (left, right)]
    tiles = triton.cdiv(left, tile[0]) * triton.cdiv(right, tile[1])
    partial = gradient.new_empty(segments.numel() - 1, left, right, dtype=torch.float32)
    gram_kernel[((segments.numel() - 1) * tiles,)](
        partial,
        gradient,
        sequence,
        segments,
        sequence.size(1),
        sequence.size(2),
        LEFT=left,
        RIGHT=right,
        LEFT_TILE=tile[0],
        RIGHT_TILE=tile[1],
        # a thread holds the sums of one channel or, of few products, of four that it reads at once
        BLOCK=512 if tile[0] * tile[1] <= 16 else 128,
        ACT=ACTIVATION_CODES[act],
    )
    return _join(partial, parts)


def pool(sequence: Tensor, groups: Groups, act: Activation, mean: bool) -> Tensor:
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
        NODES=max(2048 // block, 1),
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
    r"""Writes :math:`\mathbf{A} \mathbf{x}`, plus ``base`` and ``bias`` (``[F]`` or ``[B, F]``),
    into ``out``; and, to a ``state``, adds it and the ``history`` by the impulse ``response``.
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
        # few threads per node, so that many nodes wait for their edges at a time
        num_warps=max(block // 128, 1),
    )


def _segments(sequence: Tensor, groups: Groups, programs: int) -> tuple[Tensor, int]:
    r"""Returns where each run of nodes starts, and how many runs make a graph: about as many as
    there are to be programs.
    """
    num_nodes = sequence.size(1)
    enough = num_nodes // (max(groups.num_graphs, 1) * _MIN_NODES_PER_PROGRAM)
    parts = max(min(programs // max(groups.num_graphs, 1), enough), 1)
    return groups.cuts(num_nodes, parts, sequence.device), parts


def _join(partial: Tensor, parts: int) -> Tensor:
    r"""Adds up the runs of each graph: ``[B * parts, ...] -> [B, ...]``."""
    return partial if parts == 1 else partial.unflatten(0, (-1, parts)).sum(dim=1)


@triton.jit
def _read(pointer, mask):
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _tanh(x):
    # 1 - 2 / (1 + e^{2x}): exact at both ends, where the exponential overflows or vanishes
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def _activate(x, ACT: tl.constexpr):
    if ACT == 1:
        x = tl.maximum(x, 0.0)
    elif ACT == 2:
        x = tl.where(x > 0, x, tl.exp(tl.minimum(x, 0.0)) - 1.0)
    elif ACT == 3:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACT == 4:
        x = x * tl.sigmoid(x)
    elif ACT == 5:
        x = _tanh(x)
    elif ACT == 6:
        x = tl.where(x > 0, x, 0.01 * x)
    return x


@triton.jit
def _activation_slope(x, ACT: tl.constexpr):
    slope = x * 0.0 + 1.0
    if ACT == 1:
        slope = tl.where(x > 0, 1.0, 0.0)
    elif ACT == 2:
        slope = tl.where(x > 0, 1.0, tl.exp(tl.minimum(x, 0.0)))
    elif ACT == 3:
        cdf = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
        slope = cdf + x * tl.exp(-0.5 * x * x) * 0.3989422804014327
    elif ACT == 4:
        gate = tl.sigmoid(x)
        slope = gate * (1.0 + x * (1.0 - gate))
    elif ACT == 5:
        value = _tanh(x)
        slope = 1.0 - value * value
    elif ACT == 6:
        slope = tl.where(x > 0, 1.0, 0.01)
    return slope


@triton.jit
def combine_kernel(
    out_ptr,
    base_ptr,
    first_ptr,
    second_ptr,
    slope_ptr,
    share_ptr,
    newest_ptr,
    kept_ptr,
    first_weights_ptr,
    second_weights_ptr,
    batch_ptr,
    start_ptr,
    num_nodes,
    num_channels,  # of a node, or of all nodes in one row
    width,  # channels of a node
    share_scale,  # one over the nodes, where all form one graph
    first_stride,  # strides of the weights: graph, row, column
    first_row,
    first_column,
    second_stride,
    second_row,
    second_column,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    ROWS: tl.constexpr,
    ROWS_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    ACT: tl.constexpr,
    SLOPE: tl.constexpr,
    HAS_BATCH: tl.constexpr,
    HAS_BASE: tl.constexpr,
    HAS_SHARE: tl.constexpr,
    HAS_NEWEST: tl.constexpr,
    HAS_KEPT: tl.constexpr,
):
    blocks = tl.cdiv(num_channels, BLOCK)
    program = tl.program_id(0).to(tl.int64)
    node = program // blocks
    channel = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    row = tl.arange(0, ROWS_PADDED)
    inside = channel < num_channels
    rows_inside = row < ROWS
    graph = tl.load(batch_ptr + node) if HAS_BATCH else node * 0
    position = node * num_channels + channel
    # program * 0: a size of one arrives as a plain integer, which has no type to widen
    step = (program * 0 + num_nodes) * num_channels
    total = tl.zeros([ROWS_PADDED, BLOCK], dtype=tl.float32)
    for k in tl.static_range(FIRST):
        x = _read(first_ptr + k * step + position, inside)
        source = first_weights_ptr + graph * first_stride + row * first_row + k * first_column
        w = _read(source, rows_inside)
        total += w[:, None] * _activate(x, ACT)[None, :]
    for k in tl.static_range(SECOND):
        x = _read(second_ptr + k * step + position, inside)
        if HAS_KEPT:
            tl.store(kept_ptr + position, x.to(kept_ptr.dtype.element_ty), mask=inside)
        source = second_weights_ptr + graph * second_stride + row * second_row + k * second_column
        w = _read(source, rows_inside)
        total += w[:, None] * _activate(x, ACT)[None, :]
    target = row[:, None] * step + position[None, :]
    mask = rows_inside[:, None] & inside[None, :]
    if HAS_SHARE:
        share = (graph * ROWS + row[:, None]) * width + (channel % width)[None, :]
        part = _read(share_ptr + share, mask)
        if HAS_BATCH:
            size = tl.load(start_ptr + graph + 1) - tl.load(start_ptr + graph)
            total += part / size.to(tl.float32)
        else:
            total += part * share_scale
    if HAS_NEWEST:
        newest = _read(newest_ptr + position, inside)
        total += tl.where(row[:, None] == ROWS - 1, newest[None, :], 0.0)
    if SLOPE > 0:
        x = _read(slope_ptr + target, mask)
        total = total * _activation_slope(x, SLOPE)
    if HAS_BASE:
        total += _read(base_ptr + target, mask)
    tl.store(out_ptr + target, total.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gram_kernel(
    out_ptr,
    left_ptr,
    right_ptr,
    segment_ptr,
    num_nodes,
    num_channels,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    LEFT_TILE: tl.constexpr,
    RIGHT_TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    ACT: tl.constexpr,
):
    # tiles of the same nodes next to each other, so that all but the first find them in the cache
    program = tl.program_id(0).to(tl.int64)
    right_tiles: tl.constexpr = (RIGHT + RIGHT_TILE - 1) // RIGHT_TILE
    tiles: tl.constexpr = (LEFT + LEFT_TILE - 1) // LEFT_TILE * right_tiles
    segment, tile = program // tiles, program % tiles
    left = (tile // right_tiles * LEFT_TILE + tl.arange(0, LEFT_TILE))[:, None, None]
    right = (tile % right_tiles * RIGHT_TILE + tl.arange(0, RIGHT_TILE))[None, :, None]
    position = tl.load(segment_ptr + segment) * num_channels
    end = tl.load(segment_ptr + segment + 1) * num_channels
    step = (program * 0 + num_nodes) * num_channels
    # sums stay apart until the end: threads need not wait for each other
    total = tl.zeros([LEFT_TILE, RIGHT_TILE, BLOCK], dtype=tl.float32)
    while position < end:
        element = position + tl.arange(0, BLOCK)[None, None, :]
        g = _read(left_ptr + left * step + element, (left < LEFT) & (element < end))
        x = _read(right_ptr + right * step + element, (right < RIGHT) & (element < end))
        total += g * _activate(x, ACT)
        position += BLOCK
    target = (segment * LEFT + left) * RIGHT + right
    products = tl.sum(total, axis=2, keep_dims=True)
    tl.store(out_ptr + target, products, mask=(left < LEFT) & (right < RIGHT))


@triton.jit
def segment_sum_kernel(
    out_ptr,
    x_ptr,
    segment_ptr,
    num_nodes,
    num_channels,
    length,
    scale,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
    ACT: tl.constexpr,
    MEAN: tl.constexpr,
):
    segment = tl.program_id(0).to(tl.int64)
    element = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < num_channels
    start = tl.load(segment_ptr + segment)
    end = tl.load(segment_ptr + segment + 1)
    base = element * num_nodes * num_channels + channel
    total = tl.zeros([NODES, BLOCK], dtype=tl.float32)
    first = start
    while first < end:
        node = first + tl.arange(0, NODES)[:, None]
        # what lies outside is zero, and every activation leaves it so
        x = _read(x_ptr + base[None, :] + node * num_channels, (node < end) & inside[None, :])
        total += _activate(x, ACT)
        first += NODES
    out = tl.sum(total, axis=0) * scale
    if MEAN:
        out /= tl.maximum(end - start, 1).to(tl.float32)
    tl.store(out_ptr + (segment * length + element) * num_channels + channel, out, mask=inside)


@triton.jit
def sparse_kernel(
    out_ptr,
    base_ptr,
    bias_ptr,
    row_start_ptr,
    column_ptr,
    value_ptr,
    x_ptr,
    state_ptr,
    history_ptr,
    response_ptr,
    batch_ptr,
    num_nodes,
    num_channels,
    bias_stride,
    response_stride,
    STEP: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_BASE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_STATE: tl.constexpr,
    HAS_BATCH: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < num_channels
    position = node * num_channels + channel
    graph = tl.load(batch_ptr + node) if HAS_BATCH else node * 0
    total = tl.zeros([BLOCK], dtype=tl.float32)
    if HAS_BASE:
        total += _read(base_ptr + position, inside)
    if HAS_BIAS:
        total += _read(bias_ptr + graph * bias_stride + channel, inside)
    edge = tl.load(row_start_ptr + node)
    end = tl.load(row_start_ptr + node + 1)
    while edge < end:
        source = tl.load(column_ptr + edge).to(tl.int64)
        value = tl.load(value_ptr + edge).to(tl.float32)
        total += value * _read(x_ptr + source * num_channels + channel, inside)
        edge += 1
    tl.store(out_ptr + position, total.to(out_ptr.dtype.element_ty), mask=inside)
    if HAS_STATE:
        # the state: its part of the given sequence, the new residual, and all earlier ones
        response = response_ptr + graph * response_stride
        step = (node * 0 + num_nodes) * num_channels
        state = _read(state_ptr + position, inside)
        state += tl.load(response).to(tl.float32) * total
        for k in tl.static_range(STEP):
            past = _read(history_ptr + k * step + position, inside)
            state += tl.load(response + (STEP - k)).to(tl.float32) * past
        tl.store(state_ptr + position, state.to(state_ptr.dtype.element_ty), mask=inside)
