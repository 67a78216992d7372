"""Equal to torch's own product, and differentiable as often."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torch_grama.nn.sequence_embedding import batched_linear


def make_problem() -> list[Tensor]:
    sizes = (3, 6, 4), (3, 4, 2), (3, 1, 2)
    return [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in sizes]


def test_equals_the_plain_product_in_value() -> None:
    x, weight, bias = make_problem()

    torch.testing.assert_close(batched_linear(x, weight, bias), torch.baddbmm(bias, x, weight))


def test_gradients() -> None:
    assert torch.autograd.gradcheck(batched_linear, make_problem())
    assert torch.autograd.gradgradcheck(batched_linear, make_problem())


def test_the_same_features_at_every_position() -> None:
    _, weight, bias = make_problem()
    x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)

    def run(features: Tensor) -> Tensor:
        return batched_linear(features.unsqueeze(0).expand(3, -1, -1), weight, bias)

    assert torch.autograd.gradcheck(run, [x])


@pytest.mark.parametrize("needed", [0, 1, 2])
def test_each_gradient_alone(needed: int) -> None:
    tensors = [t.detach().requires_grad_(i == needed) for i, t in enumerate(make_problem())]

    batched_linear(*tensors).sum().backward()

    assert [t.grad is not None for t in tensors] == [i == needed for i in range(3)]


def test_autocast_is_left_to_torch() -> None:
    x, weight, bias = (t.detach().float() for t in make_problem())

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert batched_linear(x, weight, bias).dtype == torch.bfloat16
