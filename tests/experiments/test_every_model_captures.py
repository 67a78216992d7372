"""Padded, planned and (on a GPU) recorded steps of every model give the numbers of plain ones."""

import copy

import pytest
import torch
from model_words import each_model
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.experiments.catalogue import MODELS
from torch_grama.experiments.config import ModelConfig
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.models import assemble_model, reads_series_alone
from torch_grama.nn.neighbor_convs import NeighborSumConv
from torch_grama.nn.padding import NoChance, PaddingError
from torch_grama.training import GraphDataModule, GraphTask, OptimizerSettings, TrainerSettings
from torch_grama.training.captured_step import CapturedTraining, plan_forward, plan_training
from torch_grama.training.evaluate import initialize_lazily
from torch_grama.training.optimizer import build_optimizer

# A model that says that it cannot be padded: its codes are drawn to all nodes of a batch.
REFUSING = ("goat",)
WORDS = [word for word in MODELS if word not in (*REFUSING, "resnet-adj")]
ON_NODES = ("grama", "grama-gatedgcn", "grama-gps", "gcn", "san", "gmn")
CASES = [pytest.param(*case.values, "graph", marks=case.marks) for case in each_model(WORDS)]
CASES += [(word, "node") for word in ON_NODES]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def small_graphs(word: str, level: str, dtype: torch.dtype, num_graphs: int = 21) -> GraphTaskData:
    """Graphs of very different sizes with edge attributes, in two classes."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for number in range(num_graphs):
        size = 4 + number % 9
        step = torch.arange(size)
        start = torch.randint(size, (number % 5,), generator=generator)
        reach = torch.randint(1, size, (number % 5,), generator=generator)
        chords = torch.stack([start, (start + reach) % size])
        pairs = torch.cat([torch.stack([step, (step + 1) % size]), chords], dim=1)
        x = torch.randn(size, 5, generator=generator, dtype=dtype) + (number % 2)
        graph = Data(
            x=x.unsqueeze(1).repeat(1, 4, 1) if reads_series_alone(word) else x,
            edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
            y=torch.tensor([number % 2]) if level == "graph" else (x[:, 0] > 0).long(),
        )
        attributes = torch.randn(pairs.size(1), 3, generator=generator, dtype=dtype)
        graph.edge_attr = torch.cat([attributes, attributes])
        graphs.append(graph)
    order = torch.arange(num_graphs)
    fold = Fold(order[:-7], order[-7:-3], order[-3:])
    task = level, "classification", Metric("accuracy", True), 2
    encodings = FeatureEncoding("float", 5), FeatureEncoding("float", 3)
    return GraphTaskData("graphs", graphs, [fold], *task, *encodings)


def build(word, level, device, capturable):
    # on a CPU in float64, where nothing but a wrong number can differ
    dtype = torch.float64 if device == "cpu" else torch.float32
    data = small_graphs(word, level, dtype)
    torch.manual_seed(0)
    config = ModelConfig(word, 8, {"num_layers": 2})
    model = assemble_model(config, DataFacts.of(data), data.num_outputs).to(dtype)
    # Adam makes whole steps of gradients that are zero but for rounding
    optimizer = OptimizerSettings("sgd", lr=0.01)
    task = GraphTask.for_data(model, data, optimizer)
    module = GraphDataModule(data, 0, TrainerSettings(batch_size=5, seed=3))
    initialize_lazily(task, module.example())
    task.to(device)
    source = module.source("train")
    source.place(torch.device(device, 0) if device == "cuda" else torch.device(device))
    return task, source, module, build_optimizer(optimizer, task.model, capturable=capturable)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(("word", "level"), CASES)
@pytest.mark.parametrize("device", DEVICES)
def test_steps_are_those_of_batches_without_padding(word, level, device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    plain, source, _, optimizer = build(word, level, device, capturable=False)
    twin, planned_source, _, of_twin = build(word, level, device, capturable=True)
    if device == "cuda" and _waits(twin, planned_source):
        pytest.skip(f"{word} reads sizes on the host, so that its steps are not recorded")
    planned = plan_training(twin, planned_source)
    assert len({batch.bucket for batch in planned.batches(0, 0)}) >= 2
    steps = CapturedTraining(twin, planned, None, "32", source.pack.device, of_twin)
    for task in (plain, twin):
        task.train()
    with NoChance():
        for batch, plan in zip(source.batches(0, 0), planned.batches(0, 0), strict=True):
            optimizer.zero_grad()
            total, weight = plain.measure(batch)
            (total / weight).backward()
            optimizer.step()
            plain.add_loss(total, weight)
            steps.run(plan)
    assert steps.find_failure() is None
    bound = 1e-7 if device == "cpu" else 1e-3
    assert torch.allclose(plain._train_sums, twin._train_sums, rtol=bound)
    for name, value in plain.model.state_dict().items():
        other = twin.model.state_dict()[name]
        assert torch.allclose(value, other, rtol=bound, atol=bound), name


def _waits(task, source):
    try:
        plan_training(task, source)
    except PaddingError as error:
        return "waits for the device" in str(error)
    return False


@pytest.mark.parametrize("word", REFUSING)
def test_a_model_that_padding_would_change_says_so(word):
    task, source, _, _ = build(word, "graph", "cpu", capturable=False)
    before = copy.deepcopy(task.state_dict())
    with pytest.raises(PaddingError):
        plan_training(task, source)
    for name, value in task.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in task.parameters())


class Deep(torch.nn.Module):
    """ReLU behind batch norms, in float32: rounding turns some of them on or off."""

    def __init__(self, last=None):
        super().__init__()
        self.first = torch.nn.Linear(5, 64)
        self.convs = torch.nn.ModuleList(NeighborSumConv(64) for _ in range(8))
        self.last, self.head = last, torch.nn.Linear(64, 2)

    def forward(self, x, edge_index, edge_weight, edge_attr, batch, batch_size):
        x = self.first(x)
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        x = x if self.last is None else self.last.apply(x)
        return self.head(scatter(x, batch, dim=0, dim_size=batch_size, reduce="mean"))


class MeanOfGradients(torch.autograd.Function):
    """Mixes all rows, the padding included, on the way back alone."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient - gradient.mean(dim=0)


