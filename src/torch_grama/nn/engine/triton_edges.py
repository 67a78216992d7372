"""Messages along edges, and norms over rows, as Triton kernels.

A program has some channels of one node and takes its edges a few at a time, in the order of a CSR
matrix whose values are the numbers of the edges; nothing is added by atomic operations, so that
results are the same from run to run. Norms are taken over runs of rows: each run leaves its share
of the statistics, and whoever reads them joins the shares. Sums are float32 whatever the inputs
are.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from torch_grama.nn.engine.adjacency import CSR

# Channels of a program of messages, and its edges at a time.
_MAX_BLOCK = 256
_EDGES = 4
_MANY_NODES = 8192
# Rows of a norm at a time, and the most runs of rows that a norm is cut into.
_ROWS = 64
_MAX_RUNS = 128


def gated_sum(
    nodes: Tensor,
    projected: Tensor,
    logits: Tensor,
    messages: Tensor | None,
    by_target: CSR,
    normalizes: bool,
    epsilon: float,
) -> Tensor:
    r"""Returns the sums ``[N, F]``; writes the gates' logits and a copy of the messages."""
    num_nodes, channels = nodes.size(0), nodes.size(1) // 4
    out = nodes.new_empty(num_nodes, channels)
    _launch(
        gated_sum_kernel,
        num_nodes,
        channels,
        out,
        logits,
        messages,
        nodes,
        projected,
        by_target.row_start,
        by_target.column,
        by_target.value,
        epsilon,
        NORMALIZES=normalizes,
        ONE_ROW=projected.size(0) == 1,
        HAS_COPY=messages is not None,
    )
    return out


def gated_sum_gradient(
    gradient: Tensor,
    logits_gradient: Tensor | None,
    logits: Tensor,
    messages: Tensor,
    by_target: CSR,
    by_source: CSR,
    normalizes: bool,
    epsilon: float,
) -> tuple[Tensor, Tensor]:
    r"""Returns the gradients of the nodes ``[N, 4 F]`` and of the logits ``[E, F]``."""
    num_nodes, channels = messages.size()
    nodes_gradient = messages.new_empty(num_nodes, 4 * channels)
    logits_total = torch.empty_like(logits)
    share = torch.empty_like(messages, dtype=torch.float32)
    _launch(
        gated_target_kernel,
        num_nodes,
        channels,
        nodes_gradient,
        logits_total,
        share,
        gradient,
        logits_gradient,
        logits,
        messages,
        by_target.row_start,
        by_target.column,
        by_target.value,
        epsilon,
        NORMALIZES=normalizes,
        HAS_GRADIENT=logits_gradient is not None,
    )
    _launch(
        gated_source_kernel,
        num_nodes,
        channels,
        nodes_gradient,
        logits_total,
        share,
        logits,
        by_source.row_start,
        by_source.column,
        by_source.value,
    )
    return nodes_gradient, logits_total


def neighbor_sum(sent: Tensor, projected: Tensor | None, by_target: CSR) -> Tensor:
    out = torch.empty_like(sent)
    _launch(
        neighbor_sum_kernel,
        *sent.size(),
        out,
        sent,
        projected,
        by_target.row_start,
        by_target.column,
        by_target.value,
        HAS_EDGES=projected is not None,
    )
    return out


def neighbor_sum_gradient(
    gradient: Tensor, sent: Tensor, projected: Tensor | None, by_source: CSR
) -> tuple[Tensor, Tensor | None]:
    sent_gradient = torch.empty_like(sent)
    projected_gradient = None if projected is None else torch.empty_like(projected)
    _launch(
        neighbor_gradient_kernel,
        *sent.size(),
        sent_gradient,
        projected_gradient,
        gradient,
        sent,
        projected,
        by_source.row_start,
        by_source.column,
        by_source.value,
        HAS_EDGES=projected is not None,
    )
    return sent_gradient, projected_gradient


