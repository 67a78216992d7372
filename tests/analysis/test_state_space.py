import pytest
import torch
from coefficient_strategies import coefficients, double, normal, orders, quick, seeds
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from torch_grama.analysis import (
    ArmaModel,
    StateSpace,
    arma_to_ssm,
    simulate_arma,
    simulate_ssm,
    ssm_to_arma,
    state_matrix,
)


def random_ssm(seed, size):
    A = normal(seed, size, size)
    A = A * (1.1 / torch.linalg.matrix_norm(A, 2))
    B, C, D = normal(seed + 1, 2 * size + 1).split([size, size, 1])
    return StateSpace(A, B, C, D[0])


def test_matrices_by_hand():
    A, B, C, D = arma_to_ssm(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0]))
    assert A.tolist() == [
        [1, 2, 3, 4, 5],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
    ]
    assert B.tolist() == [1, 0, 1, 0, 0]
    assert C.tolist() == [1, 0, 0, 0, 0]
    assert D.tolist() == 0


def test_state_matrix_without_moving_average_is_the_companion_matrix():
    assert state_matrix(torch.tensor([1.0, 2.0, 3.0])).tolist() == [[1, 2, 3], [1, 0, 0], [0, 1, 0]]
    assert state_matrix(torch.tensor([0.5])).tolist() == [[0.5]]
    empty = state_matrix(torch.tensor([0.5]), torch.empty(0))
    assert empty.tolist() == [[0.5]]


@quick
@given(coefficients(), coefficients(), seeds)
def test_arma_equals_its_state_space_model(phi, theta, seed):
    inputs, past_states, past_inputs = normal(seed, 20 + len(phi) + len(theta)).split(
        [20, len(phi), len(theta)]
    )
    ssm = arma_to_ssm(phi, theta)
    expected = simulate_arma(phi, theta, inputs)
    assert torch.allclose(simulate_ssm(*ssm, inputs), expected, rtol=1e-10, atol=1e-10)

    expected = simulate_arma(phi, theta, inputs, past_states=past_states, past_inputs=past_inputs)
    start = torch.cat([past_states, past_inputs])
    out = simulate_ssm(*ssm, inputs, initial_state=start)
    assert torch.allclose(out, expected, rtol=1e-10, atol=1e-10)


def printed_ssm(phi, theta):
    """B and D as the paper prints them."""
    A, B, C, D = arma_to_ssm(phi, theta)
    return A, B - C, C, D + 1


@quick
@given(coefficients(), coefficients(), seeds)
def test_printed_matrices_realise_another_recurrence(phi, theta, seed):
    inputs = normal(seed, 15)
    out = simulate_ssm(*printed_ssm(phi, theta), inputs)
    other = torch.zeros(max(len(phi), len(theta)), dtype=torch.float64)
    other[: len(theta)] += theta
    other[: len(phi)] -= phi
    assert torch.allclose(out, simulate_arma(phi, other, inputs), rtol=1e-9, atol=1e-9)


def test_printed_matrices_do_not_reproduce_the_recurrence():
    phi, theta = torch.tensor([0.5, -0.25]), torch.tensor([0.75])
    inputs = torch.tensor([1.0, 0.0, 0.0])
    assert simulate_arma(phi, theta, inputs).tolist() == [1.0, 1.25, 0.375]
    assert simulate_ssm(*printed_ssm(phi, theta), inputs).tolist() == [1.0, 0.75, 0.375]

    # The right B with the printed D counts the present input twice.
    A, B, C, D = arma_to_ssm(phi, theta)
    assert simulate_ssm(A, B, C, D + 1, inputs).tolist() == [2.0, 1.25, 0.375]


@quick
@given(orders, seeds)
def test_ssm_equals_its_arma_model(size, seed):
    ssm, inputs, state = random_ssm(seed, size), normal(seed + 2, 25), normal(seed + 3, size)

    model = ssm_to_arma(*ssm)
    assert model.initial_terms.count_nonzero() == 0
    assert torch.allclose(model.simulate(inputs), simulate_ssm(*ssm, inputs), atol=1e-9)

    model = ssm_to_arma(*ssm, initial_state=state)
    expected = simulate_ssm(*ssm, inputs, initial_state=state)
    assert torch.allclose(model.simulate(inputs), expected, atol=1e-9)


