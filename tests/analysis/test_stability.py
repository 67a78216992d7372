import numpy as np
import pytest
import torch
from coefficient_strategies import (
    coefficients,
    companion,
    contracting,
    decaying,
    double,
    normal,
    orders,
    quick,
    seeds,
)
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from torch_grama.analysis import (
    characteristic_roots,
    is_bibo_stable,
    is_stable,
    satisfies_sufficient_condition,
    simulate_arma,
    spectral_radius,
    state_matrix,
)
from torch_grama.analysis.stability import eigenvalues


@quick
@given(coefficients())
def test_roots_rebuild_the_polynomial(phi):
    roots = characteristic_roots(phi)
    assert torch.allclose(torch.from_numpy(np.poly(roots.numpy()).real[1:]), -phi, atol=1e-10)
    assert (roots.abs().diff() <= 1e-12).all()


@quick
@given(orders, orders, seeds)
def test_spectrum_of_the_state_matrix_is_the_roots_and_zeros(p, q, seed):
    phi, theta = normal(seed, p), normal(seed + 1, q)
    eigenvalues = torch.linalg.eigvals(state_matrix(phi, theta))
    order = eigenvalues.abs().argsort(descending=True)
    polynomial = torch.from_numpy(np.poly(eigenvalues.numpy()).real)
    expected = torch.nn.functional.pad(torch.cat([double(1.0), -phi]), (0, q))
    assert torch.allclose(polynomial, expected, atol=1e-9)
    assert eigenvalues[order[p:]].abs().max() < eigenvalues[order[p - 1]].abs() + 1e-2
    assert torch.allclose(spectral_radius(phi), eigenvalues.abs().max(), rtol=1e-6)


@quick
@given(contracting(), seeds)
def test_sufficient_condition_implies_stability(phi, seed):
    assert satisfies_sufficient_condition(phi)
    assert spectral_radius(phi) <= 1 + 1e-7
    assert is_stable(phi)
    # The largest of the past states is never exceeded, however long the recurrence runs.
    past = normal(seed, len(phi))
    out = simulate_arma(phi, None, torch.zeros(200), past_states=past)
    assert out.abs().max() <= past.abs().max() * (1 + 1e-12)
    powers = torch.linalg.matrix_power(companion(phi), 1000)
    assert powers.abs().sum(-1).max() <= 1 + 1e-9


@quick
@given(contracting())
def test_retention_below_one_makes_it_imply_bounded_outputs(phi):
    assert is_bibo_stable(0.9 * phi)


@quick
@given(coefficients())
def test_sufficient_condition_is_the_sum(phi):
    size = phi.abs().sum()
    assume(abs(size - 1) > 1e-9)
    assert satisfies_sufficient_condition(phi) == (size < 1)


@quick
@given(coefficients())
def test_coefficients_that_sum_to_one_have_a_root_at_one(phi):
    assume(phi.sum().abs() > 0.05)
    phi = phi / phi.sum()
    lags = torch.arange(1, len(phi) + 1)
    assume((lags * phi).sum().abs() > 1e-2)  # P'(1); a multiple root is found less accurately
    roots = characteristic_roots(phi)
    assert (roots - 1).abs().min() < 1e-8
    assert spectral_radius(phi) > 1 - 1e-8
    assert not is_bibo_stable(phi)
    # Only one sign throughout makes the sum of absolute values one as well.
    assume(phi.min() >= 0 or phi.min() < -1e-9)
    assert satisfies_sufficient_condition(phi) == (phi.min() >= 0)


@quick
@given(decaying(), seeds)
def test_poles_inside_the_circle_bound_every_response(phi, seed):
    theta = normal(seed, 3)
    assert is_stable(phi)
    assert is_bibo_stable(phi, theta)
    out = simulate_arma(phi, theta, torch.ones(600))
    limit = (1 + theta.sum()) / (1 - phi.sum())  # the answer to a constant input
    assert torch.allclose(out[-1], limit, atol=1e-6)


