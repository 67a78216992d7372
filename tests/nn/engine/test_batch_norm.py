"""Batch norm over real rows: torch's own on those rows, in torch and through Triton."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from torch_grama.nn.engine.batch_norm import batch_norm
from torch_grama.nn.norms import StepwiseBatchNorm
from torch_grama.nn.padding import Padding, PaddingError, padded

HUGE = 1e30


@pytest.fixture(params=["torch", "triton"])
def way(request):
    """Which code computes: the type that the one or the other takes."""
    if request.param == "torch":
        return torch.float64
    request.getfixturevalue("_interpreter")
    return torch.float32


def make(rows, channels, dtype, offset=0.0):
    x = (torch.randn(rows, channels) + offset).to(dtype)
    weight, bias = torch.randn(2, channels).to(dtype)
    mean, var = torch.randn(channels).to(dtype), torch.rand(channels).to(dtype)
    return x, weight, bias, mean, var


def run(function, x, weight, bias, onto=None):
    """The output, and gradients of a weighted sum of it."""
    given = [t.detach().requires_grad_() for t in (x, weight, bias, onto) if t is not None]
    out = function(*given)
    factors = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * factors).sum(), given)]


def normed(mean, var, count):
    """The norm with these statistics, as a function of what is differentiated."""
    count = None if count is None else torch.tensor(count)
    return lambda x, w, b, onto=None: batch_norm(x, mean, var, w, b, 0.3, 1e-3, count, onto)


def judged(x, weight, bias, mean, var, count, onto=None):
    """The same by torch's own function in float64, on the real rows alone."""
    real = torch.arange(x.size(0)) < count
    given = [t.double() for t in (x[real], weight, bias)]
    running = mean.double().clone(), var.double().clone()

    def norm(x, weight, bias, onto=None):
        out = F.batch_norm(x, *running, weight, bias, True, 0.3, 1e-3)
        return out if onto is None else onto + out.relu()

    if onto is not None:
        given.append(onto[real].double())
    factors = torch.linspace(-1, 2, x.numel(), dtype=torch.float64).view_as(x)[real]
    given = [t.detach().requires_grad_() for t in given]
    out = norm(*given)
    return [out.detach(), *torch.autograd.grad((out * factors).sum(), given)], running


def assert_close(ours, judge):
    # of two rows, gradients are differences of numbers of size one that are almost equal
    scale = max(float(judge.abs().max()), 1.0)
    torch.testing.assert_close(ours.double(), judge, rtol=2e-5, atol=5e-6 * scale)


class TestRealRows:
    @pytest.mark.parametrize(
        ("rows", "count", "channels"),
        [(2, 2, 5), (9, 4, 5), (9, 9, 1), (150, 70, 200), (150, None, 5)],
    )
    @pytest.mark.parametrize("adds", [False, True])
    def test_are_normed_as_if_alone(self, way, channels, rows, count, adds):
        x, weight, bias, mean, var = make(rows, channels, way)
        onto = torch.randn(rows, channels).to(way) if adds else None
        real = rows if count is None else count
        if count is not None:
            x[count:] = HUGE
        expected, running = judged(x, weight, bias, mean, var, real, onto)
        ours = run(normed(mean, var, count), x, weight, bias, onto)
        assert ours[0].dtype == way
        assert_close(ours[0][:real], expected[0])
        assert_close(ours[1][:real], expected[1])
        for a, b in zip(ours[2:4], expected[2:4], strict=True):
            assert_close(a, b)
        assert_close(mean, running[0])
        assert_close(var, running[1])
        # padding: zero, or what it was added to
        assert torch.equal(
            ours[0][real:], torch.zeros_like(x[real:]) if onto is None else onto[real:]
        )
        assert not ours[1][real:].any()

    def test_far_from_zero(self, way):
        x, weight, bias, mean, var = make(500, 3, way, offset=1000)
        x[0] += 1000
        expected, running = judged(x, weight, bias, mean, var, 500)
        ours = run(normed(mean, var, 500), x, weight, bias)
        for a, b in zip(ours, expected, strict=True):
            scale = float(b.abs().max())
            torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-4 * scale)
        assert_close(var, running[1])

    def test_one_row_moves_the_mean_alone(self, way):
        x, weight, bias, mean, var = make(4, 3, way)
        before = mean.clone(), var.clone()
        out = batch_norm(x, mean, var, weight, bias, 0.5, 1e-5, torch.tensor(1))
        torch.testing.assert_close(out[0], bias)
        torch.testing.assert_close(mean, (before[0] + x[0]) / 2)
        torch.testing.assert_close(var, before[1] / 2)

    @pytest.mark.parametrize("affine", [True, False])
    def test_without_running_statistics(self, way, affine):
        x, weight, bias, _, _ = make(9, 3, way)
        if not affine:
            weight = bias = None
        out = batch_norm(x, None, None, weight, bias, 0.1, 1e-5, torch.tensor(6))
        expected = F.batch_norm(x[:6], None, None, weight, bias, True)
        torch.testing.assert_close(out[:6], expected)

    def test_of_one_shared_row_to_add_to(self, way):
        x, weight, bias, mean, var = make(9, 3, way)
        row = torch.randn(3).to(way).requires_grad_()
        out = batch_norm(x, mean, var, weight, bias, 0.1, 1e-5, onto=row.expand(9, -1))
        out.sum().backward()
        plain = F.batch_norm(x, None, None, weight, bias, True).relu()
        torch.testing.assert_close(out, row + plain)
        assert row.grad.tolist() == [9, 9, 9]

    def test_not_contiguous(self, way):
        x, weight, bias, mean, var = make(3, 9, way)
        weight, bias, mean, var = (t[:3] for t in (weight, bias, mean, var))
        out = batch_norm(x.t(), mean, var, weight, bias, 0.1, 1e-5, torch.tensor(5))
        torch.testing.assert_close(out[:5], F.batch_norm(x.t()[:5], None, None, weight, bias, True))

    @pytest.mark.parametrize("count", [None, 6])
    @pytest.mark.parametrize("adds", [False, True])
    def test_second_derivatives(self, way, count, adds):
        x, weight, bias, _, _ = make(9, 3, way)
        number = None if count is None else torch.tensor(count)

        def second(given, count):
            given = [t.detach().requires_grad_() for t in given]
            onto = torch.ones_like(given[0]) if adds else None
            out = batch_norm(given[0], None, None, *given[1:], 0.1, 1e-5, count, onto)
            first = torch.autograd.grad(out.pow(3).sum(), given, create_graph=True)
            return torch.autograd.grad(sum(g.pow(2).sum() for g in first), given)

        ours = second((x, weight, bias), number)
        judge = second((x.double(), weight.double(), bias.double()), number)
        for a, b in zip(ours, judge, strict=True):
            scale = float(b.abs().max())
            torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-4 * scale)


