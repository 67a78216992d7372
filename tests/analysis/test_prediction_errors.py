import dataclasses
import json
import math
import sys

import pytest
import torch
from analysis_graphs import graph, path_edges
from coefficient_strategies import quick, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from torch_grama.analysis import (
    Predictions,
    class_errors,
    errors_by_distance,
    label_errors,
    regression_errors,
    summarize_errors,
)

few = settings(quick, max_examples=15)
NAN = math.nan


@few
@given(seeds, st.integers(1, 40), st.integers(2, 5))
def test_confusion_equals_scikit_learn(seed, num_examples, num_classes):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(num_examples, num_classes, generator=generator)
    target = torch.randint(num_classes, (num_examples,), generator=generator)
    found = class_errors(scores, target)
    guess, labels = scores.argmax(1), range(num_classes)
    assert found.confusion == metrics.confusion_matrix(target, guess, labels=labels).tolist()
    assert found.accuracy == pytest.approx(metrics.accuracy_score(target, guess), rel=1e-4)
    options = {"labels": labels, "average": None, "zero_division": math.nan}
    recall = metrics.recall_score(target, guess, **options)
    precision = metrics.precision_score(target, guess, **options)
    for ours, theirs in ((found.recall, recall), (found.precision, precision)):
        numbers = [math.nan if value is None else value for value in ours]
        assert numbers == pytest.approx(list(theirs), rel=1e-4, nan_ok=True)
    present = [value for value in found.recall if value is not None]
    assert found.balanced_accuracy == pytest.approx(sum(present) / len(present), rel=1e-3)


def test_one_score_and_unknown_targets():
    scores = torch.tensor([[2.0], [-1.0], [3.0], [1.0]])
    found = class_errors(scores, torch.tensor([[1], [0], [0], [-1]]))
    assert found.confusion == [[1, 1], [0, 1]]
    assert found.support == [2, 1]


@few
@given(seeds, st.integers(1, 30), st.integers(1, 4))
def test_label_counts_add_up(seed, num_examples, num_labels):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(num_examples, num_labels, generator=generator)
    target = torch.randint(2, (num_examples, num_labels), generator=generator).float()
    found = label_errors(scores, target)
    for k in range(num_labels):
        (tn, fp), (fn, tp) = metrics.confusion_matrix(target[:, k], scores[:, k] > 0, labels=[0, 1])
        assert (found.true_negative[k], found.false_positive[k]) == (tn, fp)
        assert (found.false_negative[k], found.true_positive[k]) == (fn, tp)
    target[0, 0] = torch.nan
    less = label_errors(scores, target)
    total = (less.true_positive, less.false_positive, less.false_negative, less.true_negative)
    assert sum(counts[0] for counts in total) == num_examples - 1


def test_regression_equals_scikit_learn(monkeypatch):
    monkeypatch.setattr("torch_grama.analysis.prediction_errors._MAX_EXAMPLES", 20)
    torch.manual_seed(0)
    target = torch.randn(60, 2)
    prediction = target + 0.3 * torch.randn(60, 2)
    found = regression_errors(prediction, target)
    for k in range(2):
        pair = (target[:, k], prediction[:, k])
        assert found.mae[k] == pytest.approx(metrics.mean_absolute_error(*pair), rel=1e-4)
        assert found.rmse[k] == pytest.approx(metrics.mean_squared_error(*pair) ** 0.5, rel=1e-4)
        assert found.r2[k] == pytest.approx(metrics.r2_score(*pair), rel=1e-4)
    assert len(found.predicted) == len(found.true) == 20
    assert found.num_examples == 60
    # every pair of the picture is one of the examples
    examples = torch.cat([target, prediction], dim=1)
    for true, predicted in zip(found.true, found.predicted, strict=True):
        distance = (examples - torch.tensor(true + predicted)).abs().amax(1)
        assert distance.min() < 1e-3
    assert regression_errors(prediction, target) == found
    assert regression_errors(prediction, target, seed=1) != found


def test_quantities_that_are_not_known_are_left_out():
    target = torch.tensor([[1.0, NAN], [2.0, 4.0], [NAN, 3.0]])
    found = regression_errors(torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]), target)
    assert (found.mae, found.num_examples) == ([0.5, 1.0], 3)
    assert (found.predicted, found.true) == ([[3.0, 4.0]], [[2.0, 4.0]])


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("classification", torch.tensor([1, -1, 0])),
        ("multilabel", torch.tensor([[0.0, NAN], [NAN, NAN], [1.0, 0.0]])),
        ("regression", torch.tensor([[0.0, NAN], [NAN, NAN], [1.0, -1.0]])),
    ],
)
def test_nodes_without_a_target_are_at_no_distance(kind, target):
    prediction = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, -1.0]])
    anchors = torch.tensor([True, False, False])
    found = summarize_errors(Predictions(kind, prediction, target, None, anchors), [graph(3)])
    assert found.by_distance.error == [1.0, None, 0.0]
    assert found.by_distance.num_nodes == [1, 0, 1]


