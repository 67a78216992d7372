"""Device code for the closed form of the recurrence; one program a graph, in float64.

The solution of a graph is one matrix ``[R, C]``: what multiplies the given states, what multiplies
the given residuals (unless they are differences of the states, whose share is then folded in), and
last the impulse response.
"""

import triton
import triton.language as tl


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
    BLOCK: tl.constexpr,
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
    BLOCK: tl.constexpr,
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
            given = states_gradient_ptr + at_row * LENGTH + column
            value = tl.load(given, mask=column < LENGTH, other=0.0).to(tl.float64)
            if not FOLD:
                given = residuals_gradient_ptr + at_row * LENGTH + column - LENGTH
                is_residual = (column >= LENGTH) & (column < last)
                value += tl.load(given, mask=is_residual, other=0.0).to(tl.float64)
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
    BLOCK: tl.constexpr,
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
    BLOCK: tl.constexpr,
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
def _row_gradient(
    states_gradient_ptr,
    residuals_gradient_ptr,
    power,
    column,
    LENGTH: tl.constexpr,
    FOLD: tl.constexpr,
):
    at_row = power * LENGTH + column
    g = tl.load(states_gradient_ptr + at_row, mask=column < LENGTH, other=0.0).to(tl.float64)
    if not FOLD:
        is_residual = (column >= LENGTH) & (column < 2 * LENGTH)
        given = residuals_gradient_ptr + at_row - LENGTH
        g += tl.load(given, mask=is_residual, other=0.0).to(tl.float64)
    return g
