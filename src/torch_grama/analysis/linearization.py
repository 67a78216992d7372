"""The Jacobian of a backbone at one point, as a map to apply and never as a matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_grama.analysis._checks import check_real


class Linearization:
    r"""The Jacobian :math:`\mathbf{J} = \partial g / \partial x` of a map :math:`g` at a point.

    The map is evaluated once. Products with :math:`\mathbf{J}^\top` are backward passes through
    that evaluation, and products with :math:`\mathbf{J}` differentiate those once more, so that
    every operation that can be differentiated twice will do, and random parts such as dropout stay
    as they were drawn. A constant part of the map takes no part.

    Args:
        backbone (callable): A map from ``[N, F]`` to ``[N, F]``. A compiled module cannot be
            differentiated twice; pass the original.
        point (Tensor): Where to linearise, ``[N, F]``. For an affine map any point does.

    Raises:
        TypeError: If the map returns anything but one tensor.
        ValueError: If the point is not a finite ``[N, F]`` tensor, if the map does not keep its
            shape, or if it hides its dependence on the input from automatic differentiation.
    """

    def __init__(self, backbone: Callable[[Tensor], Tensor], point: Tensor) -> None:
        check_real("point", point, ndim=2)
        if point.dim() != 2 or point.size(-1) == 0:
            raise ValueError(
                f"Expected 'point' to have shape [num_nodes, channels] with at least one channel "
                f"(got {tuple(point.shape)})"
            )
        # Fused attention kernels have no second derivative; the plain formula has.
        with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            self._x = point.detach().clone().requires_grad_()
            self._y = backbone(self._x)
            if not isinstance(self._y, Tensor):
                raise TypeError(
                    f"Expected 'backbone' to return a tensor (got {type(self._y).__name__}); "
                    f"pass a function that returns the node features alone"
                )
            if self._y.shape != point.shape:
                raise ValueError(
                    f"Expected 'backbone' to keep the shape {tuple(point.shape)} of its input "
                    f"(got {tuple(self._y.shape)})"
                )
            self._cotangent = torch.zeros_like(self._y).requires_grad_()
            self._pullback = self._differentiate(self._y, self._x, self._cotangent, True)
        if self._pullback is None:
            self._check_constant(backbone, point)

    @torch.inference_mode(False)
    def apply(self, tangent: Tensor) -> Tensor:
        r"""The product :math:`\mathbf{J} v` with a tangent ``[N, F]``."""
        if self._pullback is None:
            return torch.zeros_like(tangent)
        product = self._differentiate(self._pullback, self._cotangent, tangent, False)
        return torch.zeros_like(tangent) if product is None else product.detach()

    @torch.inference_mode(False)
    def apply_transpose(self, cotangent: Tensor) -> Tensor:
        r"""The product :math:`\mathbf{J}^\top u` with a cotangent ``[N, F]``."""
        product = self._differentiate(self._y, self._x, cotangent, False)
        return torch.zeros_like(cotangent) if product is None else product.detach()

    @staticmethod
    def _differentiate(
        output: Tensor, variable: Tensor, vector: Tensor, create_graph: bool
    ) -> Tensor | None:
        if not output.requires_grad:
            return None
        (gradient,) = torch.autograd.grad(
            output,
            variable,
            vector,
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
        return gradient

    @staticmethod
    @torch.no_grad()
    def _check_constant(backbone: Callable[[Tensor], Tensor], point: Tensor) -> None:
        r"""No gradient may mean a constant map, or one that detaches its input."""
        if not torch.equal(backbone(point), backbone(point + 1)):
            raise ValueError(
                "Expected 'backbone' to be differentiable (got one whose output depends on its "
                "input but has no gradient); remove torch.no_grad() or detach() from it"
            )
