"""The sequence of states and residuals on its way from block to block."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_grama.nn.activation import IN_PLACE, Activation, identity
from torch_grama.nn.engine.handwritten import handwritten_gradients_work


@dataclass(frozen=True, eq=False)
class NodeSequence:
    r"""States and residuals, with an activation that is still to be applied.

    An engine that can apply the activation while it reads the sequence never stores the result;
    the others call :meth:`materialize`.

    Attributes:
        states: States :math:`(L, N, F)` before :obj:`act`, oldest first.
        residuals: Residuals :math:`(L, N, F)` before :obj:`act`, oldest first, or :obj:`None` for
            the forward differences of the (activated) states, the last one being zero.
        act: The activation to come.
    """

    states: Tensor
    residuals: Tensor | None
    act: Activation = identity

    @classmethod
    def from_owned(cls, states: Tensor, residuals: Tensor | None, act: Activation) -> NodeSequence:
        r"""Takes tensors that nobody else refers to.

        Where no gradient will ask for what they were before, a CPU applies the activation on the
        spot: its caches do not hold the sequence until the readers, of which there are several.
        """
        if (
            states.device.type != "cpu"
            or act not in IN_PLACE
            or torch.is_grad_enabled()
            or not handwritten_gradients_work()
        ):
            return cls(states, residuals, act)
        activate = IN_PLACE[act]
        return cls(activate(states), None if residuals is None else activate(residuals))

    def materialize(self) -> tuple[Tensor, Tensor]:
        r"""Returns states and residuals with the activation applied."""
        states = self.act(self.states)
        if self.residuals is None:
            return states, forward_differences(states)
        return states, self.act(self.residuals)


def forward_differences(states: Tensor) -> Tensor:
    r"""Returns :math:`\mathbf{f}^{(k+1)} - \mathbf{f}^{(k)}`, and zero at the last position."""
    return torch.cat([states[1:] - states[:-1], torch.zeros_like(states[:1])])
