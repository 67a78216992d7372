"""Every model of the catalogue learns a small task in the loop that trains GRAMA."""

import dataclasses
import sys

import pytest
import torch
from model_words import each_model
from sample_data import ring_with_chords

from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.experiments.catalogue import MODELS
from torch_grama.experiments.config import ConfigError, DataConfig, ModelConfig, RunConfig
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.finished_run import load_run
from torch_grama.experiments.models import assemble_model, reads_series_alone
from torch_grama.experiments.run import run_experiment
from torch_grama.runs import RunError, RunFolder
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.training import GraphDataModule, GraphTask, OptimizerSettings, TrainerSettings, fit
from torch_grama.training.evaluate import initialize_lazily

CLASSES = "classification", Metric("accuracy", True), 2, FeatureEncoding("float", 5)
SETTINGS = TrainerSettings(
    max_epochs=12, patience=None, accelerator="cpu", batch_size=8, check_val_every=12
)
# Options that make a model small enough for a graph of a dozen nodes.
SMALL = {"cpgnn": {"pretrain_steps": 3}}


def node_task(series: bool) -> GraphTaskData:
    """Two classes of the nodes of one graph, told by a feature; half of them to learn from."""
    graph = ring_with_chords(16)
    graph["y"] = (graph.x[:, 0] > 0).long()
    if series:
        graph.x = graph.x.unsqueeze(1).repeat(1, 4, 1)
    order = torch.arange(16)
    fold = Fold(order % 4 < 2, order % 4 == 2, order % 4 == 3)
    return GraphTaskData("nodes", [graph], [fold], "node", *CLASSES)


def graph_task(series: bool) -> GraphTaskData:
    """Two classes of graphs, told by the mean of a feature."""
    graphs = []
    for number in range(12):
        graph = ring_with_chords(7 + number % 3)
        shift = 1.0 if number % 2 else -1.0
        graph.x, graph.y = graph.x + shift, torch.tensor([number % 2])
        if series:
            graph.x = graph.x.unsqueeze(1).repeat(1, 4, 1)
        graphs.append(graph)
    order = torch.arange(12)
    fold = Fold(order[:8], order[8:10], order[10:])
    return GraphTaskData("graphs", graphs, [fold], "graph", *CLASSES)


def build(word: str, data: GraphTaskData) -> GraphTask:
    torch.manual_seed(0)
    options = {"num_layers": 2, **SMALL.get(word, {})}
    model = assemble_model(ModelConfig(word, 8, options), DataFacts.of(data), data.num_outputs)
    return GraphTask.for_data(model, data, OptimizerSettings("adam", lr=0.02))


# One model of each kind; what differs between graphs and nodes is the readout, not the model.
OF_EACH_FAMILY = {entry.family: word for word, entry in MODELS.items() if word != "resnet-adj"}


@pytest.mark.no_cover
@pytest.mark.parametrize("word", each_model())
def test_it_learns_classes_of_nodes(word):
    data = node_task(reads_series_alone(word))
    task, batch = build(word, data), GraphDataModule(data, 0, SETTINGS).example()
    initialize_lazily(task, batch)
    optimizer, losses = task.configure_optimizers(), []
    for _ in range(8):
        optimizer.zero_grad()
        total, weight = task.measure(batch)
        (total / weight).backward()
        optimizer.step()
        losses.append(float(total.detach()))
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.no_cover
@pytest.mark.parametrize("word", [*OF_EACH_FAMILY.values(), "cpgnn"])
def test_it_learns_classes_in_the_loop(word, tmp_path):
    make = node_task if word == "cpgnn" else graph_task
    data = make(reads_series_alone(word))
    module = GraphDataModule(data, 0, SETTINGS)
    outcome = fit(build(word, data), module, tmp_path, report="json", tensorboard=False)
    losses = [float(row["train/loss"]) for row in read_metrics(outcome.metrics_file)]
    assert len(losses) == SETTINGS.max_epochs
    assert losses[-1] < 0.95 * losses[0]


def test_a_run_that_was_never_validated_is_not_finished(tmp_path, monkeypatch):
    data = graph_task(series=False)
    for number in data.folds[0].val.tolist():
        data.graphs[number].y = torch.tensor([0])  # one class has no ranking
    data = dataclasses.replace(data, metric=Metric("roc_auc", True))
    settings = dataclasses.replace(SETTINGS, max_epochs=2, check_val_every=1)
    config = RunConfig(DataConfig("graphs"), ModelConfig("gcn", 8, {"num_layers": 2}))
    config = dataclasses.replace(config, trainer=settings)
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(ConfigError, match="both classes in the validation part"):
        run_experiment(config, tmp_path / "refused", report="quiet", data=data)
    # where it could not be known before, the last weights can be used
    module = sys.modules["torch_grama.training.fit"]  # the function of that name hides it
    monkeypatch.setattr(module, "_check_metric", lambda task, module: None)
    for resume in (False, True):
        with pytest.raises(RunError, match="was never a number"):
            run_experiment(config, folder.path, resume=resume, report="quiet", data=data)
        assert not folder.is_finished
        assert load_run(folder.path).task.training is False
