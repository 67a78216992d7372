import pytest
import torch
from coefficient_strategies import coefficients, normal, orders, quick, seeds
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from torch_grama.analysis import simulate_arma, simulate_ssm


def textbook_arma(phi, theta, inputs, past_states, past_inputs):
    """The recurrence with plain numbers and explicit time indices."""
    f = {-1 - i: float(value) for i, value in enumerate(past_states)}
    d = {-1 - j: float(value) for j, value in enumerate(past_inputs)}
    for t, value in enumerate(inputs.tolist()):
        d[t] = value
        f[t] = value
        f[t] += sum(float(phi[i - 1]) * f[t - i] for i in range(1, len(phi) + 1))
        f[t] += sum(float(theta[j - 1]) * d[t - j] for j in range(1, len(theta) + 1))
    return torch.tensor([f[t] for t in range(len(inputs))], dtype=torch.float64)


@quick
@given(coefficients(), coefficients(), seeds, st.integers(1, 12))
def test_arma_is_the_recurrence(phi, theta, seed, steps):
    p, q = len(phi), len(theta)
    draw = normal(seed, steps + p + q)
    inputs, past_states, past_inputs = draw.split([steps, p, q])
    out = simulate_arma(phi, theta, inputs, past_states=past_states, past_inputs=past_inputs)
    expected = textbook_arma(phi, theta, inputs, past_states, past_inputs)
    assert torch.allclose(out, expected, rtol=1e-10, atol=1e-10)


def test_arma_starts_at_rest():
    phi, theta, inputs = normal(0, 3), normal(1, 2), normal(2, 9)
    out = simulate_arma(phi, theta, inputs)
    assert torch.allclose(out, textbook_arma(phi, theta, inputs, [0] * 3, [0] * 2))


def test_arma_direct_weight_and_initial_terms():
    phi, theta = torch.tensor([0.5]), torch.tensor([2.0])
    out = simulate_arma(
        phi,
        theta,
        torch.tensor([1.0, 0.0, 0.0]),
        direct=torch.tensor(3.0),
        initial_terms=torch.tensor([0.0, 10.0]),
    )
    # 3 * 1;  0.5 * 3 + 2 * 1 + 10;  0.5 * 13.5
    assert out.tolist() == [3.0, 13.5, 6.75]


def test_arma_ignores_initial_terms_beyond_the_last_step():
    phi = torch.tensor([0.5])
    out = simulate_arma(phi, None, torch.ones(2), initial_terms=torch.tensor([1.0, 1.0, 7.0]))
    assert out.tolist() == [2.0, 3.0]


@quick
@given(orders, seeds)
def test_ssm_is_the_unrolled_sum(size, seed):
    A = normal(seed, size, size) / size
    B, C, D, state = normal(seed + 1, 3 * size + 1).split([size, size, 1, size])
    inputs = normal(seed + 2, 7)
    out = simulate_ssm(A, B, C, D[0], inputs, initial_state=state)
    power = torch.linalg.matrix_power
    for t in range(7):
        value = C @ power(A, t + 1) @ state + D[0] * inputs[t]
        value = value + sum(C @ power(A, k) @ B * inputs[t - k] for k in range(t + 1))
        assert torch.allclose(out[t], value, atol=1e-10)


def test_batches_broadcast_and_equal_singles():
    phi, theta = normal(0, 4, 1, 3), normal(1, 5, 2)
    inputs, past = normal(2, 5, 6), normal(3, 4, 5, 3)
    out = simulate_arma(phi, theta, inputs, past_states=past)
    assert out.size() == (4, 5, 6)
    for i in range(4):
        for j in range(5):
            single = simulate_arma(phi[i, 0], theta[j], inputs[j], past_states=past[i, j])
            assert torch.allclose(out[i, j], single)

    A, B, C, D = normal(4, 4, 1, 3, 3) / 3, normal(5, 3), normal(6, 5, 3), normal(7, 4, 5)
    out = simulate_ssm(A, B, C, D, inputs)
    assert out.size() == (4, 5, 6)
    for i in range(4):
        for j in range(5):
            single = simulate_ssm(A[i, 0], B, C[j], D[i, j], inputs[j])
            assert torch.allclose(out[i, j], single)


