import pytest
import torch
from torch.nn import BatchNorm1d, Linear, Sequential

from torch_grama.nn.block_checkpoint import run_again_for_gradients


@pytest.fixture
def module(seed):
    return Sequential(Linear(3, 3), BatchNorm1d(3), Linear(3, 1)).double()


@pytest.fixture
def x(seed):
    return torch.randn(5, 3, dtype=torch.float64)


def test_runs_once_forward_and_once_more_backward(module, x):
    calls = []

    def run(x):
        calls.append(1)
        return module(x)

    out = run_again_for_gradients(module, run, x)
    assert len(calls) == 1
    out.sum().backward()
    assert len(calls) == 2


def test_value_and_gradient_are_those_of_a_plain_run(module, x):
    plain = module(x)
    expected = torch.autograd.grad(plain.square().sum(), list(module.parameters()))

    out = run_again_for_gradients(module, module, x)
    got = torch.autograd.grad(out.square().sum(), list(module.parameters()))

    assert torch.allclose(out, plain)
    for a, b in zip(got, expected, strict=True):
        assert torch.allclose(a, b)


def test_running_statistics_count_the_batch_once(module, x):
    run_again_for_gradients(module, module, x).sum().backward()

    norm = module[1]
    assert norm.num_batches_tracked == 1
    assert torch.allclose(norm.running_mean, 0.1 * module[0](x).mean(0))


def test_statistics_survive_a_gradient_that_fails(module, x):
    out = run_again_for_gradients(module, module, x)
    before = module[1].running_mean.clone()
    module[2].register_forward_pre_hook(lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        out.sum().backward()

    assert torch.equal(module[1].running_mean, before)