def batch_norm(
    x: Tensor,
    onto: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: Tensor | None,
) -> tuple[Tensor, Tensor]:
    r"""Returns the normed rows, or ``onto`` plus their positive part; and mean and inverse standard
    deviation ``[2, F]``.
    """
    grid, rows, options = _cut(x, count)
    partial = x.new_empty(2, grid[0], x.size(1), dtype=torch.float32)
    statistics = x.new_empty(2, x.size(1), dtype=torch.float32)
    dtype = x.dtype if onto is None else torch.promote_types(x.dtype, onto.dtype)
    out = torch.empty_like(x, dtype=dtype)
    statistics_kernel[grid](partial, x, *rows, **options)
    normalize_kernel[grid](
        out,
        statistics,
        running_mean,
        running_var,
        partial,
        x,
        onto,
        weight,
        bias,
        *rows,
        momentum,
        eps,
        RUNS=triton.next_power_of_2(grid[0]),
        HAS_ONTO=onto is not None,
        ONE_ROW=onto is not None and onto.stride(0) == 0,
        HAS_RUNNING=running_mean is not None,
        **options,
    )
    return out, statistics


def batch_norm_gradient(
    gradient: Tensor,
    x: Tensor,
    statistics: Tensor,
    weight: Tensor,
    bias: Tensor,
    rectified: bool,
    count: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Returns the gradients of rows, weight and bias."""
    grid, rows, options = _cut(x, count)
    partial = x.new_empty(2, grid[0], x.size(1), dtype=torch.float32)
    x_gradient = torch.empty_like(x)
    weight_gradient, bias_gradient = torch.empty_like(weight), torch.empty_like(bias)
    given = (gradient, x, statistics, weight, bias, *rows)
    norm_sums_kernel[grid](partial, *given, RECTIFIED=rectified, **options)
    norm_gradient_kernel[grid](
        x_gradient,
        weight_gradient,
        bias_gradient,
        partial,
        *given,
        RUNS=triton.next_power_of_2(grid[0]),
        RECTIFIED=rectified,
        **options,
    )
    return x_gradient, weight_gradient, bias_gradient


def _launch(kernel, num_nodes: int, channels: int, *arguments, **options) -> None:
    if num_nodes == 0:
        return
    block = min(triton.next_power_of_2(channels), _MAX_BLOCK)
    grid = num_nodes, triton.cdiv(channels, block)
    # few programs do not fill the device: more threads each
    warps = max(block * _EDGES // (512 if num_nodes >= _MANY_NODES else 256), 1)
    kernel[grid](
        *arguments, CHANNELS=channels, EDGES=_EDGES, BLOCK=block, **options, num_warps=warps
    )


def _cut(x: Tensor, count: Tensor | None):
    r"""Returns the grid, with the number of runs of rows first, and what all norms are told."""
    num_rows, channels = x.size()
    runs = min(triton.cdiv(num_rows, _ROWS), _MAX_RUNS)
    # many rows are read in wide pieces; of few, every multiprocessor gets some
    block = 64 if num_rows >= 2 * _MAX_RUNS * _ROWS else 32
    options = {"CHANNELS": channels, "ROWS": _ROWS, "BLOCK": block, "HAS_COUNT": count is not None}
    grid = runs, triton.cdiv(channels, block)
    return grid, (count, num_rows, triton.cdiv(num_rows, runs)), options


@triton.jit
def _read(pointer, mask):
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _write(pointer, value, mask):
    tl.store(pointer, value.to(pointer.dtype.element_ty), mask=mask)


@triton.jit
def _rectify(x):
    # what is not a number stays what it is, as in torch
    return tl.where(x < 0, 0.0, x)


@triton.jit
def _edges_at(first, end, column_ptr, order_ptr, inside, EDGES: tl.constexpr):
    # the other end of each edge, its number, and where there is something to read: [K, 1], [K, C]
    slot = first + tl.arange(0, EDGES)
    there = slot < end
    node = tl.load(column_ptr + slot, mask=there, other=0).to(tl.int64)
    edge = tl.load(order_ptr + slot, mask=there, other=0).to(tl.int64)
    return node[:, None], edge[:, None], there[:, None] & inside[None, :]


@triton.jit
def gated_sum_kernel(
    out_ptr,
    logits_ptr,
    copy_ptr,
    nodes_ptr,  # [N, 4 F]: the node itself, its gate as a target, its message, its gate as a source
    projected_ptr,
    start_ptr,
    column_ptr,
    order_ptr,
    epsilon,
    CHANNELS: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK: tl.constexpr,
    NORMALIZES: tl.constexpr,
    ONE_ROW: tl.constexpr,
    HAS_COPY: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    at_node = nodes_ptr + node * 4 * CHANNELS + channel
    as_target = _read(at_node + CHANNELS, inside)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    weight = tl.zeros([BLOCK], dtype=tl.float32)
    first = tl.load(start_ptr + node)
    end = tl.load(start_ptr + node + 1)
    while first < end:
        source, edge, mask = _edges_at(first, end, column_ptr, order_ptr, inside, EDGES)
        at_source = nodes_ptr + source * 4 * CHANNELS + channel[None, :]
        at_edge = edge * CHANNELS + channel[None, :]
        at_row = edge * (0 if ONE_ROW else CHANNELS) + channel[None, :]
        logit = _read(projected_ptr + at_row, mask) + as_target[None, :]
        logit += _read(at_source + 3 * CHANNELS, mask)
        # as it is read again
        logit = logit.to(logits_ptr.dtype.element_ty).to(tl.float32)
        _write(logits_ptr + at_edge, logit, mask)
        gate = tl.where(mask, tl.sigmoid(logit), 0.0)
        total += tl.sum(gate * _read(at_source + 2 * CHANNELS, mask), axis=0)
        weight += tl.sum(gate, axis=0)
        first += EDGES
    if NORMALIZES:
        total /= weight + epsilon
    position = node * CHANNELS + channel
    _write(out_ptr + position, _read(at_node, inside) + total, inside)
    if HAS_COPY:
        _write(copy_ptr + position, _read(at_node + 2 * CHANNELS, inside), inside)


@triton.jit
def gated_target_kernel(
    nodes_gradient_ptr,
    total_ptr,
    share_ptr,
    gradient_ptr,
    logits_gradient_ptr,
    logits_ptr,
    messages_ptr,
    start_ptr,
    column_ptr,
    order_ptr,
    epsilon,
    CHANNELS: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK: tl.constexpr,
    NORMALIZES: tl.constexpr,
    HAS_GRADIENT: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    position = node * CHANNELS + channel
    start = tl.load(start_ptr + node)
    end = tl.load(start_ptr + node + 1)
    gradient = _read(gradient_ptr + position, inside)
    share = gradient
    mean = tl.zeros([BLOCK], dtype=tl.float32)
    if NORMALIZES:
        weight = tl.zeros([BLOCK], dtype=tl.float32)
        first = start
        while first < end:
            source, edge, mask = _edges_at(first, end, column_ptr, order_ptr, inside, EDGES)
            logit = _read(logits_ptr + edge * CHANNELS + channel[None, :], mask)
            gate = tl.where(mask, tl.sigmoid(logit), 0.0)
            message = _read(messages_ptr + source * CHANNELS + channel[None, :], mask)
            mean += tl.sum(gate * message, axis=0)
            weight += tl.sum(gate, axis=0)
            first += EDGES
        mean /= weight + epsilon
        share = gradient / (weight + epsilon)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    first = start
    while first < end:
        source, edge, mask = _edges_at(first, end, column_ptr, order_ptr, inside, EDGES)
        at_edge = edge * CHANNELS + channel[None, :]
        gate = tl.sigmoid(_read(logits_ptr + at_edge, mask))
        message = _read(messages_ptr + source * CHANNELS + channel[None, :], mask)
        of_logit = gate * (1.0 - gate) * share[None, :] * (message - mean[None, :])
        if HAS_GRADIENT:
            of_logit += _read(logits_gradient_ptr + at_edge, mask)
        _write(total_ptr + at_edge, of_logit, mask)
        total += tl.sum(tl.where(mask, of_logit, 0.0), axis=0)
        first += EDGES
    _write(share_ptr + position, share, inside)
    at_node = nodes_gradient_ptr + node * 4 * CHANNELS + channel
    _write(at_node, gradient, inside)
    _write(at_node + CHANNELS, total, inside)


@triton.jit
def gated_source_kernel(
    nodes_gradient_ptr,
    total_ptr,
    share_ptr,
    logits_ptr,
    start_ptr,
    column_ptr,
    order_ptr,
    CHANNELS: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    of_message = tl.zeros([BLOCK], dtype=tl.float32)
    of_gate = tl.zeros([BLOCK], dtype=tl.float32)
    first = tl.load(start_ptr + node)
    end = tl.load(start_ptr + node + 1)
    while first < end:
        target, edge, mask = _edges_at(first, end, column_ptr, order_ptr, inside, EDGES)
        at_edge = edge * CHANNELS + channel[None, :]
        share = _read(share_ptr + target * CHANNELS + channel[None, :], mask)
        of_message += tl.sum(tl.sigmoid(_read(logits_ptr + at_edge, mask)) * share, axis=0)
        of_gate += tl.sum(_read(total_ptr + at_edge, mask), axis=0)
        first += EDGES
    at_node = nodes_gradient_ptr + node * 4 * CHANNELS + channel
    _write(at_node + 2 * CHANNELS, of_message, inside)
    _write(at_node + 3 * CHANNELS, of_gate, inside)


@triton.jit
def neighbor_sum_kernel(
    out_ptr,
    sent_ptr,
    projected_ptr,
    start_ptr,
    column_ptr,
    order_ptr,
    CHANNELS: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_EDGES: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    total = tl.zeros([BLOCK], dtype=tl.float32)
    first = tl.load(start_ptr + node)
    end = tl.load(start_ptr + node + 1)
    while first < end:
        source, edge, mask = _edges_at(first, end, column_ptr, order_ptr, inside, EDGES)
        message = _read(sent_ptr + source * CHANNELS + channel[None, :], mask)
        if HAS_EDGES:
            message += _read(projected_ptr + edge * CHANNELS + channel[None, :], mask)
        total += tl.sum(_rectify(message), axis=0)
        first += EDGES
    _write(out_ptr + node * CHANNELS + channel, total, inside)


@triton.jit
def neighbor_gradient_kernel(
    sent_gradient_ptr,
    projected_gradient_ptr,
    gradient_ptr,
    sent_ptr,
    projected_ptr,
    start_ptr,
    column_ptr,
    order_ptr,
    CHANNELS: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_EDGES: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    position = node * CHANNELS + channel
    sent = _read(sent_ptr + position, inside)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    first = tl.load(start_ptr + node)
    end = tl.load(start_ptr + node + 1)
    while first < end:
        target, edge, mask = _edges_at(first, end, column_ptr, order_ptr, inside, EDGES)
        at_edge = edge * CHANNELS + channel[None, :]
        gradient = _read(gradient_ptr + target * CHANNELS + channel[None, :], mask)
        message = sent[None, :]
        if HAS_EDGES:
            message += _read(projected_ptr + at_edge, mask)
        gradient = tl.where(message > 0, gradient, 0.0)
        if HAS_EDGES:
            _write(projected_gradient_ptr + at_edge, gradient, mask)
        total += tl.sum(gradient, axis=0)
        first += EDGES
    _write(sent_gradient_ptr + position, total, inside)


@triton.jit
def _num_real(count_ptr, num_rows, HAS_COUNT: tl.constexpr):
    return tl.load(count_ptr).to(tl.int32) if HAS_COUNT else num_rows


@triton.jit
def statistics_kernel(
    partial_ptr,  # [2, runs, F]: means, and sums of squared distances from them
    x_ptr,
    count_ptr,
    num_rows,
    length,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_COUNT: tl.constexpr,
):
    run = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    start = run * length
    end = tl.minimum(start + length, _num_real(count_ptr, num_rows, HAS_COUNT))
    mean = tl.zeros([BLOCK], dtype=tl.float32)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    row = start
    while row < end:
        rows = row + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & inside[None, :]
        x = _read(x_ptr + rows.to(tl.int64)[:, None] * CHANNELS + channel[None, :], mask)
        before = (row - start).to(tl.float32)
        new = tl.minimum(end - row, ROWS).to(tl.float32)
        new_mean = tl.sum(x, axis=0) / new
        distance = tl.where(mask, x - new_mean[None, :], 0.0)
        apart = new_mean - mean
        share = new / (before + new)
        mean += apart * share
        squares += tl.sum(distance * distance, axis=0) + apart * apart * before * share
        row += ROWS
    at_run = partial_ptr + run * CHANNELS + channel
    tl.store(at_run, mean, mask=inside)
    tl.store(at_run + tl.num_programs(0) * CHANNELS, squares, mask=inside)


@triton.jit
def normalize_kernel(
    out_ptr,
    statistics_ptr,
    running_mean_ptr,
    running_var_ptr,
    partial_ptr,
    x_ptr,
    onto_ptr,
    weight_ptr,
    bias_ptr,
    count_ptr,
    num_rows,
    length,
    momentum,
    eps,
    RUNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_COUNT: tl.constexpr,
    HAS_ONTO: tl.constexpr,
    ONE_ROW: tl.constexpr,
    HAS_RUNNING: tl.constexpr,
):
    run = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    num_real = _num_real(count_ptr, num_rows, HAS_COUNT)
    count = tl.maximum(num_real, 1).to(tl.float32)
    # join the runs: [RUNS, BLOCK] -> [BLOCK]
    runs = tl.arange(0, RUNS)
    sizes = tl.minimum(tl.maximum(num_real - runs * length, 0), length).to(tl.float32)[:, None]
    there = (runs < tl.num_programs(0))[:, None] & inside[None, :]
    at_runs = partial_ptr + runs[:, None] * CHANNELS + channel[None, :]
    means = _read(at_runs, there)
    mean = tl.sum(sizes * means, axis=0) / count
    apart = means - mean[None, :]
    squares = _read(at_runs + tl.num_programs(0) * CHANNELS, there) + sizes * apart * apart
    variance = tl.sum(squares, axis=0) / count
    scale = 1.0 / tl.sqrt(variance + eps)
    if run == 0:
        tl.store(statistics_ptr + channel, mean, mask=inside)
        tl.store(statistics_ptr + CHANNELS + channel, scale, mask=inside)
        if HAS_RUNNING:
            old = _read(running_mean_ptr + channel, inside)
            _write(running_mean_ptr + channel, old + momentum * (mean - old), inside)
            old = _read(running_var_ptr + channel, inside)
            unbiased = variance * count / tl.maximum(count - 1.0, 1.0)
            _write(running_var_ptr + channel, old + momentum * (unbiased - old), inside)
    weight = _read(weight_ptr + channel, inside)
    bias = _read(bias_ptr + channel, inside)
    row = run * length
    end = tl.minimum(row + length, num_rows)
    while row < end:
        rows = (row + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        mask = (rows < end) & inside[None, :]
        position = rows * CHANNELS + channel[None, :]
        x = _read(x_ptr + position, mask)
        out = (x - mean[None, :]) * scale[None, :] * weight[None, :] + bias[None, :]
        if HAS_COUNT:
            out = tl.where(rows < num_real, out, 0.0)
        if HAS_ONTO:
            at_row = rows * (0 if ONE_ROW else CHANNELS) + channel[None, :]
            onto = _read(onto_ptr + at_row, mask)
            out = onto + _rectify(out)
        _write(out_ptr + position, out, mask)
        row += ROWS


@triton.jit
def _norm_rows(
    row,
    end,
    channel,
    inside,
    gradient_ptr,
    x_ptr,
    mean,
    scale,
    weight,
    bias,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    RECTIFIED: tl.constexpr,
):
    # the normed rows, the gradient of the norm's output, and where both lie
    rows = (row + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    mask = (rows < end) & inside[None, :]
    position = rows * CHANNELS + channel[None, :]
    normed = (_read(x_ptr + position, mask) - mean[None, :]) * scale[None, :]
    gradient = _read(gradient_ptr + position, mask)
    if RECTIFIED:
        gradient = tl.where(normed * weight[None, :] + bias[None, :] > 0, gradient, 0.0)
    return tl.where(mask, normed, 0.0), gradient, position


@triton.jit
def norm_sums_kernel(
    partial_ptr,  # [2, runs, F]: sums of the gradient, and of the gradient times the normed rows
    gradient_ptr,
    x_ptr,
    statistics_ptr,
    weight_ptr,
    bias_ptr,
    count_ptr,
    num_rows,
    length,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    RECTIFIED: tl.constexpr,
    HAS_COUNT: tl.constexpr,
):
    run = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    mean = _read(statistics_ptr + channel, inside)
    scale = _read(statistics_ptr + CHANNELS + channel, inside)
    weight = _read(weight_ptr + channel, inside)
    bias = _read(bias_ptr + channel, inside)
    plain = tl.zeros([BLOCK], dtype=tl.float32)
    times_normed = tl.zeros([BLOCK], dtype=tl.float32)
    row = run * length
    end = tl.minimum(row + length, _num_real(count_ptr, num_rows, HAS_COUNT))
    while row < end:
        normed, gradient, _ = _norm_rows(
            row,
            end,
            channel,
            inside,
            gradient_ptr,
            x_ptr,
            mean,
            scale,
            weight,
            bias,
            CHANNELS,
            ROWS,
            RECTIFIED,
        )
        plain += tl.sum(gradient, axis=0)
        times_normed += tl.sum(gradient * normed, axis=0)
        row += ROWS
    at_run = partial_ptr + run * CHANNELS + channel
    tl.store(at_run, plain, mask=inside)
    tl.store(at_run + tl.num_programs(0) * CHANNELS, times_normed, mask=inside)


@triton.jit
def norm_gradient_kernel(
    x_gradient_ptr,
    weight_gradient_ptr,
    bias_gradient_ptr,
    partial_ptr,
    gradient_ptr,
    x_ptr,
    statistics_ptr,
    weight_ptr,
    bias_ptr,
    count_ptr,
    num_rows,
    length,
    RUNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    RECTIFIED: tl.constexpr,
    HAS_COUNT: tl.constexpr,
):
    run = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    runs = tl.arange(0, RUNS)
    there = (runs < tl.num_programs(0))[:, None] & inside[None, :]
    at_runs = partial_ptr + runs[:, None] * CHANNELS + channel[None, :]
    plain = tl.sum(_read(at_runs, there), axis=0)
    times_normed = tl.sum(_read(at_runs + tl.num_programs(0) * CHANNELS, there), axis=0)
    if run == 0:
        _write(bias_gradient_ptr + channel, plain, inside)
        _write(weight_gradient_ptr + channel, times_normed, inside)
    num_real = _num_real(count_ptr, num_rows, HAS_COUNT)
    count = tl.maximum(num_real, 1).to(tl.float32)
    plain /= count
    times_normed /= count
    mean = _read(statistics_ptr + channel, inside)
    scale = _read(statistics_ptr + CHANNELS + channel, inside)
    weight = _read(weight_ptr + channel, inside)
    bias = _read(bias_ptr + channel, inside)
    row = run * length
    end = tl.minimum(row + length, num_rows)
    while row < end:
        normed, gradient, position = _norm_rows(
            row,
            end,
            channel,
            inside,
            gradient_ptr,
            x_ptr,
            mean,
            scale,
            weight,
            bias,
            CHANNELS,
            ROWS,
            RECTIFIED,
        )
        out = gradient - plain[None, :] - normed * times_normed[None, :]
        out *= (scale * weight)[None, :]
        rows = (row + tl.arange(0, ROWS))[:, None]
        if HAS_COUNT:
            out = tl.where(rows < num_real, out, 0.0)
        _write(x_gradient_ptr + position, out, (rows < end) & inside[None, :])
        row += ROWS