@quick
@given(orders, seeds)
def test_arma_model_matches_the_characteristic_polynomial(size, seed):
    A, B, C, D = random_ssm(seed, size)
    model = ssm_to_arma(A, B, C, D)
    for point in (0.7, -1.3, 2.1):
        eye = torch.eye(size, dtype=torch.float64)
        powers = point ** torch.arange(size, -1, -1, dtype=torch.float64)
        determinant = torch.linalg.det(point * eye - A)
        polynomial = torch.cat([torch.ones(1, dtype=torch.float64), -model.phi])
        assert torch.allclose(powers @ polynomial, determinant, atol=1e-9)
        # x_t = A x_{t-1} + B d_t, so the transfer function is D + C (I - A / z)^-1 B.
        transfer = D + C @ torch.linalg.solve(eye - A / point, B)
        assert torch.allclose(powers @ model.ma, determinant * transfer, atol=1e-9)
    assert torch.allclose(model.ma[-1], -model.phi[-1] * D, atol=1e-12)


@quick
@given(coefficients(), coefficients())
def test_round_trip_from_arma(phi, theta):
    model = ssm_to_arma(*arma_to_ssm(phi, theta))
    p, q = len(phi), len(theta)
    one = torch.ones(1, dtype=torch.float64)
    assert torch.allclose(model.phi, torch.nn.functional.pad(phi, (0, q)), atol=1e-9)
    expected = torch.nn.functional.pad(torch.cat([one, theta]), (0, p))
    assert torch.allclose(model.ma, expected, atol=1e-9)


def test_round_trip_of_the_longest_published_sequence():
    phi, theta = torch.softmax(normal(0, 50), 0), torch.softmax(normal(1, 50), 0)
    model = ssm_to_arma(*arma_to_ssm(phi, theta))
    assert torch.allclose(model.phi[:50], phi, atol=1e-14)
    assert torch.allclose(model.ma[1:51], theta, atol=1e-14)


def test_printed_coefficients_are_no_recurrence():
    """The paper reads phi off C A^p and theta off C A^k B; the outputs do not obey that."""
    size = 4
    A, B, C, _ = random_ssm(0, size)
    D = 1 - C @ B
    inputs = normal(1, 40)
    f = simulate_ssm(A, B, C, D, inputs)
    power = torch.linalg.matrix_power
    phi = C @ power(A, size)
    theta = torch.stack([C @ power(A, k) @ B for k in range(1, size)])
    predicted = torch.stack(
        [
            phi @ f[t - size : t].flip(0) + theta @ inputs[t - size + 1 : t].flip(0) + inputs[t]
            for t in range(size, 40)
        ]
    )
    assert (predicted - f[size:]).abs().max() > 0.1 * f.abs().max()
    assert torch.allclose(ssm_to_arma(A, B, C, D).simulate(inputs), f, atol=1e-10)


@quick
@given(orders, seeds)
def test_normalized_form_scales_the_input(size, seed):
    ssm, inputs = random_ssm(seed, size), normal(seed + 2, 15)
    D = 2.0 - ssm.C @ ssm.B  # b_0 = 2
    phi, theta, gain = ssm_to_arma(*ssm._replace(D=D)).normalized()
    assert torch.allclose(gain, torch.tensor(2.0, dtype=torch.float64))
    out = simulate_arma(phi, theta, gain * inputs)
    assert torch.allclose(out, simulate_ssm(*ssm._replace(D=D), inputs), atol=1e-9)


def test_pure_delay_has_no_normalized_form():
    # x_t = (d_t, d_{t-1}), f_t = d_{t-1}
    A = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    B, C = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    model = ssm_to_arma(A, B, C, torch.tensor(0.0))
    assert model.ma.tolist() == [0, 1, 0]
    assert model.simulate(torch.tensor([1.0, 2.0, 3.0])).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="pure delay"):
        model.normalized()


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 4), (4, 1), (3, 0)])
def test_batch_equals_singles(p, q):
    phi, theta = normal(0, 2, 3, p), normal(1, 3, q)
    batch = arma_to_ssm(phi, theta)
    assert batch.A.size() == (2, 3, p + q, p + q)
    assert batch.B.size() == batch.C.size() == (2, 3, p + q)
    assert batch.D.size() == (2, 3)
    start = normal(2, 2, 1, p + q)
    model = ssm_to_arma(*batch, initial_state=start)
    for i in range(2):
        for j in range(3):
            single = arma_to_ssm(phi[i, j], theta[j])
            assert all(torch.equal(a[i, j], b) for a, b in zip(batch, single, strict=True))
            alone = ssm_to_arma(*single, initial_state=start[i, 0])
            assert all(torch.allclose(a[i, j], b) for a, b in zip(model, alone, strict=True))