def test_constant_targets_have_no_explained_variance():
    found = regression_errors(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    assert found.r2 == [None]
    assert found.mae == [0.5]
    json.dumps(dataclasses.asdict(found), allow_nan=False)


def test_errors_by_distance_on_a_path(monkeypatch):
    error = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    anchors = torch.tensor([True, False, False, False, False, False])
    found = errors_by_distance(error, path_edges(5), anchors)
    assert found.error == [0.0, 1.0, 0.0, 1.0, 1.0]
    assert found.num_nodes == [1, 1, 1, 1, 1]
    assert (found.unreachable_error, found.num_unreachable) == (1.0, 1)

    monkeypatch.setattr("torch_grama.analysis.prediction_errors._MAX_HOPS", 2)
    short = errors_by_distance(error, path_edges(5), anchors)
    assert short.error == [0.0, 1.0, pytest.approx(2 / 3, rel=1e-4)]
    monkeypatch.undo()
    some = errors_by_distance(error, path_edges(5), anchors, evaluated=error.bool())
    assert some.error == [None, 1.0, None, 1.0, 1.0]

    # messages from the anchor arrive along the edges, and not against them
    one_way = torch.stack([torch.arange(4), torch.arange(1, 5)])
    assert errors_by_distance(error, one_way, anchors).num_nodes == [1, 1, 1, 1, 1]
    assert errors_by_distance(error, one_way.flip(0), anchors).num_unreachable == 5
    nobody = errors_by_distance(error, path_edges(5), ~anchors & anchors)
    assert (nobody.error, nobody.num_unreachable) == ([], 6)


def test_unusable_arguments():
    with pytest.raises(ValueError, match=r"shape \[2, num_classes\], one row per target"):
        class_errors(torch.ones(3, 2), torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"classes below 2 \(got torch.int64 up to 2\)"):
        class_errors(torch.ones(1, 2), torch.tensor([2]))
    with pytest.raises(ValueError, match=r"one shape .*got \(2, 1\) and \(2,\)"):
        regression_errors(torch.ones(2, 1), torch.ones(2))
    with pytest.raises(ValueError, match="at least one example"):
        regression_errors(torch.ones(0), torch.ones(0))
    with pytest.raises(ValueError, match=r"'error' of shape \[num_nodes\]"):
        errors_by_distance(torch.ones(2, 1), path_edges(2), torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"'evaluated' to be boolean of shape \(2,\)"):
        errors_by_distance(
            torch.ones(2), path_edges(2), torch.ones(2, dtype=torch.bool), torch.ones(2)
        )


def test_each_kind_has_its_errors():
    scores, classes = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    evaluated = torch.tensor([True, True, False, True, False, True])
    found = summarize_errors(Predictions("classification", scores, classes, evaluated))
    assert found.classes == class_errors(scores[evaluated], classes[evaluated])
    assert found.labels is found.regression is found.by_distance is None
    found = summarize_errors(Predictions("multilabel", scores, (scores > 0).float()))
    assert found.labels.false_positive == found.labels.false_negative == [0, 0, 0]
    for kind in ("regression", "forecast"):
        found = summarize_errors(Predictions(kind, scores, 2 * scores))
        assert found.regression == regression_errors(scores, 2 * scores)
        assert found.kind == kind
    # a column beside a vector
    found = summarize_errors(Predictions("regression", scores[:, :1], scores[:, 0]))
    assert found.regression.mae == [0.0]


@pytest.mark.parametrize("kind", ["classification", "multilabel", "regression"])
def test_errors_by_distance_over_several_graphs(kind):
    graphs = [graph(3), graph(2)]
    anchors = torch.tensor([True, False, False, False, True])
    wrong = torch.tensor([False, False, True, True, False])
    if kind == "classification":
        prediction, target = torch.tensor([[1.0, 0.0]]).repeat(5, 1), wrong.long()
    elif kind == "multilabel":
        prediction, target = -torch.ones(5, 1), wrong.float().unsqueeze(1)
    else:
        prediction, target = torch.zeros(5, 1), wrong.float().unsqueeze(1)
    found = summarize_errors(Predictions(kind, prediction, target, anchors=anchors), graphs)
    assert found.by_distance.error == [0.0, 0.5, 1.0]
    assert found.by_distance.num_nodes == [2, 2, 1]


def test_unusable_arguments_of_summaries():
    one = torch.ones(2, 1)
    with pytest.raises(ValueError, match=r"one of classification, .* \(got 'ranking'\)"):
        summarize_errors(Predictions("ranking", one, one))
    anchors = torch.tensor([True, False])
    with pytest.raises(ValueError, match=r"one prediction per node .*got 2 for 3 nodes"):
        summarize_errors(Predictions("regression", one, one, anchors=anchors), [graph(3)])


def test_without_torchmetrics_the_command_to_install_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(ImportError, match=r"pip install 'torch-grama\[train\]'"):
        regression_errors(torch.ones(2), torch.ones(2))
