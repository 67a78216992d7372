"""Coefficients whose poles lie at a chosen radius when training starts."""

from __future__ import annotations

import torch
from torch import Tensor


def coefficients_with_poles(order: int, radius: float, normalization: str) -> Tensor:
    r"""Autoregressive coefficients with poles at a chosen distance from the origin.

    The poles are the roots of
    :math:`P(\lambda) = \lambda^p - \sum_i \phi_i \lambda^{p-i}`. The nearer they are to the unit
    circle, the slower the impulse response decays (the long-range theorem of the paper). What can
    be placed depends on the constraint that the normalisation puts on :math:`\phi`:

    - ``"none"``: all :math:`p` poles at radius :math:`\rho`, evenly spread,
      :math:`P(\lambda) = \lambda^p - \rho^p`.
    - ``"l1"`` (:math:`\sum_i |\phi_i| = 1`): the dominant pole at :math:`\rho`, real, through
      :math:`\phi_1 = 1 - b`, :math:`\phi_2 = -b` with :math:`b = \rho (1 - \rho) / (1 + \rho)`.
    - ``"sum"`` (:math:`\sum_i \phi_i = 1`): such coefficients always have one pole at 1; the other
      :math:`p - 1` are put at radius :math:`\rho`,
      :math:`P(\lambda) = (\lambda - 1)(\lambda^{p-1} + \rho^{p-1})`.

    Args:
        order (int): The order :math:`p`.
        radius (float): The radius :math:`\rho`, between 0.5 and 1.
        normalization (str): The normalisation that will be applied to the coefficients.

    Returns:
        Coefficients of shape :math:`(p)` in float64, newest first, which the normalisation leaves
        as they are.

    Raises:
        ValueError: If the radius is out of range, or if the normalisation leaves no freedom.
    """
    if not 0.5 <= radius <= 1:
        raise ValueError(f"Expected 'initial_poles' to be between 0.5 and 1 (got {radius})")
    phi = torch.zeros(order, dtype=torch.float64)
    if normalization == "none":
        phi[-1] = radius**order
    elif normalization == "l1":
        if order == 1:
            raise _no_freedom(radius, normalization, "at order 1 the only coefficient is 1")
        b = radius * (1 - radius) / (1 + radius)
        phi[0] = 1 - b
        phi[1] = -b
    elif normalization == "sum":
        # (λ - 1)(λ^(p-1) + r) = λ^p - λ^(p-1) + r λ - r
        r = radius ** (order - 1)
        phi[0] = 1.0
        if order > 1:
            phi[order - 2] -= r
            phi[order - 1] += r
    else:
        raise _no_freedom(radius, normalization, "its coefficients always have the pole 1")
    return phi


def _no_freedom(radius: float, normalization: str, reason: str) -> ValueError:
    return ValueError(
        f"Expected a normalization that leaves room for 'initial_poles' "
        f"(got initial_poles={radius}, normalization='{normalization}': {reason})"
    )