@pytest.mark.parametrize(
    ("phi", "stable", "bounded"),
    [
        ([0.0], True, True),
        ([0.0, 0.0, 0.0], True, True),
        ([0.999], True, True),
        ([1.0], True, False),
        ([-1.0], True, False),
        ([0.0, 0.0, 1.0], True, False),  # three simple roots on the circle
        ([1.0, -1.0], True, False),  # a complex pair on the circle
        ([2.0, -1.0], False, False),  # double root at 1
        ([0.0, -2.0, 0.0, -1.0], False, False),  # double pair at +-i
        ([3.0, -3.0, 1.0], False, False),  # triple root at 1
        ([1.5, -0.5], True, False),  # roots 1 and 1/2, although sum|phi| = 2
        ([1.8, -0.81], True, True),  # double root inside the circle
        ([1.01], False, False),
        ([0.9, 0.3], False, False),
    ],
)
def test_verdicts(phi, stable, bounded):
    phi = double(*phi)
    assert bool(is_stable(phi)) is stable
    assert bool(is_bibo_stable(phi)) is bounded
    assert bool(is_stable(phi.float())) is stable
    # Powers of the companion matrix decide what the words mean.
    early, late = (torch.linalg.matrix_power(companion(phi), k).norm() for k in (1000, 4000))
    assert bool(late <= 1.01 * early) is stable


def test_tolerance_moves_the_edge():
    phi = double(1.0001)
    assert not is_stable(phi)
    assert is_stable(phi, tolerance=1e-3)
    assert not is_bibo_stable(double(0.9999), tolerance=1e-3)
    assert is_stable(double(1.0), tolerance=0.0)
    # A slow rotation is bounded; only a coarse tolerance takes its two poles for one.
    slow = double(2 * np.cos(0.01), -1.0)
    assert is_stable(slow)
    assert not is_stable(slow, tolerance=1e-4)


def test_cancelled_poles_do_not_count_for_bounded_outputs():
    assert is_bibo_stable(double(1.0), double(-1.0))
    assert is_bibo_stable(double(1.6, -0.55), double(-0.8, -0.33))  # 1.1 and 0.5 over 1.1 and -0.3
    assert not is_bibo_stable(double(1.6, -0.55), double(-0.8, 0.33))
    assert not is_bibo_stable(double(2.0, -1.0), double(-1.0))  # one zero for a double pole
    assert is_bibo_stable(double(2.0, -1.0), double(-2.0, 1.0))


def test_l1_normalisation_is_stable_where_sum_normalisation_is_not():
    scores = torch.tanh(normal(0, 500, 8))
    by_sum = scores / scores.sum(-1, keepdim=True)
    by_size = scores / scores.abs().sum(-1, keepdim=True)
    assert is_stable(by_size).all()
    assert is_stable(by_size.float()).all()
    assert satisfies_sufficient_condition(by_size.float()).all()
    unstable = (spectral_radius(by_sum) > 1 + 1e-6).double().mean()
    assert 0.6 < unstable < 0.8  # most rows with mixed signs


def test_batch_equals_singles():
    phi, theta = normal(0, 4, 3, 5), normal(1, 3, 2)
    phi[0, 0] = 0
    roots, radius = characteristic_roots(phi), spectral_radius(phi)
    assert roots.size() == (4, 3, 5)
    assert radius.size() == (4, 3)
    for i in range(4):
        for j in range(3):
            assert torch.allclose(roots[i, j], characteristic_roots(phi[i, j]))
            assert torch.allclose(radius[i, j], spectral_radius(phi[i, j]))
            assert is_stable(phi)[i, j] == is_stable(phi[i, j])
            alone = is_bibo_stable(phi[i, j], theta[j])
            assert is_bibo_stable(phi, theta)[i, j] == alone
            alone = satisfies_sufficient_condition(phi[i, j])
            assert satisfies_sufficient_condition(phi)[i, j] == alone


