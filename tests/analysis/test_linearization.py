import pytest
import torch
from coefficient_strategies import normal
from torch import nn

from torch_grama.analysis.linearization import Linearization


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