@pytest.mark.usefixtures("_interpreter")
def test_half_precision_has_float32_statistics():
    x, weight, bias, mean, var = make(300, 3, torch.float32, offset=20)
    halved = x.bfloat16().requires_grad_()
    onto = torch.randn(300, 3)
    out = batch_norm(halved, mean, var, weight, bias, 1.0, 1e-5)
    added = batch_norm(halved, None, None, weight, bias, 1.0, 1e-5, onto=onto)
    out.float().pow(2).sum().backward()
    expected = F.batch_norm(halved.float(), None, None, weight, bias, True)
    assert out.dtype == halved.grad.dtype == torch.bfloat16
    assert added.dtype == torch.float32
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(added, onto + expected.relu(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(mean, halved.detach().float().mean(0))
    torch.testing.assert_close(var, halved.detach().float().var(0))


def test_gradcheck():
    x, weight, bias, _, _ = make(6, 3, torch.float64)
    onto = torch.ones_like(x)

    def run(x, weight, bias):
        return batch_norm(x, None, None, weight, bias, 0.1, 1e-5, torch.tensor(4), onto)

    given = [t.requires_grad_() for t in (x, weight, bias)]
    assert torch.autograd.gradcheck(run, given)
    assert torch.autograd.gradgradcheck(run, given)


class TestStepwise:
    """The norm of a layer, told of padding by the batch that is being worked on."""

    def test_counts_real_rows(self, way):
        norm = StepwiseBatchNorm(3, 2).to(way)
        alone = StepwiseBatchNorm(3, 2).to(way)
        x = torch.randn(9, 3).to(way)
        padding = Padding(9, 5, 2, torch.tensor([6, 4, 1]), 9)
        with padded(padding):
            nodes, edges = norm(x, 1), norm(x[:5], 0, x[4:])
        torch.testing.assert_close(nodes[:6], alone(x[:6], 1))
        torch.testing.assert_close(edges[:4], alone(x[:4], 0, x[4:8]))
        assert torch.equal(nodes[6:], torch.zeros(3, 3).to(way))
        assert torch.equal(edges[4], x[8])
        torch.testing.assert_close(norm.running_mean, alone.running_mean)
        torch.testing.assert_close(norm.running_var, alone.running_var)

    def test_rows_of_unknown_kind_are_an_error(self):
        padding = Padding(9, 5, 2, torch.tensor([6, 4, 1]), 9)
        with padded(padding), pytest.raises(PaddingError, match="nodes, edges or graphs"):
            StepwiseBatchNorm(3)(torch.randn(7, 3))
