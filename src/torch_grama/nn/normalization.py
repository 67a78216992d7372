"""Turns raw scores into ARMA coefficients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_grama.nn.choices import choose

DEFAULT_GUARD = 0.1


def normalize_sum(scores: Tensor, guard: float = DEFAULT_GUARD) -> Tensor:
    r"""Divides scores by their sum, guarded where the sum is near zero.

    With :math:`s = \sum_i c_i` over the last dimension of size :math:`p` and
    :math:`m = \max(s^2, \epsilon^2)`,

    .. math::
        \phi_i = \frac{s}{m} \, c_i + \left(1 - \frac{s^2}{m}\right) \frac{1}{p}.

    Where :math:`|s| \ge \epsilon` this is the paper's :math:`c_i / s` exactly. Below the guard it
    passes continuously into the uniform coefficients :math:`1 / p`, so that it can neither explode
    nor jump between two signs, and the coefficients add up to one everywhere.

    Args:
        scores (Tensor): Raw scores :math:`c`.
        guard (float, optional): The bound :math:`\epsilon` on the absolute sum. (default: 0.1)

    Shapes:
        - **input:** :math:`(*, p)`
        - **output:** :math:`(*, p)`

    Example:
        >>> normalize_sum(torch.tensor([1.0, 3.0]))
        tensor([0.2500, 0.7500])
        >>> normalize_sum(torch.tensor([1.0, -1.0]))
        tensor([0.5000, 0.5000])
    """
    total = scores.sum(dim=-1, keepdim=True)
    bounded = (total * total).clamp(min=guard * guard)
    uniform = (1 - total * total / bounded) / scores.size(-1)
    return scores * (total / bounded) + uniform


def normalize_l1(scores: Tensor, guard: float = DEFAULT_GUARD) -> Tensor:
    r"""Divides scores by the sum of their absolute values.

    The result satisfies :math:`\sum_i |\phi_i| \le 1`, the sufficient condition of the stability
    theorem, with equality wherever :math:`\sum_i |c_i| \ge \epsilon`. Below the guard the scores
    are divided by :math:`\epsilon`.

    Args:
        scores (Tensor): Raw scores :math:`c`.
        guard (float, optional): The smallest divisor :math:`\epsilon`. (default: 0.1)

    Shapes:
        - **input:** :math:`(*, p)`
        - **output:** :math:`(*, p)`

    Example:
        >>> normalize_l1(torch.tensor([1.0, -3.0]))
        tensor([ 0.2500, -0.7500])
    """
    return scores / scores.abs().sum(dim=-1, keepdim=True).clamp(min=guard)


def normalize_softmax(scores: Tensor, guard: float = DEFAULT_GUARD) -> Tensor:
    r"""Exponentiates scores and divides by their sum: positive coefficients that add up to one.

    Args:
        scores (Tensor): Raw scores :math:`c`.
        guard (float, optional): Not used; softmax needs none.

    Shapes:
        - **input:** :math:`(*, p)`
        - **output:** :math:`(*, p)`
    """
    del guard
    return torch.softmax(scores, dim=-1)


def keep_scores(scores: Tensor, guard: float = DEFAULT_GUARD) -> Tensor:
    r"""Returns the scores as they are.

    Args:
        scores (Tensor): Raw scores :math:`c`.
        guard (float, optional): Not used.
    """
    del guard
    return scores


NORMALIZATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "sum": normalize_sum,
    "l1": normalize_l1,
    "softmax": normalize_softmax,
    "none": keep_scores,
}


def choose_normalization(word: str) -> Callable[[Tensor, float], Tensor]:
    r"""Looks up a normalisation by its word, or raises a :class:`ValueError` that lists them."""
    return choose("normalization", word, NORMALIZATIONS)
