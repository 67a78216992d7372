import pytest
import torch
from analysis_graphs import graph

from torch_grama.analysis import Predictions, class_errors, regression_errors, summarize_errors


def summarize(predictions, graphs=()):
    return summarize_errors(predictions, graphs, max_examples=10, seed=0)


def test_each_kind_has_its_errors():
    scores, classes = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    evaluated = torch.tensor([True, True, False, True, False, True])
    found = summarize(Predictions("classification", scores, classes, evaluated))
    assert found.classes == class_errors(scores[evaluated], classes[evaluated])
    assert found.labels is found.regression is found.by_distance is None
    found = summarize(Predictions("multilabel", scores, (scores > 0).float()))
    assert found.labels.false_positive == found.labels.false_negative == [0, 0, 0]
    for kind in ("regression", "forecast"):
        found = summarize(Predictions(kind, scores, 2 * scores))
        assert found.regression == regression_errors(scores, 2 * scores, max_examples=10)
        assert found.kind == kind
    # a column beside a vector
    found = summarize(Predictions("regression", scores[:, :1], scores[:, 0]))
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
    found = summarize(Predictions(kind, prediction, target, anchors=anchors), graphs)
    assert found.by_distance.error == [0.0, 0.5, 1.0]
    assert found.by_distance.num_nodes == [2, 2, 1]


def test_unusable_arguments():
    one = torch.ones(2, 1)
    with pytest.raises(ValueError, match=r"one of classification, .* \(got 'ranking'\)"):
        summarize(Predictions("ranking", one, one))
    anchors = torch.tensor([True, False])
    with pytest.raises(ValueError, match=r"one prediction a node .*got 2 for 3 nodes"):
        summarize(Predictions("regression", one, one, anchors=anchors), [graph(3)])
