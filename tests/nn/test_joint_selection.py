import pytest
import torch

from torch_grama.nn import NaiveCoefficients, SelectiveCoefficients
from torch_grama.nn.engine.selection import select_jointly

CHANNELS = 4


def pooled(scale=1.0):
    return (scale * torch.randn(2, 3, 5, CHANNELS, dtype=torch.float64)).unbind(0)


def selective(order, bias=None, **options):
    module = SelectiveCoefficients(CHANNELS, order, **options).double()
    torch.nn.init.normal_(module.key_weight)
    if bias is not None:
        module.lag_bias.data = torch.tensor(bias, dtype=torch.float64)
    return module


def naive(order):
    return NaiveCoefficients(order).double()


PAIRS = {
    "of equal order": lambda: (selective(3), selective(3)),
    "of several heads": lambda: (selective(3, heads=2), selective(3, heads=2)),
    "of order one": lambda: (selective(1), selective(1)),
    "as long as the sequence": lambda: (selective(5), selective(5)),
    # scores that add up to about zero, inside the guard and outside
    "inside the guard": lambda: (selective(2, [0.5, -0.5]), selective(2, [0.51, -0.5])),
    "one inside, one outside": lambda: (selective(2, [0.5, -0.5]), selective(2, [1.0, 1.0])),
    "with a wide guard": lambda: (selective(3, guard=0.9), selective(3, guard=0.9)),
    "of different orders": lambda: (selective(3), selective(2)),
    "of different guards": lambda: (selective(3, guard=0.2), selective(3)),
    "of different norms": lambda: (selective(3, normalization="l1"), selective(3)),
    "naive": lambda: (naive(3), naive(2)),
}


@pytest.mark.parametrize("scale", [0.01, 1.0])
@pytest.mark.parametrize("name", PAIRS)
def test_equals_the_two_modules_in_value_and_gradient(name, scale):
    pair = PAIRS[name]()
    sequences = [part.requires_grad_() for part in pooled(scale)]
    weights = torch.randn(2, 3, 5, dtype=torch.float64)
    leaves = [*sequences, *pair[0].parameters(), *pair[1].parameters()]

    def gradients(results):
        loss = sum(
            (w[: r.size(0), : r.size(1)] * r).sum() for w, r in zip(weights, results, strict=True)
        )
        return torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)

    expected = [module.from_pooled(part) for module, part in zip(pair, sequences, strict=True)]
    got = select_jointly(*pair, *sequences)

    for a, b in zip(got, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-12)
    for a, b in zip(gradients(got), gradients(expected), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bias", [[1.0, 1.0], [0.5, -0.5]], ids=["outside", "inside the guard"])
def test_gradcheck(bias):
    pair = [selective(2, bias), selective(2, bias)]
    for module in pair:
        module.key_weight.data.mul_(0.01)
    sequences = [part[:, :3].requires_grad_() for part in pooled()]

    assert torch.autograd.gradcheck(lambda a, b: select_jointly(*pair, a, b), sequences)


def test_only_one_of_the_two_is_used():
    pair = [selective(2), selective(2)]
    sequences = [part.requires_grad_() for part in pooled()]

    select_jointly(*pair, *sequences)[0].square().sum().backward()

    assert sequences[0].grad.abs().sum() > 0
    assert sequences[1].grad.abs().sum() == 0


def test_half_precision_means_are_read_in_the_precision_of_the_weights():
    pair = [SelectiveCoefficients(CHANNELS, 2) for _ in range(2)]
    half = [part.bfloat16() for part in pooled()]

    with torch.autocast("cpu", dtype=torch.bfloat16):
        phi, theta = select_jointly(*pair, *half)

    assert phi.dtype == theta.dtype == torch.float32
    assert torch.allclose(phi, pair[0].from_pooled(half[0]))
