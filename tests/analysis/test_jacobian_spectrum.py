import pytest
import torch
from coefficient_strategies import normal
from torch import nn

from torch_grama.analysis.jacobian_spectrum import Linearization, ritz_values


def test_products_equal_the_dense_jacobian():
    W, point = normal(0, 3, 3), normal(1, 5, 3)
    A = normal(2, 5, 5)

    def backbone(x):
        return torch.tanh(A @ x @ W) + x.square()

    dense = torch.autograd.functional.jacobian(backbone, point).reshape(15, 15)
    jacobian = Linearization(backbone, point)
    vector = normal(3, 5, 3)
    for _ in range(2):  # the second product uses the same evaluation
        assert torch.allclose(jacobian.apply(vector).flatten(), dense @ vector.flatten())
        product = jacobian.apply_transpose(vector).flatten()
        assert torch.allclose(product, dense.T @ vector.flatten())
    assert not jacobian.apply(vector).requires_grad


def test_backbone_is_evaluated_once():
    calls = []

    def backbone(x):
        calls.append(x)
        return 2 * x

    jacobian = Linearization(backbone, torch.zeros(2, 2))
    jacobian.apply(torch.ones(2, 2))
    jacobian.apply_transpose(torch.ones(2, 2))
    assert len(calls) == 1


def test_dropout_is_drawn_once():
    jacobian = Linearization(nn.Dropout(0.5), torch.ones(50, 4))
    first = jacobian.apply(torch.ones(50, 4))
    assert torch.equal(first, jacobian.apply(torch.ones(50, 4)))
    assert set(first.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize(
    "constant",
    [
        lambda x: torch.ones(3, 2),
        lambda x: torch.ones(3, 2, requires_grad=True) * 2,
        lambda x: (x > 100).float(),
    ],
    ids=["fresh", "parameter", "step"],
)
def test_constant_map_has_no_jacobian(constant):
    jacobian = Linearization(constant, torch.zeros(3, 2))
    assert jacobian.apply(torch.ones(3, 2)).count_nonzero() == 0
    assert jacobian.apply_transpose(torch.ones(3, 2)).count_nonzero() == 0


def test_hidden_dependence_is_an_error():
    with pytest.raises(ValueError, match="depends on its input but has no gradient"):
        Linearization(lambda x: 2 * x.detach(), torch.zeros(3, 2))


def test_unusable_arguments():
    with pytest.raises(TypeError, match=r"return a tensor \(got tuple\)"):
        Linearization(lambda x: (x, x), torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"keep the shape \(3, 2\).*got \(3, 4\)"):
        Linearization(nn.Linear(2, 4), torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"\[num_nodes, channels\].*got \(3, 2, 2\)"):
        Linearization(lambda x: x, torch.zeros(3, 2, 2))
    with pytest.raises(ValueError, match=r"at least one channel.*got \(3, 0\)"):
        Linearization(lambda x: x, torch.zeros(3, 0))
    with pytest.raises(ValueError, match="'point' to be finite"):
        Linearization(lambda x: x, torch.full((3, 2), torch.nan))


def match(values, expected):
    distance = (values.unsqueeze(-1) - expected.unsqueeze(0)).abs()
    return distance.min(1).values.max() < 1e-8 and distance.min(0).values.max() < 1e-8


def test_complete_subspace_gives_all_eigenvalues_of_each_graph():
    first, second = normal(0, 6, 6), normal(1, 4, 4)
    matrix = torch.block_diag(first, second)
    batch = torch.tensor([0, 0, 0, 2, 2])  # graph 1 has no nodes

    def operator(x):
        return (matrix @ x.flatten()).view_as(x)

    values, graphs = ritz_values(operator, normal(2, 5, 2), batch, 3, dimension=10)
    assert match(values[graphs == 0], torch.linalg.eigvals(first))
    assert match(values[graphs == 2], torch.linalg.eigvals(second))
    assert (graphs == 1).sum() == 0


def test_early_end_adds_no_eigenvalues():
    """A multiple of the identity has one eigenvalue, found in one step; zero is none of it."""
    batch = torch.zeros(4, dtype=torch.long)
    values, _ = ritz_values(lambda x: -3 * x, normal(0, 4, 2), batch, 1, dimension=8)
    assert torch.allclose(values, torch.tensor([-3.0], dtype=torch.complex128))


def test_zero_start_has_no_eigenvalues():
    batch = torch.tensor([0, 1])
    start = torch.tensor([[1.0], [0.0]])
    values, graphs = ritz_values(lambda x: 2 * x, start, batch, 2, dimension=2)
    assert values.tolist() == [2]
    assert graphs.tolist() == [0]


def test_outer_eigenvalues_come_first():
    diagonal = torch.cat([torch.linspace(-1, 1, 200), torch.tensor([-2.0, 3.0])]).double()
    batch = torch.zeros(202, dtype=torch.long)
    start = normal(0, 202, 1)
    values, _ = ritz_values(lambda x: diagonal.unsqueeze(-1) * x, start, batch, 1, dimension=20)
    assert torch.allclose(values.real.max(), torch.tensor(3.0).double())
    assert torch.allclose(values.real.min(), torch.tensor(-2.0).double())
    assert values.imag.abs().max() < 1e-12
