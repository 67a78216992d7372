"""One step of an ordinary differential equation with a fixed step size."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Field = Callable[[Tensor], Tensor]


def step_euler(field: Field, x: Tensor, step_size: float) -> Tensor:
    r"""Returns :math:`\mathbf{x} + h \, f(\mathbf{x})`."""
    return x + step_size * field(x)


def step_rk4(field: Field, x: Tensor, step_size: float) -> Tensor:
    r"""Returns the state after one classical Runge-Kutta step, exact to the fourth order."""
    k1 = field(x)
    k2 = field(x + 0.5 * step_size * k1)
    k3 = field(x + 0.5 * step_size * k2)
    k4 = field(x + step_size * k3)
    return x + step_size / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


METHODS: dict[str, Callable[[Field, Tensor, float], Tensor]] = {
    "euler": step_euler,
    "rk4": step_rk4,
}
