"""Running an ARMA recurrence and a state-space model step by step, as their equations read."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.analysis._checks import (
    broadcast_shape,
    check_coefficients,
    check_real,
    check_size,
    check_state_space,
    to_one_dtype,
)


def simulate_arma(
    phi: Tensor,
    theta: Tensor | None,
    inputs: Tensor,
    *,
    past_states: Tensor | None = None,
    past_inputs: Tensor | None = None,
    direct: Tensor | None = None,
    initial_terms: Tensor | None = None,
) -> Tensor:
    r"""Run the ARMA recurrence of one GRAMA block, with :math:`\delta` as an outside input

    .. math::
        f_t = \sum_{i=1}^{p} \phi_i f_{t-i} + \sum_{j=1}^{q} \theta_j \delta_{t-j}
              + b_0 \delta_t + c_t, \qquad t = 0, \dots, T - 1

    where :math:`\phi` and :math:`\theta` are the autoregressive and moving-average coefficients,
    :math:`b_0` weighs the present input (1 in GRAMA) and :math:`c_t` are terms added to the first
    outputs (0 in GRAMA). The last two serve
    :func:`~torch_grama.analysis.ssm_to_arma`, whose recurrence needs them.
    All leading dimensions broadcast, and the result is differentiable in every tensor.

    Args:
        phi (Tensor): Autoregressive coefficients; the first multiplies the newest state.
        theta (Tensor, optional): Moving-average coefficients; the first multiplies the newest
            past input. :obj:`None` stands for an empty moving average.
        inputs (Tensor): The inputs :math:`\delta_0, \dots, \delta_{T-1}`.
        past_states (Tensor, optional): The outputs :math:`f_{-1}, \dots, f_{-p}` before the first
            step, **newest first**. (default: zeros)
        past_inputs (Tensor, optional): The inputs :math:`\delta_{-1}, \dots, \delta_{-q}`, newest
            first. (default: zeros)
        direct (Tensor, optional): The weight :math:`b_0`. (default: ones)
        initial_terms (Tensor, optional): The terms :math:`c_0, c_1, \dots`; those beyond the last
            given are zero. (default: zeros)

    Shapes:
        - **input:** phi :math:`(*, p)`, theta :math:`(*, q)`, inputs :math:`(*, T)`, past_states
          :math:`(*, p)`, past_inputs :math:`(*, q)`, direct :math:`(*)`, initial_terms
          :math:`(*, n)`
        - **output:** outputs :math:`(*, T)`

    Returns:
        Tensor: The outputs :math:`f_0, \dots, f_{T-1}`.

    Raises:
        ValueError: If shapes do not fit together, or a value is not a finite real number.

    Example:
        >>> phi, theta = torch.tensor([0.5]), torch.tensor([0.25])
        >>> simulate_arma(phi, theta, torch.tensor([1.0, 0.0, 0.0]))
        tensor([1.0000, 0.7500, 0.3750])
    """
    phi, theta = check_coefficients(phi, theta)
    check_real("inputs", inputs, ndim=1)
    p, q = phi.size(-1), theta.size(-1)
    optional = {
        "past_states": (past_states, phi.new_zeros(p)),
        "past_inputs": (past_inputs, phi.new_zeros(q)),
        "initial_terms": (initial_terms, phi.new_zeros(0)),
    }
    direct = phi.new_ones(()) if direct is None else direct
    check_real("direct", direct, ndim=0)
    given = {"phi": phi, "theta": theta, "inputs": inputs, "direct": direct.unsqueeze(-1)}
    for name, (value, default) in optional.items():
        given[name] = default if value is None else value
        check_real(name, given[name], ndim=1)
    check_size("past_states", given["past_states"], p, "one per coefficient in 'phi'")
    check_size("past_inputs", given["past_inputs"], q, "one per coefficient in 'theta'")

    shape = broadcast_shape(**{name: value.shape[:-1] for name, value in given.items()})
    phi, theta, inputs, direct, states, before, terms = (
        value.expand(shape + value.shape[-1:]) for value in to_one_dtype(**given)
    )
    steps = inputs.size(-1)
    if steps == 0:
        return inputs

    # 1. Everything but the feedback at once: [..., T, q + 1] windows of the inputs, oldest first.
    weights = torch.cat([direct, theta], dim=-1).flip(-1)
    windows = torch.cat([before.flip(-1), inputs], dim=-1).unfold(-1, q + 1, 1)
    forcing = (windows * weights.unsqueeze(-2)).sum(-1)
    terms = terms[..., :steps]
    forcing = forcing + torch.nn.functional.pad(terms, (0, steps - terms.size(-1)))

    # 2. The feedback, step by step.
    outputs = []
    for drive in forcing.unbind(-1):
        newest = (phi * states).sum(-1) + drive
        states = torch.cat([newest.unsqueeze(-1), states[..., :-1]], dim=-1)
        outputs.append(newest)
    return torch.stack(outputs, dim=-1)


def simulate_ssm(
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    inputs: Tensor,
    initial_state: Tensor | None = None,
) -> Tensor:
    r"""Run a linear state-space model with one input and one output

    .. math::
        x_t = \mathbf{A} x_{t-1} + \mathbf{B} \delta_t, \qquad
        f_t = \mathbf{C} x_t + \mathbf{D} \delta_t, \qquad t = 0, \dots, T - 1

    where :math:`x_t` holds the :math:`n` states. The present input enters the state before the
    output is read, as in the paper. All leading dimensions broadcast, and the result is
    differentiable in every tensor.

    Args:
        A (Tensor): State matrix.
        B (Tensor): Input vector.
        C (Tensor): Output vector.
        D (Tensor): Direct weight of the input in the output.
        inputs (Tensor): The inputs :math:`\delta_0, \dots, \delta_{T-1}`.
        initial_state (Tensor, optional): The state :math:`x_{-1}` before the first step.
            (default: zeros)

    Shapes:
        - **input:** A :math:`(*, n, n)`, B :math:`(*, n)`, C :math:`(*, n)`, D :math:`(*)`,
          inputs :math:`(*, T)`, initial_state :math:`(*, n)`
        - **output:** outputs :math:`(*, T)`

    Returns:
        Tensor: The outputs :math:`f_0, \dots, f_{T-1}`.

    Raises:
        ValueError: If shapes do not fit together, or a value is not a finite real number.

    Example:
        >>> one = torch.ones(1)
        >>> simulate_ssm(0.5 * one.view(1, 1), one, one, torch.tensor(0.0), torch.ones(3))
        tensor([1.0000, 1.5000, 1.7500])
    """
    A, B, C, D = check_state_space(A, B, C, D)
    check_real("inputs", inputs, ndim=1)
    state = A.new_zeros(A.size(-1)) if initial_state is None else initial_state
    check_real("initial_state", state, ndim=1)
    check_size("initial_state", state, A.size(-1), "one per state of 'A'")
    shape = broadcast_shape(
        A=A.shape[:-2],
        B=B.shape[:-1],
        C=C.shape[:-1],
        D=D.shape,
        inputs=inputs.shape[:-1],
        initial_state=state.shape[:-1],
    )
    A, B, C, D, inputs, state = to_one_dtype(A=A, B=B, C=C, D=D, inputs=inputs, initial_state=state)
    inputs = inputs.expand(shape + inputs.shape[-1:])
    state = state.expand(shape + state.shape[-1:])

    outputs = []
    for value in inputs.unbind(-1):
        state = (A @ state.unsqueeze(-1)).squeeze(-1) + B * value.unsqueeze(-1)
        outputs.append((C * state).sum(-1) + D * value)
    return torch.stack(outputs, dim=-1) if outputs else inputs