def test_empty_batch_and_dtypes():
    ssm = arma_to_ssm(torch.ones(0, 2), torch.ones(0, 3))
    assert ssm.A.size() == (0, 5, 5)
    model = ssm_to_arma(*ssm)
    assert (model.phi.size(), model.ma.size()) == ((0, 5), (0, 6))
    assert {part.dtype for part in (*ssm, *model)} == {torch.float32}


def test_float32_model_is_found_in_float64():
    ssm = StateSpace(*(part.float() for part in random_ssm(3, 12)))
    exact = ssm_to_arma(*(part.double() for part in ssm))
    assert torch.equal(ssm_to_arma(*ssm).phi, exact.phi.float())


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 3), (4, 1), (2, 0)])
def test_gradients(p, q):
    phi, theta = normal(0, p).requires_grad_(), normal(1, q).requires_grad_()
    assert gradcheck(state_matrix, (phi, theta))
    parts = [*random_ssm(2, p + q), normal(3, p + q)]
    assert gradcheck(ssm_to_arma, tuple(part.requires_grad_() for part in parts))


def test_gradient_through_a_defective_matrix():
    """A moving average of order two makes zero a double eigenvalue with one eigenvector."""
    phi, theta = normal(0, 2).requires_grad_(), normal(1, 3).requires_grad_()
    assert gradcheck(lambda phi, theta: ssm_to_arma(*arma_to_ssm(phi, theta)), (phi, theta))


def test_unusable_arguments():
    one = torch.ones(1)
    with pytest.raises(ValueError, match="'phi' to hold at least one coefficient"):
        arma_to_ssm(torch.ones(3, 0), one)
    with pytest.raises(ValueError, match=r"broadcast.*phi: \(3,\), theta: \(2,\)"):
        arma_to_ssm(torch.ones(3, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="'A' to be square"):
        ssm_to_arma(torch.ones(0, 0), torch.ones(0), torch.ones(0), torch.tensor(0.0))
    with pytest.raises(ValueError, match="'B' to have 1 entries"):
        ssm_to_arma(torch.ones(1, 1), torch.ones(2), one, torch.tensor(0.0))
    with pytest.raises(ValueError, match="'initial_state' to have 1 entries"):
        ssm_to_arma(torch.ones(1, 1), one, one, torch.tensor(0.0), initial_state=torch.ones(2))


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


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_models_with_direct_weight_and_initial_terms(steps):
    model = ArmaModel(double(0.5, 0.0), double(3.0, 2.0, 0.0), double(0.0, 10.0))
    out = model.simulate(torch.eye(1, 4)[0, :steps].double())
    # 3 * 1;  0.5 * 3 + 2 * 1 + 10;  0.5 * 13.5
    assert out.tolist() == [3.0, 13.5, 6.75, 3.375][:steps]


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


def test_gradients_of_simulations():
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


def test_unusable_arguments_of_simulations():
    phi, B = torch.ones(2), torch.ones(3)
    with pytest.raises(ValueError, match=r"broadcast.*inputs: \(4,\)"):
        simulate_arma(torch.ones(3, 2), phi, torch.ones(4, 5))
    with pytest.raises(ValueError, match="'inputs' to have at least 1 dimension"):
        simulate_arma(phi, phi, torch.tensor(1.0))
    with pytest.raises(TypeError, match=r"'past_states' to be a tensor \(got float\)"):
        simulate_arma(phi, phi, torch.ones(4), past_states=2.0)
    with pytest.raises(ValueError, match="'A' to be square"):
        simulate_ssm(torch.ones(2, 3), B, B, torch.tensor(0.0), B)
    with pytest.raises(ValueError, match="'C' to have 2 entries"):
        simulate_ssm(torch.eye(2), phi, B, torch.tensor(0.0), B)
    with pytest.raises(ValueError, match="'initial_state' to have 2 entries"):
        simulate_ssm(torch.eye(2), phi, phi, torch.tensor(0.0), B, initial_state=B)
