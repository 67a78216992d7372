"""Device code for the coefficients of each graph: selection, closed form, powers of the backbone.

All of it is tiny, so that on a fast device the number of launches is its whole cost: one program
does the work of a graph from beginning to end. Sums over channels are float32; what the recurrence
raises to high powers is float64.
"""

import triton
import triton.language as tl


@triton.jit
def _element(
    x_ptr,
    row,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    channel,
    inside,
    DIFFERENCES: tl.constexpr,
):
    # an element of a pooled sequence, or its difference to the next one
    x = tl.load(x_ptr + row * CHANNELS + channel, mask=inside, other=0.0)
    if DIFFERENCES:
        has_next = inside & (row + 1 < LENGTH)
        following = tl.load(x_ptr + (row + 1) * CHANNELS + channel, mask=has_next, other=0.0)
        x = tl.where(row + 1 < LENGTH, following - x, 0.0)
    return x


@triton.jit
def select_kernel(
    coefficients_ptr,  # [2, B, p]
    scores_ptr,  # [2, B, p], float64: after tanh
    vectors_ptr,  # [2, 3, B, F]: newest element, query, what is asked of the keys
    states_ptr,  # [B, L, F]
    residuals_ptr,
    ar_query_ptr,
    ar_query_bias_ptr,
    ar_key_ptr,
    ar_lag_bias_ptr,
    ma_query_ptr,
    ma_query_bias_ptr,
    ma_key_ptr,
    ma_lag_bias_ptr,
    num_graphs,
    scale,
    guard,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    ORDER: tl.constexpr,
    ORDER_PADDED: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    DIFFERENCES: tl.constexpr,
):
    graph = tl.program_id(0)
    if tl.program_id(1) == 0:
        _select(
            coefficients_ptr + graph * ORDER,
            scores_ptr + graph * ORDER,
            vectors_ptr + graph * CHANNELS,
            num_graphs * CHANNELS,
            states_ptr + graph * LENGTH * CHANNELS,
            ar_query_ptr,
            ar_query_bias_ptr,
            ar_key_ptr,
            ar_lag_bias_ptr,
            scale,
            guard,
            LENGTH,
            CHANNELS,
            ORDER,
            ORDER_PADDED,
            WIDTH,
            ROWS,
            False,
        )
    else:
        _select(
            coefficients_ptr + (num_graphs + graph) * ORDER,
            scores_ptr + (num_graphs + graph) * ORDER,
            vectors_ptr + (3 * num_graphs + graph) * CHANNELS,
            num_graphs * CHANNELS,
            residuals_ptr + graph * LENGTH * CHANNELS,
            ma_query_ptr,
            ma_query_bias_ptr,
            ma_key_ptr,
            ma_lag_bias_ptr,
            scale,
            guard,
            LENGTH,
            CHANNELS,
            ORDER,
            ORDER_PADDED,
            WIDTH,
            ROWS,
            DIFFERENCES,
        )


@triton.jit
def _select(
    out_ptr,
    scores_ptr,
    vectors_ptr,
    vector_step,
    x_ptr,
    query_weight_ptr,
    query_bias_ptr,
    key_weight_ptr,
    lag_bias_ptr,
    scale,
    guard,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    ORDER: tl.constexpr,
    ORDER_PADDED: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    DIFFERENCES: tl.constexpr,
):
    channel = tl.arange(0, WIDTH)
    inside = channel < CHANNELS
    newest = _element(x_ptr, LENGTH - 1, LENGTH, CHANNELS, channel, inside, DIFFERENCES)
    tl.store(vectors_ptr + channel, newest, mask=inside)
    asked = tl.zeros([WIDTH], dtype=tl.float32)
    for start in range(0, CHANNELS, ROWS):
        row = start + tl.arange(0, ROWS)
        tile = row[:, None] * CHANNELS + channel[None, :]
        mask = (row < CHANNELS)[:, None] & inside[None, :]
        weight = tl.load(query_weight_ptr + tile, mask=mask, other=0.0)
        query = tl.sum(weight * newest[None, :], axis=1)
        query += tl.load(query_bias_ptr + row, mask=row < CHANNELS, other=0.0)
        tl.store(vectors_ptr + vector_step + row, query, mask=row < CHANNELS)
        key = tl.load(key_weight_ptr + tile, mask=mask, other=0.0)
        asked += tl.sum(key * query[:, None], axis=0)
    tl.store(vectors_ptr + 2 * vector_step + channel, asked, mask=inside)

    position = tl.arange(0, ORDER_PADDED)
    used = position < ORDER
    scores = tl.load(lag_bias_ptr + position, mask=used, other=0.0).to(tl.float64)
    for lag in range(ORDER):
        element = _element(x_ptr, LENGTH - 1 - lag, LENGTH, CHANNELS, channel, inside, DIFFERENCES)
        score = tl.sum(element * asked, axis=0).to(tl.float64) * scale
        scores += tl.where(position == lag, score, 0.0)
    # tanh, exact at both ends, where the exponential overflows or vanishes
    c = tl.where(used, 1.0 - 2.0 / (1.0 + tl.exp(2.0 * scores)), 0.0)
    total = tl.sum(c, axis=0)
    ratio = total / tl.maximum(total * total, guard * guard)
    out = c * ratio + (1.0 - total * ratio) / ORDER
    tl.store(scores_ptr + position, c, mask=used)
    tl.store(out_ptr + position, out.to(tl.float32), mask=used)


