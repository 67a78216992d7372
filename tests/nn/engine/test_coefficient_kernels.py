"""The kernels of the coefficients equal their torch twins, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torch_grama.nn import SelectiveCoefficients
from torch_grama.nn.coefficients import PACE
from torch_grama.nn.engine import closed_form, kernels

# p, q, L, R: orders as long as the sequence and shorter, one element, more steps than elements
SIZES = [(1, 1, 1, 1), (3, 3, 3, 3), (2, 4, 5, 3), (4, 1, 4, 7), (17, 17, 17, 2)]
folds = pytest.mark.parametrize("folds", [False, True], ids=["residuals", "differences"])


def draw(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def both_ways(run, leaves: list[Tensor], monkeypatch) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and gradients through the kernels and through torch."""
    results = []
    for interprets in ("1", "0"):
        monkeypatch.setenv("TRITON_INTERPRET", interprets)
        assert (kernels.coefficient_kernels(leaves[0]) is not None) == (interprets == "1")
        outputs = [out for out in run() if out is not None]
        loss = sum((out * draw(*out.size(), seed=1 + i)).sum() for i, out in enumerate(outputs))
        gradients = torch.autograd.grad(loss, leaves)
        results.append([*(out.detach() for out in outputs), *gradients])
    return results[0], results[1]


def assert_near(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            a.double(), b.double(), rtol=1e-5, atol=1e-5 * float(b.abs().max() + 0.1)
        )


@pytest.mark.no_cover
@pytest.mark.usefixtures("_interpreter")
@folds
@pytest.mark.parametrize("weights", ["step_weights", "power_weights"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_closed_form(sizes, weights, folds, monkeypatch) -> None:
    ar_order, ma_order, length, steps = sizes
    phi = (draw(2, ar_order) / ar_order).requires_grad_()
    theta = (draw(2, ma_order, seed=9) / ma_order).requires_grad_()

    def run() -> tuple[Tensor | None, ...]:
        return getattr(closed_form, weights)(phi, theta, length, steps, folds)

    assert_near(*both_ways(run, [phi, theta], monkeypatch))


@pytest.mark.usefixtures("_interpreter")
def test_closed_form_without_the_gradient_of_the_response(monkeypatch) -> None:
    phi, theta = draw(1, 3).requires_grad_(), draw(1, 3, seed=9).requires_grad_()
    for weights in (closed_form.step_weights, closed_form.power_weights):
        run = lambda weights=weights: weights(phi, theta, 3, 4, False)[:1]  # noqa: E731
        assert_near(*both_ways(run, [phi, theta], monkeypatch))


# what the scores of a side are near to: well outside the guard, inside it with sum|c| at work, and
# so small that the constant takes its place
SCORES = {"free": None, "inside": (0.5, -0.4), "tiny": (0.02, -0.015), "outside": (0.9, 0.8)}


@pytest.mark.no_cover
@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize(
    ("channels", "width", "p", "q", "scores", "folds"),
    [
        (6, 16, 5, 5, "free", False),
        (6, 3, 1, 1, "free", True),
        (20, 5, 3, 2, "free", False),
        (6, 16, 1, 4, "free", True),
        (6, 4, 5, 2, "free", True),
        (6, 4, 2, 2, "inside", False),
        (6, 4, 3, 2, "inside", True),
        (6, 4, 2, 3, "tiny", False),
        (6, 4, 2, 2, "tiny", True),
        (6, 4, 2, 2, "outside", False),
        (6, 4, 2, 2, "outside", True),
    ],
)
def test_selection(channels, width, p, q, scores, folds, monkeypatch) -> None:
    torch.manual_seed(0)
    module = SelectiveCoefficients(channels, p, q, width)
    torch.nn.init.normal_(module.key_weight, std=0.5 if scores == "free" else 1e-3)
    if SCORES[scores] is not None:
        module.lag_bias.data.zero_()
        module.lag_bias.data[:, :2] = torch.tensor(SCORES[scores]) / PACE
    states = draw(3, 5, channels).requires_grad_()
    residuals = None if folds else draw(3, 5, channels, seed=5).requires_grad_()
    leaves = [states, *([] if residuals is None else [residuals]), *module.parameters()]
    assert_near(*both_ways(lambda: module(states, residuals), leaves, monkeypatch))


def test_scores_lie_where_the_cases_say() -> None:
    for name, expected in {"inside": True, "tiny": True, "outside": False}.items():
        c = torch.tensor(SCORES[name]).tanh()
        assert bool(c.sum().abs() < c.abs().sum().clamp(min=0.1) / 3) is expected
        assert bool(c.abs().sum() < 0.1) is (name == "tiny")


@pytest.mark.usefixtures("_interpreter")
def test_a_graph_without_nodes(monkeypatch) -> None:
    module = SelectiveCoefficients(6, 3, 2, 4)
    torch.nn.init.normal_(module.key_weight)
    states = draw(2, 3, 6)
    states[1] = 0
    states.requires_grad_()
    ours, theirs = both_ways(lambda: module(states), [states], monkeypatch)
    assert_near(ours, theirs)
    assert all(torch.isfinite(part).all() for part in ours)


@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize("constraint", ["l1", "softmax", "none"])
def test_other_constraints_go_through_torch(constraint) -> None:
    module = SelectiveCoefficients(6, 3, 2, constraint=constraint)
    assert SelectiveCoefficients(6, 3, 2)._runs_on_device(draw(2, 3, 6), None)
    assert not module._runs_on_device(draw(2, 3, 6), None)


@pytest.mark.usefixtures("_interpreter")
def test_float64_and_long_sequences_go_through_torch() -> None:
    assert kernels.coefficient_kernels(draw(2, 3).double()) is None
    assert not closed_form._runs_on_device(draw(1, 3), draw(1, 3), 3, 1000)
    assert closed_form._runs_on_device(draw(1, 3), draw(1, 3), 3, 50)
