"""Metrics against scikit-learn and numpy, over batches of unequal size."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score, roc_auc_score

from torch_grama.training import build_metric

SIZES = [5, 1, 17, 30, 2]  # unequal, so that a mean of batch means is another number
REFERENCES = {"roc_auc": roc_auc_score, "average_precision": average_precision_score}


def feed(metric, out, y, weight=None):
    """The value over all batches."""
    metric.reset()
    start = 0
    for size in SIZES:
        part = slice(start, start + size)
        metric.update(out[part], y[part], None if weight is None else weight[part])
        start += size
    assert start == len(y)
    return float(metric.compute())


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def macro(name, scores, labels):
    """The mean of scikit-learn's value over the labels that have both classes."""
    values = []
    for score, label in zip(scores.T, labels.T, strict=True):
        known = ~np.isnan(label)
        if len(set(label[known])) == 2:
            values.append(REFERENCES[name](label[known], score[known]))
    return np.mean(values)


def test_accuracy_of_classes():
    out, y = draw(55, 4), draw(55, 4, seed=1).argmax(1)
    value = feed(build_metric("accuracy", "classification", 4), out, y)
    assert value == pytest.approx(accuracy_score(y, out.argmax(1)), abs=1e-12)


def test_accuracy_of_one_logit_and_of_labels():
    out = draw(55, 3)
    y = (draw(55, 3, seed=1) > 0).float()
    y[3, 1] = math.nan
    known = ~y.isnan()
    expected = accuracy_score(y[known], (out > 0)[known])
    assert feed(build_metric("accuracy", "multilabel", 3), out, y) == pytest.approx(expected)
    one = feed(build_metric("accuracy", "classification", 1), out[:, :1], y[:, 0].long())
    assert one == pytest.approx(accuracy_score(y[:, 0], out[:, 0] > 0))


@pytest.mark.parametrize("name", list(REFERENCES))
def test_ranking_of_labels_is_macro_over_known_labels(name):
    out, y = draw(55, 4), (draw(55, 4, seed=1) > 0.5).float()
    y[::7, 0] = math.nan
    y[:, 1] = 0.0  # a label with a single class is skipped
    y[:, 2] = math.nan  # and one that nobody has
    value = feed(build_metric(name, "multilabel", 4), out, y)
    assert value == pytest.approx(macro(name, out.numpy(), y.numpy()), abs=1e-6)


@pytest.mark.parametrize("name", list(REFERENCES))
def test_ranking_of_two_classes_reads_the_score_of_class_one(name):
    out, y = 30 * draw(55, 2), (draw(55, seed=1) > 0).long()
    value = feed(build_metric(name, "classification", 2), out, y)
    expected = REFERENCES[name](y, (out[:, 1] - out[:, 0]))
    assert value == pytest.approx(expected, abs=1e-6)
    single = feed(build_metric(name, "classification", 1), out[:, 1:] - out[:, :1], y)
    assert single == pytest.approx(expected, abs=1e-6)


def test_ranking_of_three_classes_is_each_against_the_rest():
    out, y = draw(55, 3), draw(55, 3, seed=1).argmax(1)
    value = feed(build_metric("roc_auc", "classification", 3), out, y)
    expected = roc_auc_score(y, out.softmax(1).double().numpy(), multi_class="ovr")
    assert value == pytest.approx(expected, abs=1e-5)


def test_far_scores_are_not_squeezed_into_ties():
    metric = build_metric("roc_auc", "multilabel", 1)
    metric.update(torch.tensor([[900.0], [1000.0], [-5.0]]), torch.tensor([[1.0], [0.0], [0.0]]))
    assert float(metric.compute()) == pytest.approx(0.5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30))
@pytest.mark.parametrize("name", list(REFERENCES))
def test_ranking_with_ties(name, samples):
    scores = torch.tensor([[float(score)] for score, _ in samples])
    labels = torch.tensor([[float(label)] for _, label in samples])
    metric = build_metric(name, "multilabel", 1)
    metric.update(scores, labels)
    value = float(metric.compute())
    if len({label for _, label in samples}) < 2:
        assert math.isnan(value)
    else:
        assert value == pytest.approx(REFERENCES[name](labels, scores), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("mae", lambda error: np.abs(error).mean()),
        ("mse", lambda error: np.square(error).mean()),
        ("log10_mse", lambda error: np.log10(np.square(error).mean())),
    ],
)
def test_errors_of_quantities(name, reference):
    out, y = draw(55, 3), draw(55, 3, seed=1)
    y[2, 1] = math.nan
    error = (out.double() - y.double()).numpy()
    value = feed(build_metric(name, "regression", 3), out, y)
    assert value == pytest.approx(reference(error[~np.isnan(error)]), abs=1e-9)


def test_weights_let_graphs_count_the_same():
    out, y, weight = draw(55, 1), draw(55, 1, seed=1), draw(55, seed=2).abs()
    value = feed(build_metric("mse", "regression", 1), out, y, weight)
    error = (out.double() - y.double()).square().numpy()[:, 0]
    assert value == pytest.approx(np.average(error, weights=weight.numpy()), abs=1e-9)


@pytest.mark.parametrize("name", ["roc_auc", "accuracy"])
def test_weight_zero_leaves_a_target_out(name):
    out, y = draw(55, 2), (draw(55, seed=1) > 0).long()
    weight = torch.ones(55)
    weight[::3] = 0.0
    kept = weight > 0
    metric = build_metric(name, "classification", 2)
    value = feed(metric, out, y, weight)
    metric.reset()
    metric.update(out[kept], y[kept])
    assert value == pytest.approx(float(metric.compute()))


def test_targets_of_one_dimension_are_a_column_not_a_row():
    out, y = draw(55, 1), draw(55, seed=1)
    value = feed(build_metric("mse", "forecast", 1), out, y)
    assert value == pytest.approx(float((out[:, 0].double() - y.double()).square().mean()))


def test_metrics_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="metric of classes for classification"):
        build_metric("mae", "classification", 2)
    with pytest.raises(ValueError, match="metric of quantities for regression"):
        build_metric("roc_auc", "regression", 1)
    with pytest.raises(ValueError, match=r"'roc_auc', .*got 'rocauc'"):
        build_metric("rocauc", "classification", 2)
