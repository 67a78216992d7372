"""How long a single input is felt: the impulse response and its memory length."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.analysis.inputs import check_coefficients, check_count, check_tolerance
from torch_grama.analysis.stability import find_poles_and_zeros
from torch_grama.analysis.state_space import simulate_arma, state_matrix

# Poles this near to the unit circle count as on it: a decay over more than a million lags is none.
_CIRCLE = 1e-6

# No response with its poles further inside lasts as long as this; one that does is not decaying.
_LAST_LAG = 10**9

# Numbers held at once while the response is followed.
_CHUNK_NUMBERS = 2**20


def impulse_response(phi: Tensor, theta: Tensor | None, length: int) -> Tensor:
    r"""The response :math:`h_0, \dots, h_{T-1}` of an ARMA recurrence at rest to a single input
    :math:`\delta_0 = 1`

    .. math::
        h_k = \sum_{i=1}^{p} \phi_i h_{k-i} + \theta_k, \qquad \theta_0 = 1, \quad
        \theta_k = 0 \ \text{for} \ k > q, \quad h_k = 0 \ \text{for} \ k < 0

    It is the weight :math:`\mathbf{C} \mathbf{A}^k \mathbf{B}` of an input :math:`k` steps later.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.
        theta (Tensor, optional): Moving-average coefficients :math:`(*, q)`, or :obj:`None`.
        length (int): Number :math:`T` of lags.

    Returns:
        Tensor: The response :math:`(*, T)`.

    Example:
        >>> impulse_response(torch.tensor([0.5]), torch.tensor([0.25]), length=4)
        tensor([1.0000, 0.7500, 0.3750, 0.1875])
    """
    check_count("length", length, minimum=0)
    phi, theta = check_coefficients(phi, theta)
    inputs = phi.new_zeros((*phi.shape[:-1], length))
    inputs[..., :1] = 1
    return simulate_arma(phi, theta, inputs)


def memory_length(phi: Tensor, theta: Tensor | None = None, tolerance: float = 1e-3) -> Tensor:
    r"""The lag beyond which the impulse response stays below a tolerance

    .. math::
        \max \{ k : |h_k| \ge \varepsilon \}

    where :math:`h_k` is the :func:`impulse_response`; 0 where no lag reaches the tolerance.
    A response that never decays has infinite memory: that of any pole on or outside the unit
    circle, unless a zero of the moving average cancels it. A decaying response is followed until
    the energy that is left, :math:`\sum_{m \ge k} h_m^2`, proves that it cannot come back. Poles
    nearer than :obj:`1e-6` to the circle count as on it.

    .. note::
        Coefficients that sum to one always have a pole at 1: a GRAMA block with the paper's
        constraint has infinite memory in this sense, as long as its retention :math:`\alpha` is 1
        or missing. With any other the sum is :math:`\alpha`, and 1 is no pole.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.
        theta (Tensor, optional): Moving-average coefficients :math:`(*, q)`. (default: :obj:`None`)
        tolerance (float, optional): The size :math:`\varepsilon`. (default: :obj:`1e-3`)

    Returns:
        Tensor: Whole numbers :math:`(*)` in float64, or infinity.

    Example:
        >>> memory_length(torch.tensor([[0.5], [0.9], [1.0]]))
        tensor([ 9., 65., inf], dtype=torch.float64)
    """
    check_tolerance(tolerance, positive=True)
    phi, theta = check_coefficients(phi, theta)
    batch_shape = phi.shape[:-1]
    phi = phi.detach().double().reshape(batch_shape.numel(), phi.size(-1))
    theta = theta.detach().double().reshape(batch_shape.numel(), theta.size(-1))

    found = find_poles_and_zeros(phi, theta, _CIRCLE)
    memory = torch.full((len(phi),), torch.inf, dtype=torch.float64, device=phi.device)
    decaying = ~found.excited.any(-1)
    # Divide cancelled factors out: rounding would bring them back. A root at zero is no factor.
    cancelled = (decaying & found.lasting.any(-1)).unsqueeze(-1)
    phi = torch.where(cancelled, -_monic(found.poles.masked_fill(found.lasting, 0)), phi)
    theta = torch.where(cancelled, _monic(found.zeros.masked_fill(found.used, 0)), theta)
    memory[decaying] = _follow(phi[decaying], theta[decaying], tolerance)
    return memory.view(batch_shape)


def _follow(phi: Tensor, theta: Tensor, tolerance: float) -> Tensor:
    r"""Memory of decaying responses ``[S]``, in chunks of lags, dropping those that are settled."""
    (num_systems, p), q = phi.shape, theta.size(-1)
    if num_systems == 0:
        return phi.new_zeros(0)
    # 1. The lags at which the moving average still acts, and the state they leave, newest first.
    head = impulse_response(phi, theta, max(p, q + 1))
    memory = _last_lag(head, tolerance, first_lag=0).clamp(min=0)
    state = head[:, -p:].flip(-1)
    lag = head.size(-1)  # the next lag to look at

    # 2. From here on h_{k+m} is the first entry of Phi^m state, and
    #    energy(state) = sum_m h_{k+m}^2 = state^T W state.
    companion = state_matrix(phi)
    W = _tail_energy(companion)
    rows, power = companion[:, :1], companion  # first rows of Phi^1 .. Phi^m [S, m, p], and Phi^m
    while rows.size(1) < max(p, 32):
        rows, power = _double(rows, power)
    active = torch.arange(num_systems, device=phi.device)
    while True:
        energy = torch.einsum("sp,spq,sq->s", state, W, state)
        rounding = 1e-12 * torch.linalg.matrix_norm(W) * state.square().sum(-1)
        left = energy + rounding >= tolerance**2
        active, state, W = active[left], state[left], W[left]
        rows, power = rows[left], power[left]
        if len(active) == 0 or lag > _LAST_LAG:
            memory[active] = torch.inf
            return memory
        chunk = (rows @ state.unsqueeze(-1)).squeeze(-1)  # [S, m]
        found = _last_lag(chunk, tolerance, first_lag=lag)
        memory[active] = torch.where(found >= 0, found, memory[active])
        state = chunk[:, -p:].flip(-1)
        lag += chunk.size(-1)
        if 2 * rows.numel() <= _CHUNK_NUMBERS:
            rows, power = _double(rows, power)


def _last_lag(response: Tensor, tolerance: float, first_lag: int) -> Tensor:
    r"""The last lag at which a row reaches the tolerance, -1 where none does."""
    lags = torch.arange(first_lag, first_lag + response.size(-1), device=response.device)
    return torch.where(response.abs() >= tolerance, lags, -1).amax(-1).to(response.dtype)


def _tail_energy(companion: Tensor) -> Tensor:
    r"""``W = sum_m (Phi^m)^T e_1 e_1^T Phi^m`` by doubling, up to :math:`2^{40}` powers."""
    W = torch.zeros_like(companion)
    W[..., 0, 0] = 1
    power = companion
    for _ in range(40):
        W = W + power.mT @ W @ power
        power = power @ power
    return W


def _double(rows: Tensor, power: Tensor) -> tuple[Tensor, Tensor]:
    r"""From the first rows of ``Phi^1, ..., Phi^m`` and ``Phi^m`` to twice as many."""
    return torch.cat([rows, rows @ power], dim=1), power @ power


def _monic(roots: Tensor) -> Tensor:
    r"""Coefficients ``[..., d]`` after the leading 1 of the polynomial with these ``d`` roots."""
    coefficients = torch.nn.functional.pad(torch.ones_like(roots[..., :1]), (0, roots.size(-1)))
    for root in roots.unbind(-1):
        shifted = torch.nn.functional.pad(coefficients[..., :-1], (1, 0))
        coefficients = coefficients - root.unsqueeze(-1) * shifted
    return coefficients[..., 1:].real