def test_zero_coefficients_have_radius_zero():
    phi = torch.zeros(2, 4, requires_grad=True)
    radius = spectral_radius(phi)
    assert radius.tolist() == [0, 0]
    radius.sum().backward()
    assert torch.isfinite(phi.grad).all()


def test_empty_batch():
    phi = torch.empty(0, 3)
    assert characteristic_roots(phi).size() == (0, 3)
    for function in (spectral_radius, is_stable, is_bibo_stable, satisfies_sufficient_condition):
        assert function(phi).size() == (0,)


def test_dtypes_and_strides():
    phi = normal(0, 3, 4).mT
    assert not phi.is_contiguous()
    assert torch.equal(characteristic_roots(phi), characteristic_roots(phi.contiguous()))
    assert characteristic_roots(phi.float()).dtype == torch.complex64
    assert spectral_radius(phi.float()).dtype == torch.float32
    assert torch.allclose(spectral_radius(phi.float()).double(), spectral_radius(phi), rtol=1e-5)
    assert is_stable(phi).dtype == torch.bool


@pytest.mark.parametrize("order", [1, 2, 5])
def test_gradients(order):
    phi = normal(order, 2, order).requires_grad_()
    assert gradcheck(spectral_radius, phi)
    assert gradgradcheck(spectral_radius, phi)
    assert gradcheck(lambda phi: torch.view_as_real(characteristic_roots(phi)), phi)


def test_gradient_of_the_radius_ignores_multiple_roots_elsewhere():
    phi = double(0.5, 0.0, 0.0).requires_grad_()  # roots 1/2, 0, 0
    spectral_radius(phi).backward()
    # d lambda / d phi_j = lambda^(p-j) / P'(lambda), P'(1/2) = 3/4 - 1/2
    assert torch.allclose(phi.grad, double(1.0, 2.0, 4.0))


@quick
@given(st.sampled_from([is_stable, is_bibo_stable]), st.sampled_from([-1e-3, np.inf, np.nan]))
def test_unusable_tolerance(function, tolerance):
    with pytest.raises(ValueError, match="'tolerance' to be a non-negative finite number"):
        function(torch.ones(2), tolerance=tolerance)


# Coefficients of a saturated softmax in float32, on which LAPACK's iteration may not converge.
saturated = [0.0, 8.9e-43, 7.5e-39, 1.4e-38, 1.0, 1.03e-36, 1.1e-39, 4.8e-41]


def test_equals_torch_where_that_converges():
    matrices = normal(0, 3, 2, 4, 4)
    assert torch.equal(eigenvalues(matrices), torch.linalg.eigvals(matrices))


def test_saturated_coefficients():
    phi = torch.tensor([saturated, [0.0] * 7 + [1.0]], dtype=torch.float64)
    radius = spectral_radius(phi)
    assert torch.allclose(radius, torch.ones(2, dtype=torch.float64))
    roots = characteristic_roots(phi[0])[:5]  # close to the fifth roots of unity
    assert torch.allclose(roots**5, torch.ones(5, dtype=torch.complex128), atol=1e-9)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_one_failure_does_not_bring_down_the_batch(monkeypatch, failures):
    """The batch, then its first matrix, then that matrix transposed refuse to converge."""
    matrices = torch.stack([companion(normal(seed, 4)) for seed in range(3)])
    expected = torch.linalg.eigvals(matrices)
    solve, calls = torch.linalg.eigvals, []

    def failing(matrix):
        calls.append(matrix)
        if len(calls) <= failures:
            raise torch.linalg.LinAlgError("did not converge")
        return solve(matrix)

    monkeypatch.setattr(torch.linalg, "eigvals", failing)
    found = eigenvalues(matrices)
    monkeypatch.undo()
    assert len(calls) == failures + 3
    for row, want in zip(found, expected, strict=True):
        distance = (row.unsqueeze(-1) - want).abs()
        assert distance.min(0).values.max() < 1e-10
        assert distance.min(1).values.max() < 1e-10