def plan_deep(last=None, seed=0):
    data = small_graphs("gcn", "graph", torch.float32, num_graphs=200)
    torch.manual_seed(seed)
    task = GraphTask.for_data(Deep(last), data, OptimizerSettings("sgd", lr=0.01))
    source = GraphDataModule(data, 0, TrainerSettings(batch_size=64)).source("train")
    source.place(torch.device("cpu"))
    before = copy.deepcopy(task.state_dict())
    try:
        return plan_training(task, source)
    finally:
        for name, value in task.state_dict().items():
            assert value.dtype == before[name].dtype
            assert torch.equal(value, before[name]), name
        assert all(parameter.grad is None for parameter in task.parameters())


@pytest.mark.parametrize("seed", range(4))
def test_a_relu_that_rounding_turns_is_no_reason_to_refuse(seed):
    assert plan_deep(seed=seed).buckets


def test_a_model_whose_gradients_alone_see_the_padding_is_refused():
    with pytest.raises(PaddingError, match="the numbers of a batch without padding"):
        plan_deep(MeanOfGradients)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("word", ["grama", "grama-gatedgcn", "gps", "gcn"])
def test_forward_passes_are_those_of_batches_without_padding(word, level):
    task, _, module, _ = build(word, level, "cpu", capturable=False)
    task.eval()
    captured = plan_forward(task, module.source("val"))
    with torch.no_grad():
        for plan in captured.source.batches(0, 0):
            batch = plan.make()
            out, y, weight = captured.run(plan)
            assert torch.allclose(out, batch.select(task(batch)), atol=1e-9)
            assert torch.equal(y, batch.y)
            assert weight is None


@pytest.mark.parametrize("word", ["grama", "gcn", "gat"])
def test_loops_are_found_where_there_are_any(word, monkeypatch):
    plain = small_graphs

    def with_loops(*given):
        data = plain(*given)
        for graph in data.graphs[::3]:
            loops = torch.arange(2).expand(2, -1)
            graph.edge_index = torch.cat([graph.edge_index, loops], dim=1)
            graph.edge_attr = torch.cat([graph.edge_attr, graph.edge_attr[:2]])
        return data

    monkeypatch.setitem(globals(), "small_graphs", with_loops)
    task, source, _, _ = build(word, "graph", "cpu", capturable=False)
    # compares gradients with and without padding
    plan_training(task, source)