@triton.jit
def select_backward_kernel(
    sequence_gradient_ptr,  # [2, B, L, F]
    vector_gradients_ptr,  # [2, B, 2 F + p]: of the query, of what is asked, of the lag bias
    phi_gradient_ptr,  # [B, p]
    theta_gradient_ptr,
    scores_ptr,
    vectors_ptr,
    states_ptr,
    residuals_ptr,
    ar_query_ptr,
    ar_key_ptr,
    ma_query_ptr,
    ma_key_ptr,
    num_graphs,
    scale,
    guard,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    ORDER: tl.constexpr,
    ORDER_PADDED: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    DIFFERENCES: tl.constexpr,
):
    graph = tl.program_id(0)
    size = LENGTH * CHANNELS
    if tl.program_id(1) == 0:
        _select_backward(
            sequence_gradient_ptr + graph * size,
            vector_gradients_ptr + graph * (2 * CHANNELS + ORDER),
            phi_gradient_ptr + graph * ORDER,
            scores_ptr + graph * ORDER,
            vectors_ptr + (2 * num_graphs + graph) * CHANNELS,
            states_ptr + graph * size,
            ar_query_ptr,
            ar_key_ptr,
            scale,
            guard,
            LENGTH,
            CHANNELS,
            ORDER,
            ORDER_PADDED,
            WIDTH,
            ROWS,
            False,
        )
    else:
        _select_backward(
            sequence_gradient_ptr + (num_graphs + graph) * size,
            vector_gradients_ptr + (num_graphs + graph) * (2 * CHANNELS + ORDER),
            theta_gradient_ptr + graph * ORDER,
            scores_ptr + (num_graphs + graph) * ORDER,
            vectors_ptr + (5 * num_graphs + graph) * CHANNELS,
            residuals_ptr + graph * size,
            ma_query_ptr,
            ma_key_ptr,
            scale,
            guard,
            LENGTH,
            CHANNELS,
            ORDER,
            ORDER_PADDED,
            WIDTH,
            ROWS,
            DIFFERENCES,
        )


@triton.jit
def _select_backward(
    x_gradient_ptr,
    vector_gradient_ptr,
    gradient_ptr,
    scores_ptr,
    asked_ptr,
    x_ptr,
    query_weight_ptr,
    key_weight_ptr,
    scale,
    guard,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    ORDER: tl.constexpr,
    ORDER_PADDED: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    DIFFERENCES: tl.constexpr,
):
    position = tl.arange(0, ORDER_PADDED)
    used = position < ORDER
    c = tl.load(scores_ptr + position, mask=used, other=0.0)
    g = tl.load(gradient_ptr + position, mask=used, other=0.0).to(tl.float64)
    total = tl.sum(c, axis=0)
    ratio = total / tl.maximum(total * total, guard * guard)
    mean = tl.sum(g, axis=0) / ORDER
    ratio_gradient = tl.sum(g * c, axis=0) - total * mean
    # the ratio is 1 / s outside the guard, s / guard^2 inside
    slope = tl.where(tl.abs(total) >= guard, -ratio * ratio, 1.0 / (guard * guard))
    sum_gradient = ratio_gradient * slope - ratio * mean
    score_gradient = tl.where(used, (g * ratio + sum_gradient) * (1.0 - c * c), 0.0)
    lag_ptr = vector_gradient_ptr + 2 * CHANNELS
    tl.store(lag_ptr + position, score_gradient.to(tl.float32), mask=used)
    score_gradient = (score_gradient * scale).to(tl.float32)

    channel = tl.arange(0, WIDTH)
    inside = channel < CHANNELS
    asked_gradient = tl.zeros([WIDTH], dtype=tl.float32)
    for lag in range(ORDER):
        weight = tl.sum(tl.where(position == lag, score_gradient, 0.0), axis=0)
        asked_gradient += weight * _element(
            x_ptr, LENGTH - 1 - lag, LENGTH, CHANNELS, channel, inside, DIFFERENCES
        )
    tl.store(vector_gradient_ptr + CHANNELS + channel, asked_gradient, mask=inside)
    newest_gradient = tl.zeros([WIDTH], dtype=tl.float32)
    for start in range(0, CHANNELS, ROWS):
        row = start + tl.arange(0, ROWS)
        tile = row[:, None] * CHANNELS + channel[None, :]
        mask = (row < CHANNELS)[:, None] & inside[None, :]
        key = tl.load(key_weight_ptr + tile, mask=mask, other=0.0)
        query_gradient = tl.sum(key * asked_gradient[None, :], axis=1)
        tl.store(vector_gradient_ptr + row, query_gradient, mask=row < CHANNELS)
        weight = tl.load(query_weight_ptr + tile, mask=mask, other=0.0)
        newest_gradient += tl.sum(weight * query_gradient[:, None], axis=0)

    asked = tl.load(asked_ptr + channel, mask=inside, other=0.0)
    for element in range(LENGTH):
        lag = LENGTH - 1 - element
        weight = tl.sum(tl.where(position == lag, score_gradient, 0.0), axis=0)
        if DIFFERENCES:
            # the last difference is zero, whatever the sequence is
            before = tl.sum(tl.where(position == lag + 1, score_gradient, 0.0), axis=0)
            gradient = (before - tl.where(lag == 0, 0.0, weight)) * asked
        else:
            gradient = weight * asked + tl.where(lag == 0, newest_gradient, 0.0)
        tl.store(x_gradient_ptr + element * CHANNELS + channel, gradient, mask=inside)
