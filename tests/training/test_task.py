"""One step of any model on any task."""

import pytest
import torch
from torch.nn import Linear, Module
from training_cases import SmallNet, graph_task, node_regression_task, node_task, random_graph

from torch_grama.training import (
    GraphBatch,
    GraphTask,
    OptimizerSettings,
    TrainerSettings,
    evaluate,
    evaluation_loader,
    predict,
    prediction_loader,
)
from torch_grama.training.graph_batch import collect_positions


class Positions(Module):
    """Keeps the positional encodings that it is passed."""

    def __init__(self):
        super().__init__()
        self.lin = Linear(4, 3)
        self.pe = None

    def forward(
        self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None, pe=None
    ):
        self.pe = pe
        return self.lin(x)


def test_evaluation_is_over_all_targets_not_over_batches():
    data = graph_task()
    task = GraphTask.for_data(SmallNet(4, 2, "graph"), data)
    task.eval()
    values = [
        evaluate(task, evaluation_loader(data, 0, "train", TrainerSettings(batch_size=size)))
        for size in (1, 4, 100)
    ]
    for value in values[1:]:
        assert value["accuracy"] == values[0]["accuracy"]
        assert value["loss"] == pytest.approx(values[0]["loss"], rel=1e-6)


def test_predictions_are_the_outputs_in_order():
    data = graph_task()
    task = GraphTask.for_data(SmallNet(4, 2, "graph"), data)
    together = predict(task, prediction_loader(data, TrainerSettings(batch_size=7)))
    assert together.size() == (30, 2)
    alone = predict(task, prediction_loader(data, TrainerSettings(batch_size=1)))
    assert torch.allclose(together, alone, atol=1e-6)
    test = predict(task, evaluation_loader(data, 0, "test"))
    assert torch.allclose(test, together[data.folds[0].test], atol=1e-6)
    assert task.training  # the mode before


def test_quantities_count_by_graph():
    data = node_regression_task()
    task = GraphTask.for_data(SmallNet(4, 1), data)
    value = evaluate(task, evaluation_loader(data, 0, "train", TrainerSettings(batch_size=3)))
    task.eval()
    errors = []
    for number in data.folds[0].train.tolist():
        graph = data.graphs[number]
        out = task.model(graph.x, graph.edge_index).detach()
        errors.append((out - graph.y)[graph.label_mask].double().square().mean())
    expected = torch.stack(errors).mean()
    assert value["log10_mse"] == pytest.approx(float(expected.log10()), abs=1e-6)
    assert value["loss"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_positional_encodings_reach_a_model_that_takes_them(compiled):
    model = Positions()
    data = node_task()
    graph = data.graphs[0]
    graph["rwse"] = torch.rand(40, 2)
    graph["lap_vectors"] = torch.randn(40, 3)
    graph["lap_vectors"][:, 2] = torch.nan
    task = GraphTask.for_data(torch.compile(model, backend="eager") if compiled else model, data)
    batch = next(iter(prediction_loader(data)))
    task.eval()
    task(batch)
    expected = torch.cat([graph.rwse, graph.lap_vectors.nan_to_num()], dim=1)
    assert torch.equal(model.pe, expected)
    task.train()
    seen = set()
    for _ in range(30):
        task(batch)
        signs = model.pe[:, 2:4] / graph.lap_vectors[:, :2]
        assert torch.allclose(signs.abs(), torch.ones(40, 2))
        assert bool((signs == signs[:1]).all())  # one sign a vector
        assert torch.equal(model.pe[:, :2], graph.rwse)
        seen.add(tuple(signs[0].tolist()))
    assert len(seen) == 4
    model.pe = None
    task(next(iter(prediction_loader(node_task()))))
    assert model.pe is None


def test_signs_are_drawn_graph_by_graph():
    batch = GraphBatch(
        x=torch.ones(6, 1),
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        batch=torch.tensor([0, 0, 1, 1, 2, 2]),
        batch_size=3,
        lap_vectors=torch.ones(6, 8),
    )
    torch.manual_seed(0)
    signs = collect_positions(batch, random_signs=True)
    assert torch.equal(signs[::2], signs[1::2])
    assert not torch.equal(signs[0], signs[2])
    assert collect_positions(batch, random_signs=False).eq(1).all()
    assert collect_positions(GraphBatch(batch.x, batch.edge_index), random_signs=True) is None


def test_training_step_is_the_mean_over_its_targets():
    data = node_task()
    task = GraphTask.for_data(SmallNet(4, 3), data)
    task.model.dropout.p = 0.0
    (batch,) = list(evaluation_loader(data, 0, "train"))
    loss = task.training_step(batch, 0)
    expected = torch.nn.functional.cross_entropy(task(batch)[batch.rows], batch.y)
    assert torch.allclose(loss, expected)


def test_a_batch_without_any_known_label_moves_nothing():
    task = GraphTask(
        SmallNet(4, 2), "multilabel", graph_task().metric, 2, OptimizerSettings("sgd", lr=1.0)
    )
    graph = random_graph(5, torch.Generator().manual_seed(0))
    batch = GraphBatch(graph.x, graph.edge_index, y=torch.full((5, 2), torch.nan))
    loss = task.training_step(batch, 0)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(bool((p.grad == 0).all()) for p in task.model.parameters() if p.grad is not None)
