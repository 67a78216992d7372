"""ARMA recurrences as state-space models and back, and both of them step by step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_grama.analysis.inputs import (
    broadcast,
    check_coefficients,
    check_real,
    check_size,
    check_state_space,
)


class StateSpace(NamedTuple):
    r"""A linear state-space model :math:`x_t = \mathbf{A} x_{t-1} + \mathbf{B} \delta_t`,
    :math:`f_t = \mathbf{C} x_t + \mathbf{D} \delta_t` with one input and one output."""

    A: Tensor  #: state matrix ``[..., n, n]``
    B: Tensor  #: input vector ``[..., n]``
    C: Tensor  #: output vector ``[..., n]``
    D: Tensor  #: direct weight ``[...]`` of the input in the output


class ArmaModel(NamedTuple):
    r"""The recurrence that a state-space model with :math:`n` states obeys

    .. math::
        f_t = \sum_{i=1}^{n} \phi_i f_{t-i} + \sum_{j=0}^{n} b_j \delta_{t-j} + c_t,
        \qquad c_t = 0 \ \text{for} \ t \ge n

    with :math:`f_t = \delta_t = 0` for :math:`t < 0`. It is exact from the very first step.
    """

    phi: Tensor  #: autoregressive coefficients ``[..., n]``
    ma: Tensor  #: moving-average coefficients :math:`b_0, \dots, b_n`, ``[..., n + 1]``
    #: what the initial state adds to the first outputs, :math:`c_0, \dots, c_{n-1}`, ``[..., n]``;
    #: zeros for a system that starts at rest
    initial_terms: Tensor

    def simulate(self, inputs: Tensor) -> Tensor:
        r"""Run the recurrence on ``inputs`` of shape ``[..., T]``."""
        steps, n = inputs.size(-1), self.phi.size(-1)
        terms = pad(self.initial_terms[..., :steps], (0, max(steps - n, 0)))
        forcing = _weigh_windows(self.ma, pad(inputs, (n, 0))) + terms
        return simulate_arma(self.phi, None, forcing)

    def normalized(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""The same recurrence with weight 1 on the present input, as GRAMA writes it.

        Returns:
            tuple: ``(phi, theta, gain)`` of shapes ``[..., n]``, ``[..., n]`` and ``[...]``, with
            :math:`\theta_j = b_j / b_0` for the input that is scaled by the gain :math:`b_0`.

        Raises:
            ValueError: If :math:`b_0 = 0`: the input reaches the output only after a delay.
        """
        gain = self.ma[..., 0]
        if bool((gain == 0).any()):
            raise ValueError(
                "Expected a direct path from input to output, b_0 = CB + D != 0 (got b_0 = 0, a "
                "pure delay); use the general form in 'phi' and 'ma' instead"
            )
        return self.phi, self.ma[..., 1:] / gain.unsqueeze(-1), gain


def state_matrix(phi: Tensor, theta: Tensor | None = None) -> Tensor:
    r"""The state matrix of an ARMA recurrence

    .. math::
        \mathbf{A} = \begin{bmatrix} \mathbf{\Phi} & \mathbf{\Theta} \\
        \mathbf{0} & \mathbf{N} \end{bmatrix}

    where :math:`\mathbf{\Phi}` is the companion matrix with :math:`\phi` in its first row and ones
    below the diagonal, :math:`\mathbf{\Theta}` has :math:`\theta` in its first row and is zero
    otherwise, and :math:`\mathbf{N}` shifts by one. It acts on :math:`(f_t, \dots, f_{t-p+1},
    \delta_t, \dots, \delta_{t-q+1})`.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.
        theta (Tensor, optional): Moving-average coefficients :math:`(*, q)`. (default: :obj:`None`)

    Returns:
        Tensor: The matrix :math:`(*, p + q, p + q)`.

    Example:
        >>> state_matrix(torch.tensor([0.5, 0.25]))
        tensor([[0.5000, 0.2500],
                [1.0000, 0.0000]])
    """
    phi, theta = check_coefficients(phi, theta)
    p = phi.size(-1)
    first_row = torch.cat([phi, theta], dim=-1).unsqueeze(-2)
    size = first_row.size(-1)
    shift = first_row.new_ones(size - 1).diag_embed(-1)[1:]  # [p + q - 1, p + q]
    shift[p - 1 : p] = 0  # the newest residual comes from outside, not from the oldest state
    return torch.cat([first_row, shift.expand(phi.shape[:-1] + shift.shape)], dim=-2)


