import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets import FeatureEncoding, Fold, GraphTaskData, Metric, load
from torch_grama.experiments.trivial_references import trivial_references

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def task(graphs, fold, kind, metric, level="graph", num_outputs=1):
    encoding = FeatureEncoding("float", 1)
    return GraphTaskData(
        "mine", graphs, [fold], level, kind, Metric(metric, False), num_outputs, encoding
    )


def indices(*groups):
    return Fold(*(torch.tensor(group) for group in groups))


def test_most_frequent_class_of_the_training_nodes():
    graph = Data(x=torch.zeros(6, 1), edge_index=EDGES, y=torch.tensor([1, 1, 0, 0, 0, 1]))
    fold = Fold(
        *(torch.tensor([i in part for i in range(6)]) for part in ((0, 1, 2), (3,), (4, 5)))
    )
    assert trivial_references(task([graph], fold, "classification", "accuracy", "node", 2)) == {
        "constant": 0.5
    }


@pytest.mark.parametrize(
    ("metric", "expected"), [("mse", 13.0), ("mae", 5.0), ("log10_mse", float(np.log10(13.0)))]
)
def test_best_constant_for_each_error(metric, expected):
    values = (0.0, 1.0, 8.0, 100.0, 4.0, 8.0)  # mean of the first three 3, median 1
    graphs = [Data(x=torch.zeros(3, 1), edge_index=EDGES, y=torch.tensor([[v]])) for v in values]
    data = task(graphs, indices([0, 1, 2], [3], [5, 4]), "regression", metric)
    assert trivial_references(data)["constant"] == pytest.approx(expected)


def test_share_of_each_label_skips_labels_of_one_kind_and_gaps():
    nan = float("nan")
    rows = [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, nan]]
    graphs = [Data(x=torch.zeros(3, 1), edge_index=EDGES, y=torch.tensor([row])) for row in rows]
    data = task(graphs, indices([0], [0], [0, 1, 2, 3]), "multilabel", "average_precision")
    assert trivial_references(data)["constant"] == pytest.approx((3 / 4 + 1 / 3) / 2)


@pytest.mark.parametrize(
    ("kind", "metric", "y", "expected"),
    [
        # the training half says 0; one of four test nodes is 1
        ("classification", "average_precision", [0, 0, 0, 1, 0, 0, 0, 1], 1 / 4),
        ("classification", "roc_auc", [0, 0, 0, 1, 0, 0, 0, 1], 1 / 2),
        ("multilabel", "accuracy", [[0.0], [0.0], [0.0], [1.0], [0.0], [0.0], [0.0], [1.0]], 3 / 4),
    ],
)
def test_a_constant_answer_is_judged_by_the_metric_of_the_task(kind, metric, y, expected):
    graph = Data(x=torch.zeros(8, 1), edge_index=EDGES, y=torch.tensor(y))
    half = torch.arange(8) < 4
    num_outputs = 2 if kind == "classification" else 1
    data = task([graph], Fold(half, half, ~half), kind, metric, "node", num_outputs)
    assert trivial_references(data) == {"constant": pytest.approx(expected)}


def test_copy_and_degree_table_on_nodes():
    # the middle node of a path has degree two and the larger target
    graphs = [
        Data(x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=EDGES, y=y)
        for y in torch.tensor([[[0.0], [5.0], [2.0]], [[1.0], [5.0], [1.0]]])
    ]
    scores = trivial_references(task(graphs, indices([0], [0], [1]), "regression", "mse", "node"))
    assert scores["degree table"] == pytest.approx(0.0)
    assert scores["copy"] == pytest.approx((0 + 9 + 4) / 3)


def test_a_degree_table_leaves_out_targets_that_are_not_known():
    nan = float("nan")
    y = torch.tensor([[0.0, nan], [5.0, nan], [2.0, 1.0]])
    graph = Data(x=torch.zeros(3, 1), edge_index=EDGES, y=y)
    fold = indices([0], [0], [0])
    scores = trivial_references(task([graph], fold, "regression", "mse", "node", 2))
    assert scores["degree table"] == pytest.approx((1 + 0 + 1 + 0) / 4)


def test_label_mask_is_honoured():
    y = torch.tensor([[0.0], [5.0], [2.0]])
    graph = Data(x=y, edge_index=EDGES, y=y, label_mask=torch.tensor([True, False, False]))
    scores = trivial_references(task([graph], indices([0], [0], [0]), "regression", "mse", "node"))
    assert scores["constant"] == 0.0


def test_an_autoregression_finds_the_law_of_a_series():
    series = [1.0, 2.0]
    for _ in range(60):
        series.append(0.5 * series[-1] - 0.8 * series[-2] + 1)
    graphs = [
        Data(
            x=torch.tensor(series[i : i + 2]).view(1, 2, 1),
            edge_index=torch.zeros(2, 0, dtype=torch.long),
            y=torch.tensor([[series[i + 2]]]),
        )
        for i in range(60)
    ]
    fold = indices(list(range(40)), list(range(40, 50)), list(range(50, 60)))
    scores = trivial_references(task(graphs, fold, "forecast", "mse", "node"))
    assert scores["AR(2)"] < 1e-6 < scores["last value"]
    expected = np.mean(np.square(series[52:62]))
    assert scores["zero"] == pytest.approx(expected)


def test_published_references_of_the_transfer_task():
    # the best constant for 20 nodes, 18 of them uniform on [0, 0.5), as worked out by hand
    constant = (18 / 4 + 1) / 20
    expected = (18 * (1 / 48 + (constant - 1 / 4) ** 2) + (1 - constant) ** 2 + constant**2) / 20
    scores = trivial_references(load("transfer-ring-10"))
    assert scores["constant"] == pytest.approx(expected, rel=0.03)
    assert scores["copy"] == pytest.approx(2 / 20, rel=1e-6)


@pytest.mark.parametrize("metric", ["mse", "mae"])
def test_graphs_count_the_same_however_many_nodes_they_have(metric):
    # as the metric of models does: an error of one on 4 nodes, of none on 100
    sizes, targets = (100, 4, 100), (0.0, 1.0, 0.0)
    graphs = [
        Data(x=torch.full((n, 1), 7.0), edge_index=EDGES, y=torch.full((n, 1), y))
        for n, y in zip(sizes, targets, strict=True)
    ]
    data = task(graphs, indices([0], [0], [1, 2]), "regression", metric, "node")
    assert trivial_references(data)["constant"] == pytest.approx(0.5)
