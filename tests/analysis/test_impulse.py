import math

import numpy as np
import pytest
import torch
from coefficient_strategies import coefficients, decaying, double, normal, quick, seeds
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from torch.autograd import gradcheck

from torch_grama.analysis import impulse_response, is_bibo_stable, memory_length


def filtered(phi, theta, length):
    """The response as a digital filter gives it."""
    impulse = np.zeros(length)
    impulse[0] = 1
    return lfilter(np.append(1, theta.numpy()), np.append(1, -phi.numpy()), impulse)


def last_lag(response, tolerance):
    return max(np.flatnonzero(np.abs(response) >= tolerance), default=0)


@quick
@given(coefficients(), coefficients())
def test_response_is_that_of_a_filter(phi, theta):
    expected = torch.from_numpy(filtered(phi, theta, 30))
    assert torch.allclose(impulse_response(phi, theta, 30), expected, rtol=1e-9, atol=1e-9)


@quick
@given(decaying(), seeds, st.integers(0, 4), st.sampled_from([0.5, 1e-2, 1e-3, 1e-6]))
def test_memory_equals_brute_force(phi, seed, q, tolerance):
    theta = normal(seed, q)
    response = filtered(phi, theta, 5000)
    assert memory_length(phi, theta, tolerance=tolerance) == last_lag(response, tolerance)


@pytest.mark.parametrize("radius", [0.999, 0.99999])
@pytest.mark.parametrize("angle", [0.0, 0.003, 1.0])
def test_memory_of_slow_decay(radius, angle):
    # One pole at `radius`, or a pair at this angle whose response passes through zero for long.
    pair = double(2 * radius * math.cos(angle), -(radius**2))
    phi = double(radius, 0.0) if angle == 0.0 else pair
    horizon = math.ceil(30 / (1 - radius))
    response = filtered(phi, double(), horizon)
    assert memory_length(phi, tolerance=1e-3) == last_lag(response, 1e-3)


def test_memory_grows_without_bound_towards_the_circle():
    radii = double(0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0).unsqueeze(-1)
    memory = memory_length(radii)
    assert memory.tolist() == [0, 9, 65, 687, 6904, 69074, math.inf]


@pytest.mark.parametrize(
    ("phi", "theta"),
    [
        ([1.0], []),
        ([-1.0], [0.5]),
        ([0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
        ([2.0, -1.0], [-1.0]),  # one zero does not cancel a double pole
        ([1.1], [0.0, 0.0]),
        ([1.0], [-0.9999]),  # below the tolerance, but never gone
    ],
)
def test_memory_of_what_never_decays_is_infinite(phi, theta):
    phi, theta = double(*phi), double(*theta)
    assert memory_length(phi, theta) == math.inf
    assert not is_bibo_stable(phi, theta)


@pytest.mark.parametrize(
    ("phi", "theta", "expected"),
    [
        ([1.0], [-1.0], 0),
        ([2.0, -1.0], [-2.0, 1.0], 0),
        ([1.5, -0.5], [-0.7, -0.3], 10),  # 1, 1/2 over 1, -0.3: what is left is 0.8 * 2^-(k-1)
        ([1.6, -0.55], [-0.8, -0.33], 10),  # the same with an unstable common factor 1.1
        ([1.8, -0.95, 0.15], [-1.5, 0.5], 5),  # 1, 1/2, 0.3 over 1, 1/2: what is left is 0.3^k
    ],
)
def test_memory_without_the_cancelled_poles(phi, theta, expected):
    assert memory_length(double(*phi), double(*theta)) == expected


def test_response_that_outlasts_its_poles_is_not_followed_for_ever(monkeypatch):
    monkeypatch.setattr("torch_grama.analysis.impulse._LAST_LAG", 1000)
    memory = memory_length(double(0.5, 0.9, 0.9999).unsqueeze(-1))
    assert memory.tolist() == [9, 65, math.inf]


def test_tolerance_above_the_response():
    assert memory_length(double(0.5), tolerance=2.0) == 0


def test_batch_equals_singles():
    phi = normal(0, 4, 3, 5)
    phi = 0.995 * phi / phi.abs().sum(-1, keepdim=True)
    phi[1, 2], phi[2, 1] = double(1, 0, 0, 0, 0), double(1.5, -0.5, 0, 0, 0)
    theta = normal(1, 3, 2)
    theta[1] = double(-0.7, -0.3)  # cancels the pole of phi[2, 1]
    memory, response = memory_length(phi, theta), impulse_response(phi, theta, 9)
    assert memory.size() == (4, 3)
    assert response.size() == (4, 3, 9)
    for i in range(4):
        for j in range(3):
            assert memory[i, j] == memory_length(phi[i, j], theta[j])
            assert torch.allclose(response[i, j], impulse_response(phi[i, j], theta[j], 9))
    assert memory.isinf().sum() == 1


def test_empty_batch_dtype_and_strides():
    assert memory_length(torch.empty(0, 3)).size() == (0,)
    assert memory_length(torch.empty(2, 0, 3), torch.ones(4)).size() == (2, 0)
    assert impulse_response(torch.empty(0, 3), None, 4).size() == (0, 4)
    assert impulse_response(torch.ones(3), None, 0).size() == (0,)
    phi = 0.2 * normal(0, 3, 4).mT
    assert memory_length(phi.float()).dtype == torch.float64
    assert torch.equal(memory_length(phi), memory_length(phi.contiguous()))
    assert impulse_response(phi.float(), None, 3).dtype == torch.float32


def test_gradients():
    phi, theta = normal(0, 2, 3).requires_grad_(), normal(1, 2).requires_grad_()
    assert gradcheck(lambda phi, theta: impulse_response(phi, theta, 6), (phi, theta))


def test_unusable_arguments():
    phi = torch.ones(2)
    with pytest.raises(ValueError, match="'length' to be at least 0"):
        impulse_response(phi, None, -1)
    with pytest.raises(ValueError, match="'tolerance' to be a positive finite number"):
        memory_length(phi, tolerance=0.0)
