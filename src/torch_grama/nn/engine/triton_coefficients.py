"""The coefficients of each graph and their closed form as Triton kernels.

All of it is tiny, so that on a fast device the number of launches is its whole cost: one program
does the work of a graph from beginning to end. Sums over channels are float32; what the recurrence
raises to high powers is float64.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

# Longer sequences and wider states go through torch: a program holds them in registers.
MAX_LENGTH = 64
MAX_CHANNELS = 1024
_BLOCK = 32  # columns that a program of the closed form holds at a time

# As in nn/coefficients.py, which holds the twins of these kernels.
PACE: tl.constexpr = tl.constexpr(5.0)
GUARD: tl.constexpr = tl.constexpr(1 / 3)
SMALLEST_TOTAL: tl.constexpr = tl.constexpr(0.1)
UNIT_EPSILON: tl.constexpr = tl.constexpr(1e-6)
BLOCK: tl.constexpr = tl.constexpr(_BLOCK)


def select(
    states: Tensor,
    residuals: Tensor | None,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    ar_order: int,
    ma_order: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Returns both sets of coefficients, ``[B, p]`` and ``[B, q]``, and what the gradient needs of
    them: scores after tanh, and side by side the newest element, what is asked of the keys and the
    query, ``[2, B, 2 F + D]``. Sequences are means, ``[B, L, F]``.
    """
    num_graphs, length, channels = states.size()
    query_weight, _, _, lag_bias = weights
    width, order = query_weight.size(1), lag_bias.size(1)
    coefficients = states.new_empty(num_graphs * (ar_order + ma_order))
    scores = states.new_empty(2, num_graphs, order, dtype=torch.float64)
    vectors = states.new_empty(2, num_graphs, 2 * channels + width)
    select_kernel[(num_graphs, 2)](
        coefficients,
        scores,
        vectors,
        states,
        states if residuals is None else residuals,
        *weights,
        num_graphs,
        1 / math.sqrt(width),
        AR=ar_order,
        MA=ma_order,
        DIFFERENCES=residuals is None,
        **_sizes(length, channels, width, order),
    )
    phi, theta = coefficients.split([num_graphs * ar_order, num_graphs * ma_order])
    return phi.view(-1, ar_order), theta.view(-1, ma_order), scores, vectors


