import pytest
import torch
from coefficient_strategies import coefficients, normal, quick
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from torch_grama.analysis import (
    closed_loop_bound,
    closed_loop_gain,
    closed_loop_radius,
    operator_norm,
    satisfies_sufficient_condition,
)

norms = st.floats(0.0, 3.0).map(lambda value: torch.tensor(value, dtype=torch.float64))


@quick
@given(coefficients(), coefficients(), norms)
def test_bound_follows_from_the_gain(phi, theta, norm):
    gain = closed_loop_gain(phi, theta, norm)
    bound = closed_loop_bound(phi, theta, norm)
    order = max(len(phi), len(theta) + 1)
    assert torch.allclose(bound, torch.maximum(gain, gain ** (1 / order)), atol=1e-12)
    assert (bound <= 1) == (gain <= 1)


@quick
@given(coefficients(), coefficients(), norms)
def test_sharp_bound_solves_its_equation(phi, theta, norm):
    sharp = closed_loop_bound(phi, theta, norm, sharp=True)
    assert sharp <= closed_loop_bound(phi, theta, norm) * (1 + 1e-9) + 1e-9
    if sharp > 1e-2:
        ar, ma = torch.arange(1, len(phi) + 1), torch.arange(2, len(theta) + 2)
        right = (phi.abs() * sharp**-ar).sum()
        right = right + norm * (1 / sharp + (theta.abs() * sharp**-ma).sum())
        assert torch.allclose(right, torch.ones_like(right), atol=1e-6)


@quick
@given(coefficients(), coefficients())
def test_without_a_backbone_the_gain_is_the_sufficient_condition(phi, theta):
    gain = closed_loop_gain(phi, theta, torch.tensor(0.0))
    assert torch.allclose(gain, phi.abs().sum())
    assert satisfies_sufficient_condition(phi) == (gain <= 1 + 1e-15)


def test_sharp_bound_is_attained_by_positive_loops():
    """Non-negative coefficients and a multiple of the identity leave no room below the bound."""
    phi, theta = normal(0, 3).abs(), normal(1, 2).abs()
    radius = closed_loop_radius(phi, theta, lambda x: 0.3 * x, torch.zeros(2, 2).double())
    bound = closed_loop_bound(phi, theta, torch.tensor(0.3).double(), sharp=True)
    assert torch.allclose(radius, bound, rtol=1e-6)


def test_batches_broadcast():
    phi, theta, norm = normal(0, 4, 1, 3), normal(1, 5, 2), normal(2, 5).abs()
    for function in (closed_loop_gain, closed_loop_bound):
        out = function(phi, theta, norm)
        assert out.size() == (4, 5)
        assert torch.allclose(out[2, 3], function(phi[2, 0], theta[3], norm[3]))
    assert closed_loop_gain(phi[:0], theta, norm).size() == (0, 5)
    assert closed_loop_gain(torch.ones(2), None, torch.tensor(1.0)).dtype == torch.float32


@pytest.mark.parametrize("scale", [0.1, 1.0], ids=["decaying", "growing"])
def test_gradients(scale):
    phi = (scale * normal(0, 3)).requires_grad_()
    theta = normal(1, 2).requires_grad_()
    norm = torch.tensor(0.2 * scale, dtype=torch.float64, requires_grad=True)
    assert gradcheck(closed_loop_gain, (phi, theta, norm))
    assert gradcheck(closed_loop_bound, (phi, theta, norm))
    assert gradcheck(
        lambda phi, theta, norm: closed_loop_bound(phi, theta, norm, sharp=True),
        (phi, theta, norm),
    )


def test_norm_approaches_from_below():
    diagonal = torch.linspace(0.0, 1.0, 400, dtype=torch.float64).unsqueeze(-1)
    point = torch.zeros(400, 1, dtype=torch.float64)
    estimates = [
        float(operator_norm(lambda x: diagonal * x, point, num_iterations=count))
        for count in (1, 4, 16, 64)
    ]
    assert sorted(estimates) == estimates
    assert estimates[-1] <= 1 + 1e-12
    assert estimates[-1] == pytest.approx(1, abs=1e-3)


def test_unusable_arguments():
    phi, point = torch.ones(2), torch.zeros(3, 2)
    with pytest.raises(ValueError, match="'operator_norm' not to be negative"):
        closed_loop_gain(phi, phi, torch.tensor(-1.0))
    with pytest.raises(ValueError, match=r"broadcast.*operator_norm: \(4,\)"):
        closed_loop_bound(torch.ones(3, 2), phi, torch.ones(4))
    with pytest.raises(ValueError, match="'num_iterations' to be at least 1"):
        operator_norm(lambda x: x, point, num_iterations=0)
    with pytest.raises(ValueError, match="'batch' to be given with batch_size=2"):
        operator_norm(lambda x: x, point, batch_size=2)
    with pytest.raises(ValueError, match=r"'batch' to be int64 of shape \(3,\)"):
        operator_norm(lambda x: x, point, torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"'batch' to be int64.*got torch.float32"):
        operator_norm(lambda x: x, point, torch.zeros(3))
    with pytest.raises(ValueError, match=r"\[0, batch_size\) \(got 0 to 2, batch_size=2\)"):
        operator_norm(lambda x: x, point, torch.tensor([0, 1, 2]), batch_size=2)
    with pytest.raises(ValueError, match=r"\[0, batch_size\) \(got 0 to 0, batch_size=0\)"):
        operator_norm(lambda x: x, point, torch.tensor([0, 0, 0]), batch_size=0)
    with pytest.raises(ValueError, match=r"\[0, batch_size\) \(got -1"):
        operator_norm(lambda x: x, point, torch.tensor([0, 1, -1]))
