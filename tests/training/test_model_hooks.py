"""What a model asks of the loop is honoured, without the loop knowing the model."""

import dataclasses

import pytest
import torch
from plain_collate import collate
from torch.nn import Linear, Module, Parameter
from training_cases import graph_task, node_regression_task, node_task, train

from torch_grama.training import GraphTask
from torch_grama.training.graph_batch import batch_of_one
from torch_grama.training.input_stage import (
    AddsLoss,
    FitsLabels,
    InputStage,
    adds_loss,
    fits_labels,
    node_classes,
)


class Asking(Module):
    """A linear map that asks for both hooks and keeps what it is told."""

    def __init__(self, readout="node"):
        super().__init__()
        self.readout = readout
        self.lin = Linear(4, 3)
        self.start = Parameter(torch.zeros(()))
        self.told = []

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):
        out = self.lin(x)
        if self.readout == "graph":
            out = out.new_zeros(batch_size, 3).index_add(0, batch, out)
        return out

    def auxiliary_loss(self, y, mask, x, edge_index, *further):
        self.told.append(("loss", y, mask, x))
        return 2 * self.start + 5.0

    def fit_labels(self, y, mask, x, edge_index, *further):
        self.told.append(("labels", y, mask, x))
        with torch.no_grad():
            self.start.fill_(float(y[mask].sum()))

    def count(self, hook):
        return sum(one[0] == hook for one in self.told)


class Silent(Asking):
    """The same without hooks."""

    auxiliary_loss = None
    fit_labels = None


def test_classes_are_laid_out_over_all_nodes_and_hidden_ones_are_not_read():
    data = node_task()
    graph, mask = data.graphs[0], data.folds[0].train
    y, known = node_classes(batch_of_one(graph, mask))
    assert torch.equal(known, mask)
    assert torch.equal(y[mask], graph["y"][mask])
    assert not y[~mask].any()


def test_targets_that_are_no_classes_of_nodes_are_not_handed_on():
    graphs = graph_task()
    assert node_classes(collate(graphs.graphs[:3], "graph")) is None
    assert node_classes(collate(node_regression_task().graphs[:3], "node")) is None
    assert node_classes(batch_of_one(node_task().graphs[0], None)) is None


def test_every_node_of_many_graphs_is_known():
    graph = node_task().graphs[0]
    y, known = node_classes(collate([graph, graph], "node"))
    assert known.all()
    assert torch.equal(y, torch.cat([graph["y"], graph["y"]]))


@pytest.mark.parametrize("wrap", [lambda model: model, InputStage], ids=["bare", "wrapped"])
def test_the_term_joins_the_mean_loss_of_a_training_step(wrap):
    data = node_task()
    batch = batch_of_one(data.graphs[0], data.folds[0].train)
    model = Asking()
    task = GraphTask.for_data(wrap(model), data)
    plain = GraphTask.for_data(Silent(), data)
    plain.model.load_state_dict(model.state_dict())
    total, weight = task.measure(batch)
    expected, count = plain.measure(batch)
    assert weight == count
    torch.testing.assert_close(total / weight, expected / count + 5.0)
    total.backward()
    assert float(model.start.grad) == pytest.approx(2 * float(weight))
    # what is validated is the task alone
    task.on_validation_epoch_start()
    task.validation_step(batch, 0)
    assert task.read_validation()[0] == pytest.approx((expected / count).item(), rel=1e-5)


def test_a_stage_hands_on_what_the_model_reads():
    model = Asking()
    stage = InputStage(model, flatten_sequence=True, input_dropout=0.5)
    assert isinstance(stage, AddsLoss)
    assert isinstance(stage, FitsLabels)
    x, y, mask = torch.randn(6, 2, 2), torch.arange(6) % 3, torch.arange(6) < 4
    edges = torch.zeros(2, 0, dtype=torch.long)
    stage.fit_labels(y, mask, x, edges)
    name, *_, seen = model.told.pop()
    assert name == "labels"
    assert torch.equal(seen, x.flatten(1))  # no dropout while labels are counted
    assert stage.training
    stage.auxiliary_loss(y, mask, x, edges)
    assert model.told[0][3].size() == (6, 4)


def test_a_stage_without_hooks_behind_it_costs_nothing():
    stage = InputStage(Linear(4, 3))
    assert not adds_loss(stage)
    assert not fits_labels(stage)
    assert fits_labels(InputStage(Asking()))
    assert adds_loss(InputStage(InputStage(Asking())))
    empty = torch.zeros(2, 0, dtype=torch.long)
    y, mask = torch.zeros(2, dtype=torch.long), torch.ones(2, dtype=torch.bool)
    assert stage.auxiliary_loss(y, mask, torch.rand(2, 4), empty) is None
    stage.fit_labels(y, mask, torch.rand(2, 4), empty)


def test_labels_are_fitted_once_before_the_first_step_and_not_on_resuming(tmp_path):
    data = node_task()
    model = Asking()
    train(tmp_path, data, model, max_epochs=2, patience=None)
    assert [one[0] for one in model.told] == ["labels", "loss", "loss"]
    mask = data.folds[0].train
    _, y, known, _ = model.told[0]
    assert torch.equal(known, mask)
    assert int(y.sum()) == int(data.graphs[0]["y"][mask].sum())
    later = Asking()
    train(tmp_path, data, later, max_epochs=3, resume=True, patience=None)
    assert later.count("labels") == 0
    assert later.count("loss") == 1
    assert later.start.item() != 0


def test_graph_tasks_have_no_classes_of_nodes_to_tell(tmp_path):
    data = dataclasses.replace(graph_task(), num_outputs=3)
    model = Asking("graph")
    train(tmp_path, data, model, max_epochs=2, patience=None)
    assert model.told == []