def arma_to_ssm(phi: Tensor, theta: Tensor | None = None) -> StateSpace:
    r"""Write an ARMA recurrence as a state-space model, from `"GRAMA: Adaptive Graph
    Autoregressive Moving Average Models" <https://arxiv.org/abs/2501.12732>`_ (Theorem 4.1)

    .. math::
        \mathbf{B} = e_1 + e_{p+1}, \qquad \mathbf{C} = e_1^\top, \qquad \mathbf{D} = 0

    with :math:`\mathbf{A}` of :func:`state_matrix`, where :math:`e_k` is the :math:`k`-th unit
    vector. A state is the past outputs followed by the past inputs, each newest first.

    .. note::
        The paper prints :math:`\mathbf{B} = e_{p+1}` and :math:`\mathbf{D} = 1`. Then the present
        input never enters the feedback, and the model realises an ARMA recurrence with
        :math:`\theta_j - \phi_j` instead of :math:`\theta_j`.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.
        theta (Tensor, optional): Moving-average coefficients :math:`(*, q)`. (default: :obj:`None`)

    Returns:
        StateSpace: A :math:`(*, p + q, p + q)`, B and C :math:`(*, p + q)`, D :math:`(*)`.

    Example:
        >>> A, B, C, D = arma_to_ssm(torch.tensor([0.5]), torch.tensor([0.25]))
        >>> A, B
        (tensor([[0.5000, 0.2500],
                [0.0000, 0.0000]]), tensor([1., 1.]))
    """
    A = state_matrix(phi, theta)
    size, p = A.size(-1), phi.size(-1)
    C = A.new_zeros(size)
    C[0] = 1
    B = C.clone()
    B[p : p + 1] = 1  # absent where there is no moving average
    batch_shape = A.shape[:-2]
    vectors = (*batch_shape, size)
    return StateSpace(A, B.expand(vectors), C.expand(vectors), A.new_zeros(batch_shape))


def ssm_to_arma(
    A: Tensor, B: Tensor, C: Tensor, D: Tensor, initial_state: Tensor | None = None
) -> ArmaModel:
    r"""Find the ARMA recurrence that any linear state-space model with one input and one output
    obeys, through its characteristic polynomial

    .. math::
        \det(\lambda \mathbf{I} - \mathbf{A}) = \lambda^n + a_1 \lambda^{n-1} + \dots + a_n,
        \qquad \mathbf{M}_k = \sum_{i=0}^{k} a_i \mathbf{A}^{k-i}, \quad a_0 = 1

    .. math::
        \phi_i = -a_i, \qquad b_j = \mathbf{C} \mathbf{M}_j \mathbf{B} + a_j \mathbf{D}, \qquad
        c_t = \mathbf{C} \mathbf{M}_t \mathbf{A} \, x_{-1}

    By the theorem of Cayley and Hamilton :math:`\mathbf{M}_n = 0`: the initial state is forgotten
    after :math:`n` steps. The polynomial comes from the recursion of Faddeev and Le Verrier, in
    float64, which stays differentiable where eigenvalues coincide.

    .. note::
        The paper reads the coefficients off :math:`\mathbf{C} \mathbf{A}^p` and :math:`\mathbf{C}
        \mathbf{A}^k \mathbf{B}`. That is a prediction from one initial state, not a recurrence of
        fixed order. The orders found here are upper bounds: modes that the input does not reach
        or the output does not see appear as common factors of both polynomials.

    Args:
        A (Tensor): State matrix :math:`(*, n, n)`.
        B (Tensor): Input vector :math:`(*, n)`.
        C (Tensor): Output vector :math:`(*, n)`.
        D (Tensor): Direct weight :math:`(*)` of the input in the output.
        initial_state (Tensor, optional): The state :math:`x_{-1}`, :math:`(*, n)`. (default: zeros)

    Returns:
        ArmaModel: phi :math:`(*, n)`, ma :math:`(*, n + 1)`, initial_terms :math:`(*, n)`.

    Example:
        >>> ssm = arma_to_ssm(torch.tensor([0.5]), torch.tensor([0.25]))
        >>> ssm_to_arma(*ssm).ma
        tensor([1.0000, 0.2500, 0.0000])
    """
    A, B, C, D, _, start = check_state_space(A, B, C, D, A.new_zeros(0), initial_state)
    dtype, shape, n = A.dtype, D.shape, A.size(-1)
    A, B, C, D, start = (part.double() for part in (A, B, C, D, start))

    # [..., n, 2]: the two directions in which M_k is read, the input's and the initial state's.
    columns = torch.stack([B, (A @ start.unsqueeze(-1)).squeeze(-1)], dim=-1)
    eye = torch.eye(n, dtype=A.dtype, device=A.device)
    M, a = eye.expand_as(A), [A.new_ones(shape)]
    read = []
    for k in range(1, n + 1):
        read.append(C.unsqueeze(-2) @ M @ columns)  # C M_{k-1} [B, A x]
        AM = A @ M
        a.append(-AM.diagonal(dim1=-2, dim2=-1).sum(-1) / k)
        M = AM + a[k][..., None, None] * eye

    polynomial = torch.stack(a, dim=-1)
    terms = torch.cat(read, dim=-2)  # [..., n, 2]
    ma = torch.cat([terms[..., 0], A.new_zeros((*shape, 1))], dim=-1)
    return ArmaModel(
        phi=-polynomial[..., 1:].to(dtype),
        ma=(ma + polynomial * D.unsqueeze(-1)).to(dtype),
        initial_terms=terms[..., 1].to(dtype),
    )