def select_backward(
    phi_gradient: Tensor,
    theta_gradient: Tensor,
    scores: Tensor,
    vectors: Tensor,
    states: Tensor,
    residuals: Tensor | None,
    query_weight: Tensor,
    key_weight: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""Returns the gradients of the two sequences, ``[2, B, L, F]``, and side by side those of what
    is asked of the keys, of the query and of the lag bias, ``[2, B, F + D + max(p, q)]``.
    """
    num_graphs, length, channels = states.size()
    width, order = query_weight.size(1), scores.size(-1)
    sequence_gradient = states.new_empty(2, num_graphs, length, channels)
    vector_gradients = states.new_empty(2, num_graphs, channels + width + order)
    select_backward_kernel[(num_graphs, 2)](
        sequence_gradient,
        vector_gradients,
        phi_gradient,
        theta_gradient,
        scores,
        vectors,
        states,
        states if residuals is None else residuals,
        query_weight,
        key_weight,
        num_graphs,
        1 / math.sqrt(width),
        AR=phi_gradient.size(1),
        MA=theta_gradient.size(1),
        DIFFERENCES=residuals is None,
        **_sizes(length, channels, width, order),
    )
    return sequence_gradient, vector_gradients


def _sizes(length: int, channels: int, width: int, order: int) -> dict[str, int]:
    padded = triton.next_power_of_2(channels)
    return {
        "LENGTH": length,
        "CHANNELS": channels,
        "WIDTH": width,
        "ORDER": order,
        "ORDER_PADDED": triton.next_power_of_2(order),
        "CHANNELS_PADDED": padded,
        # rows of queries and keys that a program holds at a time
        "ROWS": min(max(4096 // padded, 1), triton.next_power_of_2(width)),
    }


def _step_sizes(length: int, steps: int, fold: bool) -> dict[str, int]:
    padded = triton.next_power_of_2(steps)
    return {"LENGTH": length, "STEPS": steps, "STEPS_PADDED": padded, "FOLD": fold}


def solve(
    phi: Tensor, theta: Tensor, length: int, steps: int, fold: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    r"""Returns the closed form, ``[B, R, C]`` in float64, and its parts in float32; with ``fold``,
    residuals are differences of the states, and have no part of their own.
    """
    num_graphs = phi.size(0)
    columns = (length if fold else 2 * length) + 1
    solution = phi.new_empty(num_graphs, steps, columns, dtype=torch.float64)
    states = phi.new_empty(num_graphs, steps, length)
    residuals = None if fold else torch.empty_like(states)
    response = phi.new_empty(num_graphs, steps)
    second, sizes = states if residuals is None else residuals, _step_sizes(length, steps, fold)
    solve_kernel[(num_graphs, triton.cdiv(columns, _BLOCK))](
        solution, states, second, response, phi, theta, AR=phi.size(1), MA=theta.size(1), **sizes
    )
    return solution, states, residuals, response


def solve_backward(
    states_gradient: Tensor,
    residuals_gradient: Tensor | None,
    response_gradient: Tensor,
    solution: Tensor,
    phi: Tensor,
    ma_order: int,
) -> tuple[Tensor, Tensor]:
    r"""Returns the gradients of both sets of coefficients, ``[B, p]`` and ``[B, q]``."""
    num_graphs, steps, length = states_gradient.size()
    phi_gradient = torch.empty_like(phi)
    theta_gradient = phi.new_empty(num_graphs, ma_order)
    solve_backward_kernel[(num_graphs,)](
        phi_gradient,
        theta_gradient,
        states_gradient,
        states_gradient if residuals_gradient is None else residuals_gradient,
        response_gradient,
        solution,
        phi,
        AR=phi.size(1),
        MA=ma_order,
        ORDER_PADDED=triton.next_power_of_2(max(phi.size(1), ma_order)),
        **_step_sizes(length, steps, fold=residuals_gradient is None),
    )
    return phi_gradient, theta_gradient


def expand_powers(
    solution: Tensor, length: int, fold: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    r"""Returns the rows, ``[B, R, R]`` in float64, and weights at each power of the backbone."""
    num_graphs, steps, _ = solution.size()
    rows = solution.new_empty(num_graphs, steps, steps)
    states = solution.new_empty(num_graphs, steps + 1, length, dtype=torch.float32)
    residuals = None if fold else torch.empty_like(states)
    bias = solution.new_empty(num_graphs, steps, dtype=torch.float32)
    second, sizes = states if residuals is None else residuals, _step_sizes(length, steps, fold)
    horner_kernel[(num_graphs,)](rows, states, second, bias, solution, **sizes)
    return rows, states, residuals, bias


def expand_powers_backward(
    states_gradient: Tensor,
    residuals_gradient: Tensor | None,
    bias_gradient: Tensor | None,
    rows: Tensor,
    solution: Tensor,
) -> tuple[Tensor, Tensor | None, Tensor]:
    num_graphs, steps, _ = rows.size()
    length = states_gradient.size(-1)
    states_out = rows.new_empty(num_graphs, steps, length)
    residuals_out = None if residuals_gradient is None else torch.empty_like(states_out)
    response_out = rows.new_empty(num_graphs, steps)
    horner_backward_kernel[(num_graphs,)](
        states_out,
        states_out if residuals_out is None else residuals_out,
        response_out,
        states_gradient,
        states_gradient if residuals_gradient is None else residuals_gradient,
        bias_gradient,
        rows,
        solution,
        HAS_BIAS=bias_gradient is not None,
        **_step_sizes(length, steps, fold=residuals_gradient is None),
    )
    return states_out, residuals_out, response_out


@triton.jit
def _element(
    states_ptr,
    residuals_ptr,
    row,
    channel,
    side,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    DIFFERENCES: tl.constexpr,
):
    # a state for the autoregressive side; for the other a residual, or the difference between a
    # state and the next one, which is zero for the last
    at_row = row * CHANNELS + channel
    inside = channel < CHANNELS
    is_residual = inside & (side == 1)
    if DIFFERENCES:
        x = tl.load(states_ptr + at_row, mask=inside, other=0.0)
        has_next = is_residual & (row + 1 < LENGTH)
        following = tl.load(states_ptr + at_row + CHANNELS, mask=has_next, other=0.0)
        x = tl.where(is_residual, tl.where(has_next, following - x, 0.0), x)
    else:
        x = tl.load(states_ptr + at_row, mask=inside & (side == 0), other=0.0)
        x += tl.load(residuals_ptr + at_row, mask=is_residual, other=0.0)
    return x


@triton.jit
def _inverse_rms(x, CHANNELS: tl.constexpr):
    return tl.rsqrt(tl.sum(x * x, axis=0) / CHANNELS + UNIT_EPSILON)


@triton.jit
def _guarded(c):
    # sum s, bound b and s / max(s^2, b^2), as in normalize_sum
    total = tl.sum(c, axis=0)
    bound = tl.maximum(tl.sum(tl.abs(c), axis=0), SMALLEST_TOTAL) * GUARD
    return total, bound, total / tl.maximum(total * total, bound * bound)


@triton.jit
def select_kernel(
    coefficients_ptr,  # [B, p], then [B, q]
    scores_ptr,  # [2, B, p], float64: after tanh
    vectors_ptr,  # [2, B, 2 F + D]: newest element, what is asked of the keys, query
    states_ptr,  # [B, L, F]
    residuals_ptr,
    query_weight_ptr,  # [2, D, F]
    query_bias_ptr,  # [2, D]
    key_weight_ptr,  # [2, D, F]
    lag_bias_ptr,  # [2, p]
    num_graphs,
    scale,
    AR: tl.constexpr,
    MA: tl.constexpr,
    DIFFERENCES: tl.constexpr,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    WIDTH: tl.constexpr,
    ORDER: tl.constexpr,
    ORDER_PADDED: tl.constexpr,
    CHANNELS_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    side = tl.program_id(1)  # autoregressive, moving-average
    graph = side * num_graphs + tl.program_id(0)
    states_ptr += tl.program_id(0) * LENGTH * CHANNELS
    residuals_ptr += tl.program_id(0) * LENGTH * CHANNELS
    order = tl.where(side == 0, AR, MA)
    vectors_ptr += graph * (2 * CHANNELS + WIDTH)
    channel = tl.arange(0, CHANNELS_PADDED)
    inside = channel < CHANNELS
    newest = _element(
        states_ptr, residuals_ptr, LENGTH - 1, channel, side, LENGTH, CHANNELS, DIFFERENCES
    )
    newest = newest * _inverse_rms(newest, CHANNELS)
    tl.store(vectors_ptr + channel, newest, mask=inside)
    asked = tl.zeros([CHANNELS_PADDED], dtype=tl.float32)
    for start in range(0, WIDTH, ROWS):
        row = start + tl.arange(0, ROWS)
        tile = (side * WIDTH + row[:, None]) * CHANNELS + channel[None, :]
        mask = (row < WIDTH)[:, None] & inside[None, :]
        weight = tl.load(query_weight_ptr + tile, mask=mask, other=0.0)
        query = tl.sum(weight * newest[None, :], axis=1)
        query += tl.load(query_bias_ptr + side * WIDTH + row, mask=row < WIDTH, other=0.0)
        tl.store(vectors_ptr + 2 * CHANNELS + row, query, mask=row < WIDTH)
        key = tl.load(key_weight_ptr + tile, mask=mask, other=0.0)
        asked += tl.sum(key * query[:, None], axis=0)
    tl.store(vectors_ptr + CHANNELS + channel, asked, mask=inside)

    position = tl.arange(0, ORDER_PADDED)
    used = position < order
    products = tl.zeros([ORDER_PADDED], dtype=tl.float64)
    for lag in range(ORDER):
        element = LENGTH - 1 - lag
        x = _element(
            states_ptr, residuals_ptr, element, channel, side, LENGTH, CHANNELS, DIFFERENCES
        )
        product = tl.sum(x * asked, axis=0) * _inverse_rms(x, CHANNELS)
        products += tl.where((position == lag) & used, product.to(tl.float64) * scale, 0.0)
    bias = tl.load(lag_bias_ptr + side * ORDER + position, mask=used, other=0.0).to(tl.float64)
    scores = products - tl.sum(products, axis=0) / order + bias * PACE
    # tanh, exact at both ends, where the exponential overflows or vanishes
    c = tl.where(used, 1.0 - 2.0 / (1.0 + tl.exp(2.0 * scores)), 0.0)
    total, _, ratio = _guarded(c)
    out = c * ratio + (1.0 - total * ratio) / order
    tl.store(scores_ptr + graph * ORDER + position, c, mask=position < ORDER)
    coefficients_ptr += side * num_graphs * AR + tl.program_id(0) * order
    tl.store(coefficients_ptr + position, out.to(tl.float32), mask=used)


@triton.jit
def select_backward_kernel(
    sequence_gradient_ptr,  # [2, B, L, F]
    vector_gradients_ptr,  # [2, B, F + D + p]: of what is asked, of the query, of the lag bias
    phi_gradient_ptr,  # [B, p]
    theta_gradient_ptr,  # [B, q]
    scores_ptr,
    vectors_ptr,
    states_ptr,
    residuals_ptr,
    query_weight_ptr,
    key_weight_ptr,
    num_graphs,
    scale,
    AR: tl.constexpr,
    MA: tl.constexpr,
    DIFFERENCES: tl.constexpr,
    LENGTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    WIDTH: tl.constexpr,
    ORDER: tl.constexpr,
    ORDER_PADDED: tl.constexpr,
    CHANNELS_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    side = tl.program_id(1)
    graph = side * num_graphs + tl.program_id(0)
    states_ptr += tl.program_id(0) * LENGTH * CHANNELS
    residuals_ptr += tl.program_id(0) * LENGTH * CHANNELS
    order = tl.where(side == 0, AR, MA)
    vectors_ptr += graph * (2 * CHANNELS + WIDTH)
    vector_gradients_ptr += graph * (CHANNELS + WIDTH + ORDER)
    sequence_gradient_ptr += graph * LENGTH * CHANNELS

    # 1. through the constraint and the tanh, to the scores
    position = tl.arange(0, ORDER_PADDED)
    used = position < order
    c = tl.load(scores_ptr + graph * ORDER + position, mask=used, other=0.0)
    phi_ptr = phi_gradient_ptr + tl.program_id(0) * AR
    theta_ptr = theta_gradient_ptr + tl.program_id(0) * MA
    g = tl.load(phi_ptr + position, mask=used & (side == 0), other=0.0).to(tl.float64)
    g += tl.load(theta_ptr + position, mask=used & (side == 1), other=0.0).to(tl.float64)
    total, bound, ratio = _guarded(c)
    mean = tl.sum(g, axis=0) / order
    ratio_gradient = tl.sum(g * c, axis=0) - total * mean
    # the ratio is 1 / s outside the guard, s / b^2 inside, where b follows sum|c|
    guarded = tl.abs(total) < bound
    slope = tl.where(guarded, 1.0 / (bound * bound), -ratio * ratio)
    sum_gradient = ratio_gradient * slope - ratio * mean
    follows = guarded & (bound > SMALLEST_TOTAL * GUARD)
    size_gradient = tl.where(follows, ratio_gradient * ratio / bound * -2.0 * GUARD, 0.0)
    sign = tl.where(c > 0, 1.0, tl.where(c < 0, -1.0, 0.0))
    score_gradient = (g * ratio + sum_gradient + sign * size_gradient) * (1.0 - c * c)
    score_gradient = tl.where(used, score_gradient, 0.0)
    lag_ptr = vector_gradients_ptr + CHANNELS + WIDTH
    bias_gradient = (score_gradient * PACE).to(tl.float32)
    tl.store(lag_ptr + position, bias_gradient, mask=position < ORDER)
    score_gradient -= tl.sum(score_gradient, axis=0) / order
    score_gradient = tl.where(used, score_gradient * scale, 0.0).to(tl.float32)

    # 2. to what is asked of the keys, to the query, to the newest element as it asks
    channel = tl.arange(0, CHANNELS_PADDED)
    inside = channel < CHANNELS
    asked_gradient = tl.zeros([CHANNELS_PADDED], dtype=tl.float32)
    for lag in range(ORDER):
        weight = tl.sum(tl.where(position == lag, score_gradient, 0.0), axis=0)
        element = LENGTH - 1 - lag
        x = _element(
            states_ptr, residuals_ptr, element, channel, side, LENGTH, CHANNELS, DIFFERENCES
        )
        asked_gradient += weight * x * _inverse_rms(x, CHANNELS)
    tl.store(vector_gradients_ptr + channel, asked_gradient, mask=inside)
    newest_gradient = tl.zeros([CHANNELS_PADDED], dtype=tl.float32)
    for start in range(0, WIDTH, ROWS):
        row = start + tl.arange(0, ROWS)
        tile = (side * WIDTH + row[:, None]) * CHANNELS + channel[None, :]
        mask = (row < WIDTH)[:, None] & inside[None, :]
        key = tl.load(key_weight_ptr + tile, mask=mask, other=0.0)
        query_gradient = tl.sum(key * asked_gradient[None, :], axis=1)
        tl.store(vector_gradients_ptr + CHANNELS + row, query_gradient, mask=row < WIDTH)
        weight = tl.load(query_weight_ptr + tile, mask=mask, other=0.0)
        newest_gradient += tl.sum(weight * query_gradient[:, None], axis=0)

    # 3. through the unit scale, to the elements
    asked = tl.load(vectors_ptr + CHANNELS + channel, mask=inside, other=0.0)
    before = tl.zeros([CHANNELS_PADDED], dtype=tl.float32)
    for element in range(LENGTH):
        lag = LENGTH - 1 - element
        weight = tl.sum(tl.where(position == lag, score_gradient, 0.0), axis=0)
        unit_gradient = weight * asked + tl.where(lag == 0, newest_gradient, 0.0)
        x = _element(
            states_ptr, residuals_ptr, element, channel, side, LENGTH, CHANNELS, DIFFERENCES
        )
        scale_down = _inverse_rms(x, CHANNELS)
        unit = x * scale_down
        along = tl.sum(unit * unit_gradient, axis=0) / CHANNELS
        gradient = scale_down * (unit_gradient - unit * along)
        # a difference belongs to the element after it too; the last one is zero, whatever comes
        if DIFFERENCES:
            passed = tl.where((side == 1) & (lag > 0), gradient, 0.0)
            gradient = tl.where(side == 1, before - passed, gradient)
            before = passed
        tl.store(sequence_gradient_ptr + element * CHANNELS + channel, gradient, mask=inside)


@triton.jit
def _right_side(
    phi_ptr,
    theta_ptr,
    row,
    column,
    LENGTH: tl.constexpr,
    AR: tl.constexpr,
    MA: tl.constexpr,
    FOLD: tl.constexpr,
):
    # element c of the given sequence lies L + row - c steps back
    lag = LENGTH + row - column
    is_state = column < LENGTH
    out = tl.load(phi_ptr + lag - 1, mask=is_state & (lag <= AR), other=0.0).to(tl.float64)
    if FOLD:
        later = is_state & (column >= 1) & (lag + 1 <= MA)
        out += tl.load(theta_ptr + lag, mask=later, other=0.0).to(tl.float64)
        earlier = is_state & (column + 1 < LENGTH) & (lag <= MA)
        out -= tl.load(theta_ptr + lag - 1, mask=earlier, other=0.0).to(tl.float64)
        last = LENGTH
    else:
        is_residual = (column >= LENGTH) & (column < 2 * LENGTH) & (lag + LENGTH <= MA)
        at_lag = theta_ptr + lag + LENGTH - 1
        out += tl.load(at_lag, mask=is_residual, other=0.0).to(tl.float64)
        last = 2 * LENGTH
    is_impulse = (column == last) & (row >= 1) & (row <= MA)
    out += tl.load(theta_ptr + row - 1 + column * 0, mask=is_impulse, other=0.0).to(tl.float64)
    return out + tl.where((column == last) & (row == 0), 1.0, 0.0)


@triton.jit
def _lagged(phi_ptr, lag, AR: tl.constexpr):
    return tl.load(phi_ptr + lag - 1, mask=(lag >= 1) & (lag <= AR), other=0.0).to(tl.float64)


@triton.jit
def solve_kernel(
    solution_ptr,  # [B, R, C], float64
    states_ptr,  # [B, R, L]: its first columns
    residuals_ptr,  # [B, R, L]: the next, unless folded
    response_ptr,  # [B, R]: its last
    phi_ptr,
    theta_ptr,
    LENGTH: tl.constexpr,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    AR: tl.constexpr,
    MA: tl.constexpr,
    FOLD: tl.constexpr,
):
    graph = tl.program_id(0)
    columns: tl.constexpr = (LENGTH if FOLD else 2 * LENGTH) + 1
    row = tl.arange(0, STEPS_PADDED)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    phi_ptr += graph * AR
    theta_ptr += graph * MA
    z = tl.zeros([STEPS_PADDED, BLOCK], dtype=tl.float64)
    for step in range(STEPS):
        past = tl.sum(_lagged(phi_ptr, step - row, AR)[:, None] * z, axis=0)
        value = past + _right_side(phi_ptr, theta_ptr, step, column, LENGTH, AR, MA, FOLD)
        z = tl.where(row[:, None] == step, value[None, :], z)
    inside = (row < STEPS)[:, None] & (column < columns)[None, :]
    at_row = graph * STEPS + row[:, None]
    tl.store(solution_ptr + at_row * columns + column[None, :], z, mask=inside)
    value = z.to(tl.float32)
    is_state = inside & (column < LENGTH)[None, :]
    tl.store(states_ptr + at_row * LENGTH + column[None, :], value, mask=is_state)
    if not FOLD:
        is_residual = inside & ((column >= LENGTH) & (column < 2 * LENGTH))[None, :]
        target = at_row * LENGTH + column[None, :] - LENGTH
        tl.store(residuals_ptr + target, value, mask=is_residual)
    is_last = inside & (column == columns - 1)[None, :]
    tl.store(response_ptr + at_row + column[None, :] * 0, value, mask=is_last)


@triton.jit
def solve_backward_kernel(
    phi_gradient_ptr,
    theta_gradient_ptr,
    states_gradient_ptr,
    residuals_gradient_ptr,
    response_gradient_ptr,
    solution_ptr,
    phi_ptr,
    LENGTH: tl.constexpr,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    AR: tl.constexpr,
    MA: tl.constexpr,
    ORDER_PADDED: tl.constexpr,
    FOLD: tl.constexpr,
):
    graph = tl.program_id(0)
    last: tl.constexpr = LENGTH if FOLD else 2 * LENGTH
    columns: tl.constexpr = last + 1
    order: tl.constexpr = AR if AR > MA else MA
    row = tl.arange(0, STEPS_PADDED)
    position = tl.arange(0, ORDER_PADDED)
    phi_ptr += graph * AR
    solution_ptr += graph * STEPS * columns
    phi_gradient = tl.zeros([ORDER_PADDED], dtype=tl.float64)
    theta_gradient = tl.zeros([ORDER_PADDED], dtype=tl.float64)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        # the gradient of the right-hand sides, by substitution from the last row up
        g = tl.zeros([STEPS_PADDED, BLOCK], dtype=tl.float64)
        for back in range(STEPS):
            step = STEPS - 1 - back
            at_row = graph * STEPS + step
            value = _row_gradient(
                states_gradient_ptr, residuals_gradient_ptr, at_row, column, LENGTH, FOLD
            )
            given = response_gradient_ptr + at_row + column * 0
            value += tl.load(given, mask=column == last, other=0.0).to(tl.float64)
            value += tl.sum(_lagged(phi_ptr, row - step, AR)[:, None] * g, axis=0)
            g = tl.where(row[:, None] == step, value[None, :], g)
        inside = (row < STEPS)[:, None] & (column < columns)[None, :]
        for lag in range(1, order + 1):
            earlier = solution_ptr + (row[:, None] - lag) * columns + column[None, :]
            z = tl.load(earlier, mask=inside & (row >= lag)[:, None], other=0.0)
            # where the coefficient of this lag stands on the right-hand side
            source = LENGTH + row[:, None] - lag
            at_source = column[None, :] == source
            phi_share = g * z + tl.where(at_source & (column < LENGTH)[None, :], g, 0.0)
            if FOLD:
                at_next = (column[None, :] == source + 1) & (column >= 1)[None, :]
                later = tl.where(at_next & (column < LENGTH)[None, :], g, 0.0)
                earlier_state = at_source & (column + 1 < LENGTH)[None, :]
                theta_share = later - tl.where(earlier_state, g, 0.0)
            else:
                is_residual = ((column >= LENGTH) & (column < last))[None, :]
                at_residual = (column[None, :] == source + LENGTH) & is_residual
                theta_share = tl.where(at_residual, g, 0.0)
            is_impulse = (column == last)[None, :] & (row == lag)[:, None]
            theta_share += tl.where(is_impulse, g, 0.0)
            phi_total = tl.sum(tl.sum(phi_share, axis=1), axis=0)
            theta_total = tl.sum(tl.sum(theta_share, axis=1), axis=0)
            phi_gradient += tl.where(position == lag - 1, phi_total, 0.0)
            theta_gradient += tl.where(position == lag - 1, theta_total, 0.0)
    out = phi_gradient.to(tl.float32)
    tl.store(phi_gradient_ptr + graph * AR + position, out, mask=position < AR)
    out = theta_gradient.to(tl.float32)
    tl.store(theta_gradient_ptr + graph * MA + position, out, mask=position < MA)


@triton.jit
def _delayed(solution_ptr, delay, columns: tl.constexpr, STEPS: tl.constexpr):
    # the impulse response at a delay, zero before it starts
    at_delay = solution_ptr + delay * columns + columns - 1
    return tl.load(at_delay, mask=(delay >= 0) & (delay < STEPS), other=0.0)


@triton.jit
def horner_kernel(
    rows_ptr,  # [B, R, R], float64
    states_ptr,  # [B, R + 1, L]
    residuals_ptr,  # [B, R + 1, L], unless folded
    bias_ptr,  # [B, R]
    solution_ptr,
    LENGTH: tl.constexpr,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    FOLD: tl.constexpr,
):
    graph = tl.program_id(0)
    last: tl.constexpr = LENGTH if FOLD else 2 * LENGTH
    columns: tl.constexpr = last + 1
    solution_ptr += graph * STEPS * columns
    row = tl.arange(0, STEPS_PADDED)
    apart = row[:, None] - tl.arange(0, STEPS_PADDED)[None, :]
    inside = (row < STEPS)[:, None]
    direct = tl.where(inside, _delayed(solution_ptr, apart, columns, STEPS), 0.0)
    delayed = tl.where(inside, _delayed(solution_ptr, apart - 1, columns, STEPS), 0.0)
    current = tl.where(row == STEPS - 1, 1.0, 0.0).to(tl.float64)
    # the newest given state also enters through the first residual, one power higher
    through = tl.sum(current, axis=0) * 0.0
    for power in range(STEPS + 1):
        is_row = (row < STEPS) & (power < STEPS)
        tl.store(rows_ptr + (graph * STEPS + power) * STEPS + row, current, mask=is_row)
        at_row = (graph * (STEPS + 1) + power) * LENGTH
        for start in range(0, last, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tile = solution_ptr + row[:, None] * columns + column[None, :]
            z = tl.load(tile, mask=inside & (column < last)[None, :], other=0.0)
            value = tl.sum(current[:, None] * z, axis=0)
            value += tl.where(column == LENGTH - 1, through, 0.0)
            out = value.to(tl.float32)
            tl.store(states_ptr + at_row + column, out, mask=column < LENGTH)
            if not FOLD:
                is_residual = (column >= LENGTH) & (column < last)
                tl.store(residuals_ptr + at_row + column - LENGTH, out, mask=is_residual)
        response = tl.sum(current[:, None] * direct, axis=0)
        total = tl.sum(response, axis=0).to(tl.float32)
        tl.store(bias_ptr + graph * STEPS + power, total, mask=power < STEPS)
        through = tl.sum(tl.where(row == 0, response, 0.0), axis=0)
        current = tl.sum(current[:, None] * delayed, axis=0)


@triton.jit
def horner_backward_kernel(
    states_out_ptr,  # [B, R, L], float64: the gradient of the solution
    residuals_out_ptr,  # [B, R, L], float64, unless folded
    response_out_ptr,  # [B, R], float64
    states_gradient_ptr,  # [B, R + 1, L]
    residuals_gradient_ptr,
    bias_gradient_ptr,
    rows_ptr,
    solution_ptr,
    LENGTH: tl.constexpr,
    STEPS: tl.constexpr,
    STEPS_PADDED: tl.constexpr,
    FOLD: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    graph = tl.program_id(0)
    last: tl.constexpr = LENGTH if FOLD else 2 * LENGTH
    columns: tl.constexpr = last + 1
    solution_ptr += graph * STEPS * columns
    rows_ptr += graph * STEPS * STEPS
    states_gradient_ptr += graph * (STEPS + 1) * LENGTH
    residuals_gradient_ptr += graph * (STEPS + 1) * LENGTH
    row = tl.arange(0, STEPS_PADDED)
    other = tl.arange(0, STEPS_PADDED)
    inside = (row < STEPS)[:, None]
    for start in range(0, last, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total = tl.zeros([STEPS_PADDED, BLOCK], dtype=tl.float64)
        for power in range(STEPS):
            current = tl.load(rows_ptr + power * STEPS + row, mask=row < STEPS, other=0.0)
            g = _row_gradient(
                states_gradient_ptr, residuals_gradient_ptr, power, column, LENGTH, FOLD
            )
            total += current[:, None] * g[None, :]
        target = (graph * STEPS + row[:, None]) * LENGTH + column[None, :]
        tl.store(states_out_ptr + target, total, mask=inside & (column < LENGTH)[None, :])
        if not FOLD:
            is_residual = ((column >= LENGTH) & (column < last))[None, :]
            tl.store(residuals_out_ptr + target - LENGTH, total, mask=inside & is_residual)

    # of the rows, from the highest power down; `later` is that of the row one power higher
    apart = row[:, None] - other[None, :]
    direct = tl.where(inside, _delayed(solution_ptr, apart, columns, STEPS), 0.0)
    delayed = tl.where(inside, _delayed(solution_ptr, apart - 1, columns, STEPS), 0.0)
    later = tl.zeros([STEPS_PADDED], dtype=tl.float64)
    response_gradient = tl.zeros([STEPS_PADDED], dtype=tl.float64)
    for back in range(STEPS):
        power = STEPS - 1 - back
        newest = tl.load(states_gradient_ptr + (power + 1) * LENGTH + LENGTH - 1).to(tl.float64)
        passed = tl.where(other == 0, newest, 0.0)
        if HAS_BIAS:
            bias = tl.load(bias_gradient_ptr + graph * STEPS + power).to(tl.float64)
            passed += tl.where(other < STEPS, bias, 0.0)
        # entry j of the row meets the response at delay j - k - 1, and directly at j - k
        at_delay = row[:, None] + other[None, :]
        source = rows_ptr + power * STEPS + at_delay
        current = tl.load(source, mask=at_delay < STEPS, other=0.0)
        response_gradient += tl.sum(current * passed[None, :], axis=1)
        current = tl.load(source + 1, mask=at_delay + 1 < STEPS, other=0.0)
        response_gradient += tl.sum(current * later[None, :], axis=1)
        now = tl.sum(direct * passed[None, :], axis=1)
        now += tl.sum(delayed * later[None, :], axis=1)
        for start in range(0, last, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tile = solution_ptr + row[:, None] * columns + column[None, :]
            z = tl.load(tile, mask=inside & (column < last)[None, :], other=0.0)
            g = _row_gradient(
                states_gradient_ptr, residuals_gradient_ptr, power, column, LENGTH, FOLD
            )
            now += tl.sum(z * g[None, :], axis=1)
        later = now
    tl.store(response_out_ptr + graph * STEPS + row, response_gradient, mask=row < STEPS)


@triton.jit
def _row_gradient(states_ptr, residuals_ptr, row, column, LENGTH: tl.constexpr, FOLD: tl.constexpr):
    at_row = row * LENGTH + column
    g = tl.load(states_ptr + at_row, mask=column < LENGTH, other=0.0).to(tl.float64)
    if not FOLD:
        is_residual = (column >= LENGTH) & (column < 2 * LENGTH)
        given = residuals_ptr + at_row - LENGTH
        g += tl.load(given, mask=is_residual, other=0.0).to(tl.float64)
    return g
