"""Losses against torch's own, as sums and weights."""

import math

import pytest
import torch
import torch.nn.functional as F
from training_cases import graph_task, node_regression_task, node_task

from torch_grama.training import balanced_class_weights, build_loss


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("kind", "metric", "outputs", "name"),
    [
        ("classification", "accuracy", 3, "cross_entropy"),
        ("classification", "roc_auc", 2, "cross_entropy"),
        ("classification", "roc_auc", 1, "bce"),
        ("multilabel", "average_precision", 10, "bce"),
        ("regression", "mae", 11, "l1"),
        ("regression", "log10_mse", 1, "mse"),
        ("forecast", "mse", 1, "mse"),
    ],
)
def test_loss_belongs_to_the_task(kind, metric, outputs, name):
    assert build_loss(kind, metric, outputs).name == name


def test_cross_entropy_with_and_without_class_weights():
    out, y = draw(20, 3), draw(20, 3, seed=1).argmax(1)
    total, weight = build_loss("classification", "accuracy", 3)(out, y)
    assert torch.allclose(total / weight, F.cross_entropy(out, y))
    weights = [1.0, 2.0, 0.5]
    weighted = build_loss("classification", "accuracy", 3, class_weights=weights)
    total, weight = weighted(out, y)
    assert torch.allclose(total / weight, F.cross_entropy(out, y, torch.tensor(weights)))
    assert str(weighted) == "TaskLoss(cross_entropy, weighted)"


def test_binary_cross_entropy_ignores_missing_labels_in_value_and_gradient():
    out, y = draw(20, 4).requires_grad_(), (draw(20, 4, seed=1) > 0).float()
    y[::3, 1] = math.nan
    total, weight = build_loss("multilabel", "average_precision", 4)(out, y)
    known = ~y.isnan()
    expected = F.binary_cross_entropy_with_logits(out[known], y[known])
    assert torch.allclose(total / weight, expected)
    (total / weight).backward()
    assert bool((out.grad[~known] == 0).all())
    assert bool(out.grad.isfinite().all())


@pytest.mark.parametrize(("metric", "reference"), [("mae", F.l1_loss), ("mse", F.mse_loss)])
def test_errors_of_quantities(metric, reference):
    out, y = draw(20, 3), draw(20, 3, seed=1)
    total, weight = build_loss("regression", metric, 3)(out, y)
    assert torch.allclose(total / weight, reference(out, y))


def test_weights_of_targets():
    out, y, weights = draw(20, 1), draw(20, 1, seed=1), draw(20, seed=2).abs()
    total, weight = build_loss("regression", "mse", 1)(out, y, weights)
    expected = ((out - y).square()[:, 0] * weights).sum() / weights.sum()
    assert torch.allclose(total / weight, expected)


def test_a_row_of_targets_is_never_broadcast():
    out, y = draw(20, 1), draw(20, seed=1)
    total, weight = build_loss("forecast", "mse", 1)(out, y)
    assert torch.allclose(total / weight, (out[:, 0] - y).square().mean())
    with pytest.raises(ValueError, match=r"shape of the targets \[20\] \(got \[20, 2\]\)"):
        build_loss("regression", "mse", 2)(draw(20, 2), y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("regression", "mse", 1, "bce"), "Expected a 'loss' for regression with 1"),
        (("multilabel", "roc_auc", 3, "cross_entropy"), "leave it out"),
        (("regression", "mae", 1, "l2"), "'l1', .*got 'l2'"),
        (("classification", "accuracy", 3, None, [1.0, 2.0]), "3 numbers from 0 on"),
        (("regression", "mae", 1, None, [1.0]), "only for classes or labels"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_loss(*arguments)


def test_balanced_weights_let_classes_count_the_same():
    data = node_task()
    weights = balanced_class_weights(data)
    labels = data.graphs[0].y[data.folds[0].train]
    counts = torch.bincount(labels, minlength=3)
    assert torch.allclose(weights * counts, torch.full((3,), len(labels) / 3))
    assert balanced_class_weights(graph_task()).size() == (2,)
    with pytest.raises(ValueError, match="got regression with 1 outputs"):
        balanced_class_weights(node_regression_task())


def test_balanced_weights_count_judged_nodes_alone():
    data = node_task()
    graph = data.graphs[0]
    counted = data.folds[0].train & (torch.arange(40) % 2 == 0)
    graph.label_mask = counted
    judged = balanced_class_weights(data)
    graph.y[~counted] = -1  # what the others hold is not read
    assert torch.equal(balanced_class_weights(data), judged)
    counts = torch.bincount(graph.y[counted], minlength=3)
    assert torch.allclose(judged * counts, counted.sum() / 3)
