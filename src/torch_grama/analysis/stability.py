"""Where the poles of an ARMA recurrence lie, and what that says about its stability."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from torch_grama.analysis.inputs import check_coefficients, check_tolerance

_NotConverged: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]

# A zero of the moving average cancels a pole within this relative distance of it.
_CANCELLATION = 1e-9


def characteristic_roots(phi: Tensor) -> Tensor:
    r"""The roots of the characteristic polynomial of an ARMA recurrence, which are the poles of
    the recurrence and the non-zero eigenvalues of its state matrix

    .. math::
        P(\lambda) = \lambda^p - \sum_{j=1}^{p} \phi_j \lambda^{p-j}

    The moving average adds only zeros to the spectrum. Coefficients that sum to one always have a
    root at 1. Gradients follow from :math:`\partial \lambda / \partial \phi_j = \lambda^{p-j} /
    P'(\lambda)`; at a multiple root there are none.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.

    Returns:
        Tensor: The complex roots :math:`(*, p)` in order of falling modulus, found in float64.

    Example:
        >>> characteristic_roots(torch.tensor([0.5, 0.5])).real
        tensor([ 1.0000, -0.5000])
    """
    phi, _ = check_coefficients(phi)
    roots: Tensor = _Roots.apply(phi.double())  # type: ignore[no-untyped-call]
    return roots.to(torch.complex128 if phi.dtype == torch.float64 else torch.complex64)


def spectral_radius(phi: Tensor) -> Tensor:
    r"""The largest modulus :math:`\rho = \max_k |\lambda_k|` among the roots of the characteristic
    polynomial, see :func:`characteristic_roots`; differentiable where that root is simple.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.

    Returns:
        Tensor: The radius :math:`(*)`.

    Example:
        >>> spectral_radius(torch.tensor([[0.5, 0.5], [0.0, -0.25]]))
        tensor([1.0000, 0.5000])
    """
    phi, _ = check_coefficients(phi)
    # The roots are sorted; of a conjugate pair either member has the same gradient.
    return characteristic_roots(phi.double())[..., 0].abs().to(phi.dtype)


def is_stable(phi: Tensor, tolerance: float = 1e-6) -> Tensor:
    r"""Whether the powers of the state matrix stay bounded: all roots of the characteristic
    polynomial lie in the closed unit disc and those on the circle are simple.

    .. note::
        Lemma 4.2 of the paper asks for a spectral radius of at most 1 only. That is not enough:
        :math:`\phi = (2, -1)` has the double root 1, and its powers grow linearly.

    .. note::
        A root counts as on the circle within ``tolerance`` of it, and two such roots count as one
        multiple root within ``2 * sqrt(tolerance)`` of each other: that is how far :math:`(\lambda
        - 1)^2 + \varepsilon` has its two roots apart. The default suits float64 and float32.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.
        tolerance (float, optional): How near a root counts as on the circle. (default: :obj:`1e-6`)

    Returns:
        Tensor: One verdict per set of coefficients :math:`(*)`, boolean.

    Example:
        >>> is_stable(torch.tensor([[0.5, 0.5], [2.0, -1.0], [0.9, 0.3]]))
        tensor([ True, False, False])
    """
    check_tolerance(tolerance)
    phi, _ = check_coefficients(phi)
    roots = characteristic_roots(phi.detach().double())
    modulus = roots.abs()
    on_circle = (modulus - 1).abs() <= tolerance
    distance = (roots.unsqueeze(-1) - roots.unsqueeze(-2)).abs()
    pairs = torch.ones_like(distance, dtype=torch.bool).tril(-1)
    pairs &= on_circle.unsqueeze(-1) & on_circle.unsqueeze(-2)
    repeated = (pairs & (distance <= 2 * math.sqrt(tolerance))).flatten(-2).any(-1)
    return (modulus <= 1 + tolerance).all(-1) & ~repeated


def is_bibo_stable(phi: Tensor, theta: Tensor | None = None, tolerance: float = 1e-6) -> Tensor:
    r"""Whether every bounded input gives a bounded output: all poles lie strictly inside the unit
    circle, but for those that a zero of the moving average cancels.

    This is more than :func:`is_stable` asks of poles on the circle: with :math:`\phi_1 = 1` a
    constant input gives an output that grows without bound. It is less where the moving average
    cancels a pole, as in :math:`f_t = f_{t-1} + \delta_t - \delta_{t-1}`.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.
        theta (Tensor, optional): Moving-average coefficients :math:`(*, q)`. (default: :obj:`None`)
        tolerance (float, optional): How near a pole counts as on the circle. (default: :obj:`1e-6`)

    Returns:
        Tensor: One verdict per set of coefficients :math:`(*)`, boolean.

    Example:
        >>> is_bibo_stable(torch.tensor([[1.0], [0.9]]))
        tensor([False,  True])
    """
    check_tolerance(tolerance)
    phi, theta = check_coefficients(phi, theta)
    return ~find_poles_and_zeros(phi, theta, tolerance).excited.any(-1)


def satisfies_sufficient_condition(phi: Tensor) -> Tensor:
    r"""Whether :math:`\sum_j |\phi_j| \le 1`, which implies :func:`is_stable` (Theorem 4.3).

    On the circle :math:`|P'(\lambda)| \ge p - (p - 1) \sum_j |\phi_j| \ge 1`, so roots there are
    simple and the theorem holds in spite of the gap in Lemma 4.2. A sum below 1 implies
    :func:`is_bibo_stable` as well, a sum of 1 does not. Held to ``"l1"`` or ``"softmax"``, a GRAMA
    block has the modulus of its retention for a sum. It may exceed 1 by the rounding of the dtype.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(*, p)`.

    Returns:
        Tensor: One verdict per set of coefficients :math:`(*)`, boolean.

    Example:
        >>> satisfies_sufficient_condition(torch.tensor([[0.5, -0.5], [1.5, -0.5]]))
        tensor([ True, False])
    """
    phi, _ = check_coefficients(phi)
    rounding = phi.size(-1) * torch.finfo(phi.dtype).eps
    return phi.detach().double().abs().sum(-1) <= 1 + rounding


class PoleZeros(NamedTuple):
    r"""The poles of an ARMA recurrence, its zeros, and which poles keep its response alive."""

    poles: Tensor  # roots of the characteristic polynomial, complex [..., p]
    zeros: Tensor  # roots of the moving-average polynomial, complex [..., q]
    lasting: Tensor  # the poles on or outside the unit circle
    excited: Tensor  # those of them that no zero cancels
    used: Tensor  # the zeros that cancel a lasting pole


def find_poles_and_zeros(phi: Tensor, theta: Tensor, tolerance: float) -> PoleZeros:
    r"""Pair each lasting pole with a zero of its own at the same place, if there is one."""
    poles = characteristic_roots(phi.detach().double())
    # Without a moving average there are no zeros; an empty companion matrix is no matrix.
    zeros = characteristic_roots(-theta.detach().double()) if theta.size(-1) else poles[..., :0]
    lasting = poles.abs() >= 1 - tolerance
    excited = lasting.clone()
    used = torch.zeros_like(zeros, dtype=torch.bool)
    for k in range(poles.size(-1) if zeros.size(-1) else 0):
        pole = poles[..., k : k + 1]
        distance = torch.where(used, torch.inf, (zeros - pole).abs())
        nearest, position = distance.min(-1, keepdim=True)
        cancelled = lasting[..., k : k + 1] & (nearest <= _CANCELLATION * pole.abs())
        excited[..., k : k + 1] &= ~cancelled
        used = used.scatter(-1, position, cancelled | used.gather(-1, position))
    return PoleZeros(poles, zeros, lasting, excited, used)


class _Roots(torch.autograd.Function):
    r"""Eigenvalues of the companion matrix, with derivatives from the implicit function theorem.

    Those of :func:`torch.linalg.eigvals` fail as soon as any two roots coincide, which zero
    coefficients make common; these need only the root in question.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, phi: Tensor) -> Tensor:
        roots = companion_eigenvalues(phi)
        roots = roots.gather(-1, roots.abs().argsort(dim=-1, descending=True, stable=True))
        ctx.save_for_backward(roots)
        return roots

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        roots: Tensor = ctx.saved_tensors[0]
        p = roots.size(-1)
        differences = roots.unsqueeze(-1) - roots.unsqueeze(-2)
        differences = differences + torch.eye(p, dtype=roots.dtype, device=roots.device)
        slope = differences.prod(-1)  # P'(lambda_k) [..., p]
        # A root that nothing depends on takes no part, even where it is a multiple one.
        weight = torch.where(grad == 0, 0, grad / slope.conj())
        powers = torch.linalg.vander(roots, N=p + 1)[..., :p].flip(-1)  # lambda_k^(p-j) [..., p, p]
        gradient: Tensor = (weight.unsqueeze(-1) * powers.conj()).sum(-2).real
        return gradient


def companion_eigenvalues(phi: Tensor) -> Tensor:
    r"""The roots ``[..., p]`` for real or complex coefficients ``[..., p]``, in no order."""
    companion = phi.new_zeros(*phi.shape, phi.size(-1))
    companion[..., 0, :] = phi
    companion.diagonal(-1, dim1=-2, dim2=-1).fill_(1)
    return eigenvalues(companion)


def eigenvalues(matrices: Tensor) -> Tensor:
    r"""The eigenvalues ``[..., n]`` of matrices ``[..., n, n]``.

    LAPACK's iteration does not converge for about one in a thousand companion matrices whose
    entries span many orders of magnitude, as the coefficients of a saturated softmax do, and then
    refuses the whole batch. Such a matrix is tried again as its transpose, which has the same
    eigenvalues, and at last with a perturbation of the size of its own rounding.
    """
    try:
        found: Tensor = torch.linalg.eigvals(matrices)
    except _NotConverged:
        size = matrices.size(-1)
        singles = [_eigenvalues_of_one(matrix) for matrix in matrices.reshape(-1, size, size)]
        found = torch.stack(singles).view(matrices.shape[:-1])
    return found


def _eigenvalues_of_one(matrix: Tensor) -> Tensor:
    for attempt in (matrix, matrix.mT):
        with suppress(_NotConverged):
            found: Tensor = torch.linalg.eigvals(attempt)
            return found
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(matrix.shape, generator=generator, dtype=torch.float64).to(matrix)
    rounding = torch.finfo(matrix.dtype).eps * matrix.abs().max()
    perturbed: Tensor = torch.linalg.eigvals(matrix + rounding * noise)
    return perturbed
