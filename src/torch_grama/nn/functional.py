r"""The mathematics of GRAMA as pure functions."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from torch_grama.nn.arguments import choose
from torch_grama.nn.coefficients import (
    coefficients_with_poles,
    normalize_l1,
    normalize_softmax,
    normalize_sum,
)
from torch_grama.nn.engine.adjacency import LinearMap
from torch_grama.nn.engine.recurrence import (
    ENGINES,
    Recurrence,
    RecurrenceResult,
    arma_recurrence_reference,
)
from torch_grama.nn.engine.sequence import Groups, NodeSequence, forward_differences, graph_mean

__all__ = [
    "LinearMap",
    "arma_last_state",
    "arma_recurrence",
    "arma_recurrence_reference",
    "coefficients_with_poles",
    "forward_differences",
    "graph_mean",
    "normalize_l1",
    "normalize_softmax",
    "normalize_sum",
]


def arma_recurrence(
    states: Tensor,
    residuals: Tensor,
    phi: Tensor,
    theta: Tensor,
    backbone: Callable[[Tensor], Tensor],
    num_recurrences: int,
    batch: Tensor | None = None,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    r"""Runs the ARMA recurrence of GRAMA.

    .. math::
        \mathbf{f}^{(t)} = \sum_{i=1}^{p} \phi_i \, \mathbf{f}^{(t-i)}
        + \sum_{j=1}^{q} \theta_j \, \boldsymbol{\delta}^{(t-j)} + \boldsymbol{\delta}^{(t)},
        \qquad \boldsymbol{\delta}^{(t)} = \mathrm{GNN}(\mathbf{f}^{(t-1)}),

    for :math:`t = L, \ldots, L + R - 1`.

    .. note::
        Given its coefficients, the recurrence is solved in closed form: new states are
        :math:`\mathbf{f} = \mathbf{M} \mathbf{X} + \mathbf{H} \boldsymbol{\delta}`, where
        :math:`\mathbf{M}` and :math:`\mathbf{H}` come from one small triangular solve in float64.
        All engines compute the same numbers. For stable coefficients float32 results agree with
        the float64 reference to 1e-5 (relative), gradients to 1e-4. Coefficients with poles
        outside the unit circle make the states themselves grow like the largest pole to the power
        :math:`R`; the engines follow that growth as the equation demands, with rounding errors
        that grow alike, and neither clip nor hide it. Second derivatives need
        ``engine="reference"``.

    Args:
        states (Tensor): The given states, oldest first.
        residuals (Tensor): The given residuals, oldest first.
        phi (Tensor): Autoregressive coefficients, newest first: ``phi[..., 0]`` multiplies the
            newest state.
        theta (Tensor): Moving-average coefficients, newest first.
        backbone (callable): Maps states :math:`(N, F)` to residuals :math:`(N, F)`; called once
            for each recurrence, in order. A :class:`LinearMap` opens the linear engine.
        num_recurrences (int): Number :math:`R` of new elements.
        batch (Tensor, optional): The graph of each node :math:`(N)`, for coefficients that differ
            from graph to graph. (default: :obj:`None`)
        engine (str, optional): ``"auto"``, ``"reference"``, ``"scan"`` or ``"linear"``.
            (default: :obj:`"auto"`)

    Returns:
        The :math:`R` new states and the :math:`R` new residuals, oldest first.

    Raises:
        ValueError: If sizes or orders do not fit, or if the engine does not suit the backbone.

    Shapes:
        - **states, residuals:** :math:`(L, N, F)`
        - **phi:** :math:`(p)` or :math:`(B, p)`, **theta:** :math:`(q)` or :math:`(B, q)`
        - **output:** :math:`(R, N, F)` twice

    Example:
        >>> import torch
        >>> one = torch.ones(1, 1, 1)
        >>> f, d = arma_recurrence(one, 0 * one, torch.tensor([0.5]), torch.tensor([0.0]),
        ...                        lambda x: 0.25 * x, num_recurrences=2)
        >>> f.flatten()
        tensor([0.7500, 0.5625])
    """
    new = _run(states, residuals, phi, theta, backbone, num_recurrences, batch, engine)
    assert new.residuals is not None
    return new.states, new.residuals


def arma_last_state(
    states: Tensor,
    residuals: Tensor,
    phi: Tensor,
    theta: Tensor,
    backbone: Callable[[Tensor], Tensor],
    num_recurrences: int,
    batch: Tensor | None = None,
    engine: str = "auto",
) -> Tensor:
    r"""The last state of :func:`arma_recurrence` alone, :math:`(N, F)`.

    A linear backbone then needs no sum over the history at all: the last state is a polynomial in
    the backbone, evaluated by Horner's rule. Arguments and errors as there.
    """
    arguments = states, residuals, phi, theta, backbone, num_recurrences, batch, engine
    return _run(*arguments, last_only=True).states[-1]


def _run(
    states: Tensor,
    residuals: Tensor,
    phi: Tensor,
    theta: Tensor,
    backbone: Callable[[Tensor], Tensor],
    num_recurrences: int,
    batch: Tensor | None,
    engine: str,
    last_only: bool = False,
) -> RecurrenceResult:
    choose("engine", engine, ENGINES)
    if states.dim() != 3 or states.size() != residuals.size():
        raise ValueError(
            f"Expected 'states' and 'residuals' of the same shape [L, N, F] "
            f"(got {list(states.size())} and {list(residuals.size())})"
        )
    if num_recurrences < 1:
        raise ValueError(f"Expected 'num_recurrences' to be at least 1 (got {num_recurrences})")
    for name, coefficients in (("phi", phi), ("theta", theta)):
        if coefficients.dim() not in (1, 2):
            raise ValueError(
                f"Expected '{name}' of shape [order] or [B, order] "
                f"(got {list(coefficients.size())})"
            )
        if not 1 <= coefficients.size(-1) <= states.size(0):
            raise ValueError(
                f"Expected the order of '{name}' to be between 1 and the sequence length "
                f"(got order {coefficients.size(-1)}, sequence length {states.size(0)})"
            )
    phi, theta = (c.unsqueeze(0) if c.dim() == 1 else c for c in (phi, theta))
    num_graphs = max(phi.size(0), theta.size(0))
    if num_graphs > 1 and batch is None:
        raise ValueError(
            f"Expected a 'batch' vector for coefficients of several graphs (got {num_graphs})"
        )
    if min(phi.size(0), theta.size(0)) not in (1, num_graphs):
        raise ValueError(
            f"Expected 'phi' and 'theta' of as many graphs (got {phi.size(0)} and {theta.size(0)})"
        )
    groups = Groups(batch if num_graphs > 1 else None, num_graphs)
    recurrence = Recurrence(backbone, num_recurrences, groups, engine=engine, last_only=last_only)
    expanded = phi.expand(num_graphs, -1), theta.expand(num_graphs, -1)
    return recurrence.run(NodeSequence(states, residuals), lambda *_: expanded)