def simulate_arma(
    phi: Tensor,
    theta: Tensor | None,
    inputs: Tensor,
    *,
    past_states: Tensor | None = None,
    past_inputs: Tensor | None = None,
) -> Tensor:
    r"""Run the ARMA recurrence of one GRAMA block, with :math:`\delta` as an outside input

    .. math::
        f_t = \sum_{i=1}^{p} \phi_i f_{t-i} + \sum_{j=1}^{q} \theta_j \delta_{t-j}
              + \delta_t, \qquad t = 0, \dots, T - 1

    All leading dimensions broadcast.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`, that of the newest state first.
        theta (Tensor, optional): Moving-average coefficients :math:`(*, q)`, or :obj:`None`.
        inputs (Tensor): The inputs :math:`\delta_0, \dots, \delta_{T-1}`, :math:`(*, T)`.
        past_states (Tensor, optional): :math:`f_{-1}, \dots, f_{-p}`. (default: zeros)
        past_inputs (Tensor, optional): :math:`\delta_{-1}, \dots, \delta_{-q}`. (default: zeros)

    Returns:
        Tensor: The outputs :math:`(*, T)`.

    Example:
        >>> phi, theta = torch.tensor([0.5]), torch.tensor([0.25])
        >>> simulate_arma(phi, theta, torch.tensor([1.0, 0.0, 0.0]))
        tensor([1.0000, 0.7500, 0.3750])
    """
    phi, theta = check_coefficients(phi, theta)
    check_real("inputs", inputs, ndim=1)
    p, q = phi.size(-1), theta.size(-1)
    states = phi.new_zeros(p) if past_states is None else past_states
    before = phi.new_zeros(q) if past_inputs is None else past_inputs
    for name, value in (("past_states", states), ("past_inputs", before)):
        check_real(name, value, ndim=1)
    check_size("past_states", states, p, "one per coefficient in 'phi'")
    check_size("past_inputs", before, q, "one per coefficient in 'theta'")
    phi, theta, inputs, states, before = broadcast(
        phi=phi, theta=theta, inputs=inputs, past_states=states, past_inputs=before
    )
    if inputs.size(-1) == 0:
        return inputs
    # 1. everything but the feedback at once
    weights = torch.cat([torch.ones_like(phi[..., :1]), theta], dim=-1)
    forcing = _weigh_windows(weights, torch.cat([before.flip(-1), inputs], dim=-1))
    # 2. the feedback, step by step
    outputs = []
    for drive in forcing.unbind(-1):
        newest = (phi * states).sum(-1) + drive
        states = torch.cat([newest.unsqueeze(-1), states[..., :-1]], dim=-1)
        outputs.append(newest)
    return torch.stack(outputs, dim=-1)


def simulate_ssm(
    A: Tensor, B: Tensor, C: Tensor, D: Tensor, inputs: Tensor, initial_state: Tensor | None = None
) -> Tensor:
    r"""Run a linear state-space model with one input and one output

    .. math::
        x_t = \mathbf{A} x_{t-1} + \mathbf{B} \delta_t, \qquad
        f_t = \mathbf{C} x_t + \mathbf{D} \delta_t, \qquad t = 0, \dots, T - 1

    where :math:`x_t` holds the :math:`n` states. The present input enters the state before the
    output is read, as in the paper. All leading dimensions broadcast.

    Args:
        A (Tensor): State matrix :math:`(*, n, n)`.
        B (Tensor): Input vector :math:`(*, n)`.
        C (Tensor): Output vector :math:`(*, n)`.
        D (Tensor): Direct weight :math:`(*)` of the input in the output.
        inputs (Tensor): The inputs :math:`\delta_0, \dots, \delta_{T-1}`, :math:`(*, T)`.
        initial_state (Tensor, optional): The state :math:`x_{-1}`, :math:`(*, n)`. (default: zeros)

    Returns:
        Tensor: The outputs :math:`(*, T)`.

    Example:
        >>> one = torch.ones(1)
        >>> simulate_ssm(0.5 * one.view(1, 1), one, one, torch.tensor(0.0), torch.ones(3))
        tensor([1.0000, 1.5000, 1.7500])
    """
    A, B, C, D, inputs, state = check_state_space(A, B, C, D, inputs, initial_state)
    outputs = []
    for value in inputs.unbind(-1):
        state = (A @ state.unsqueeze(-1)).squeeze(-1) + B * value.unsqueeze(-1)
        outputs.append((C * state).sum(-1) + D * value)
    return torch.stack(outputs, dim=-1) if outputs else inputs


def _weigh_windows(weights: Tensor, inputs: Tensor) -> Tensor:
    r"""Sums ``[..., T]`` of weights ``[..., n]`` newest first by inputs ``[..., n - 1 + T]``."""
    if inputs.size(-1) < weights.size(-1):  # T = 0: no window fits
        return inputs[..., :0]
    return (inputs.unfold(-1, weights.size(-1), 1) * weights.flip(-1).unsqueeze(-2)).sum(-1)
