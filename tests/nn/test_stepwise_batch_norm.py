import pytest
import torch
from torch.nn import BatchNorm1d

from torch_grama.nn.norms import StepwiseBatchNorm

CHANNELS = 3


def pair(num_steps=1):
    ours, theirs = StepwiseBatchNorm(CHANNELS, num_steps), BatchNorm1d(CHANNELS)
    for parameter in ("weight", "bias"):
        value = torch.randn(CHANNELS)
        getattr(ours, parameter).data = value.clone()
        getattr(theirs, parameter).data = value.clone()
    return ours, theirs


def test_one_step_equals_batch_norm_in_training():
    ours, theirs = pair()
    x = 3 * torch.randn(6, CHANNELS) + 1

    for _ in range(3):
        assert torch.allclose(ours(x), theirs(x))
    assert torch.allclose(ours.running_mean[0], theirs.running_mean)
    assert torch.allclose(ours.running_var[0], theirs.running_var)


def test_one_step_equals_batch_norm_in_evaluation():
    ours, theirs = pair()
    x = 3 * torch.randn(6, CHANNELS) + 1
    ours(x), theirs(x)
    ours.eval(), theirs.eval()

    assert torch.allclose(ours(x), theirs(x))


def test_gradients_equal_those_of_batch_norm():
    ours, theirs = pair()
    x = torch.randn(6, CHANNELS)

    for module in (ours, theirs):
        module(x).pow(3).sum().backward()

    assert torch.allclose(ours.weight.grad, theirs.weight.grad)
    assert torch.allclose(ours.bias.grad, theirs.bias.grad)


def test_every_step_has_its_own_statistics():
    ours = StepwiseBatchNorm(CHANNELS, 2)
    first, second = torch.randn(6, CHANNELS), 5 * torch.randn(6, CHANNELS) + 2

    ours(first, 0), ours(second, 1)

    assert torch.allclose(ours.running_mean[0], 0.1 * first.mean(0))
    assert torch.allclose(ours.running_mean[1], 0.1 * second.mean(0))
    assert torch.allclose(ours.running_var[1], 0.9 + 0.1 * second.var(0))


def test_evaluation_reads_the_statistics_of_the_step():
    ours = StepwiseBatchNorm(CHANNELS, 2).eval()
    ours.running_mean[1] += 2
    x = torch.randn(6, CHANNELS)

    assert torch.allclose(ours(x, 1), ours(x - 2, 0))


def test_steps_beyond_the_last_use_the_last():
    ours = StepwiseBatchNorm(CHANNELS, 2).eval()
    ours.running_mean[1] += 2
    x = torch.randn(6, CHANNELS)

    assert torch.equal(ours(x, 7), ours(x, 1))


@pytest.mark.parametrize("num_rows", [0, 1])
def test_too_few_rows_for_a_variance_use_the_running_statistics(num_rows):
    ours, _ = pair()
    x = torch.randn(num_rows, CHANNELS)
    before = ours.running_mean.clone()

    out = ours(x)

    assert torch.equal(ours.running_mean, before)
    assert torch.equal(out, ours.eval()(x))


def test_reset():
    ours, _ = pair()
    ours(torch.randn(6, CHANNELS))

    ours.reset_parameters()

    fresh = StepwiseBatchNorm(CHANNELS).state_dict()
    for name, value in ours.state_dict().items():
        assert torch.equal(value, fresh[name])


def test_repr():
    assert str(StepwiseBatchNorm(8, 4)) == "StepwiseBatchNorm(8, num_steps=4)"