def test_no_steps_and_empty_batch():
    phi, theta = torch.ones(2), torch.ones(3)
    assert simulate_arma(phi, theta, torch.ones(4, 0)).size() == (4, 0)
    assert simulate_arma(phi.expand(0, 2), theta, torch.ones(5)).size() == (0, 5)
    A, B = torch.eye(2), torch.ones(2)
    assert simulate_ssm(A, B, B, torch.tensor(0.0), torch.ones(4, 0)).size() == (4, 0)
    assert simulate_ssm(A.expand(0, 2, 2), B, B, torch.tensor(0.0), torch.ones(5)).size() == (0, 5)


def test_dtype_is_the_widest_given():
    phi, theta = torch.ones(2), torch.ones(2)
    assert simulate_arma(phi, theta, torch.ones(3)).dtype == torch.float32
    assert simulate_arma(phi, theta, torch.ones(3).double()).dtype == torch.float64


def test_non_contiguous_input():
    phi, theta = normal(0, 3, 4).mT[:, ::2], normal(1, 2, 4).mT
    inputs = normal(2, 8, 4).mT
    assert not phi.is_contiguous()
    assert not inputs.is_contiguous()
    expected = simulate_arma(phi.contiguous(), theta.contiguous(), inputs.contiguous())
    assert torch.equal(simulate_arma(phi, theta, inputs), expected)


def test_gradients():
    tensors = [normal(k, size) for k, size in enumerate((2, 3, 5, 2, 3))]
    phi, theta, inputs, states, past = (tensor.requires_grad_() for tensor in tensors)

    def arma(phi, theta, inputs, states, past):
        return simulate_arma(phi, theta, inputs, past_states=states, past_inputs=past)

    assert gradcheck(arma, (phi, theta, inputs, states, past))

    A, B, C = normal(5, 2, 2), normal(6, 2), normal(7, 2)
    arguments = (A, B, C, normal(8), normal(9, 4), normal(10, 2))
    assert gradcheck(simulate_ssm, tuple(tensor.requires_grad_() for tensor in arguments))


@pytest.mark.parametrize(
    ("name", "size"), [("past_states", 2), ("past_inputs", 3)], ids=["states", "inputs"]
)
def test_past_of_wrong_length(name, size):
    with pytest.raises(ValueError, match=f"'{name}'.*{5 - size} entries"):
        simulate_arma(torch.ones(3), torch.ones(2), torch.ones(4), **{name: torch.ones(size)})


def test_unusable_arguments():
    phi, B = torch.ones(2), torch.ones(3)
    with pytest.raises(ValueError, match=r"broadcast.*inputs: \(4,\)"):
        simulate_arma(torch.ones(3, 2), phi, torch.ones(4, 5))
    with pytest.raises(ValueError, match="'inputs' to have at least 1 dimension"):
        simulate_arma(phi, phi, torch.tensor(1.0))
    with pytest.raises(TypeError, match=r"'direct' to be a tensor \(got float\)"):
        simulate_arma(phi, phi, torch.ones(4), direct=2.0)
    with pytest.raises(ValueError, match="'A' to be square"):
        simulate_ssm(torch.ones(2, 3), B, B, torch.tensor(0.0), B)
    with pytest.raises(ValueError, match="'C' to have 2 entries"):
        simulate_ssm(torch.eye(2), phi, B, torch.tensor(0.0), B)
    with pytest.raises(ValueError, match="'initial_state' to have 2 entries"):
        simulate_ssm(torch.eye(2), phi, phi, torch.tensor(0.0), B, initial_state=B)
