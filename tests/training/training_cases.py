"""Small tasks and a small model for the tests of the training loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Dropout, Linear, Module
from torch_geometric.data import Data

from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.training import (
    FitOutcome,
    GraphDataModule,
    GraphTask,
    OptimizerSettings,
    ScheduleSettings,
    TrainerSettings,
    fit,
)

ACCURACY = Metric("accuracy", True)
FEATURES = FeatureEncoding("float", 4)


class SmallNet(Module):
    """One round of messages, batch norm, dropout; one output a node or a graph."""

    def __init__(self, in_channels: int, out_channels: int, readout: str = "node") -> None:
        super().__init__()
        self.readout = readout
        self.lin = Linear(in_channels, 8)
        self.norm = BatchNorm1d(8)
        self.dropout = Dropout(0.3)
        self.head = Linear(8, out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        hidden = self.lin(x.flatten(1))
        messages = hidden[edge_index[0]]
        if edge_weight is not None:
            messages = messages * edge_weight.unsqueeze(1)
        hidden = hidden + torch.zeros_like(hidden).index_add(0, edge_index[1], messages)
        hidden = self.dropout(self.norm(hidden).relu())
        if self.readout == "graph":
            assert batch is not None
            assert batch_size is not None
            sums = hidden.new_zeros(batch_size, hidden.size(1)).index_add(0, batch, hidden)
            count = hidden.new_zeros(batch_size).index_add(0, batch, hidden.new_ones(batch.size()))
            hidden = sums / count.unsqueeze(1)
        return self.head(hidden)


def train(
    folder: Path,
    data: GraphTaskData | None = None,
    model: Module | None = None,
    optimizer: OptimizerSettings | None = None,
    schedule: ScheduleSettings | None = None,
    **options: Any,
) -> tuple[FitOutcome, GraphTask]:
    """Trains a model from seed 0; options are those of ``fit`` and of the trainer."""
    data = node_task() if data is None else data
    told = {"resume": False, "report": "json", "tensorboard": False, "callbacks": ()}
    told = {name: options.pop(name, value) for name, value in told.items()}
    torch.manual_seed(0)
    if model is None:
        model = SmallNet(4, data.num_outputs, data.level)
    task = GraphTask.for_data(model, data, optimizer, schedule)
    options = {"max_epochs": 5, "accelerator": "cpu", "batch_size": 4, **options}
    module = GraphDataModule(data, 0, TrainerSettings(**options))
    return fit(task, module, folder, **told), task


def read_rows(outcome: FitOutcome) -> list[dict[str, str]]:
    return read_metrics(outcome.metrics_file)


def random_graph(num_nodes: int, generator: torch.Generator, **attributes: Tensor) -> Data:
    """A graph of random features and three edges a node."""
    return Data(
        x=torch.randn(num_nodes, 4, generator=generator),
        edge_index=torch.randint(num_nodes, (2, 3 * num_nodes), generator=generator),
        **attributes,
    )


def node_task(num_nodes: int = 40, classes: int = 3, metric: Metric = ACCURACY) -> GraphTaskData:
    """Classes of the nodes of one graph: half to learn from, a quarter each for the others."""
    generator = torch.Generator().manual_seed(1)
    graph = random_graph(num_nodes, generator)
    graph["y"] = (graph["x"][:, :classes] + graph["x"][:, :1]).argmax(dim=1)
    order = torch.arange(num_nodes)
    fold = Fold(order % 4 < 2, order % 4 == 2, order % 4 == 3)
    return GraphTaskData(
        "nodes", [graph], [fold], "node", "classification", metric, classes, FEATURES
    )


def graph_task(num_graphs: int = 30) -> GraphTaskData:
    """Two classes of small graphs of many sizes: 18 to learn from, 6 each to validate and test."""
    generator = torch.Generator().manual_seed(2)
    graphs = []
    for number in range(num_graphs):
        graph = random_graph(3 + number % 5, generator)
        graph["y"] = (graph["x"].mean(dim=0)[:1] > 0).long()
        graphs.append(graph)
    order = torch.arange(num_graphs)
    fold = Fold(order[order % 5 < 3], order[order % 5 == 3], order[order % 5 == 4])
    return GraphTaskData("graphs", graphs, [fold], "graph", "classification", ACCURACY, 2, FEATURES)


def node_regression_task(num_graphs: int = 12) -> GraphTaskData:
    """A quantity of the nodes of many graphs, a third of which carry no target."""
    generator = torch.Generator().manual_seed(3)
    graphs = []
    for number in range(num_graphs):
        size = 4 + number % 3
        graph = random_graph(size, generator)
        graph["y"] = graph["x"][:, :1].clone()
        graph["label_mask"] = torch.arange(size) % 3 > 0
        graph["y"][~graph["label_mask"]] = torch.nan
        graphs.append(graph)
    order = torch.arange(num_graphs)
    fold = Fold(order[:8], order[8:10], order[10:])
    return GraphTaskData(
        "quantities", graphs, [fold], "node", "regression", Metric("log10_mse", False), 1, FEATURES
    )


def forecast_task(steps: int = 12) -> GraphTaskData:
    """A series on five nodes, one graph a time step, with edge weights."""
    generator = torch.Generator().manual_seed(4)
    series = torch.randn(steps + 4, 5, generator=generator)
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    graphs = [
        Data(
            x=series[step : step + 4].t().reshape(5, 4, 1).contiguous(),
            edge_index=edge_index,
            edge_weight=torch.tensor([1.0, 0.5, 0.25, 2.0, 1.0]),
            y=series[step + 4].reshape(5, 1),
        )
        for step in range(steps)
    ]
    order = torch.arange(steps)
    fold = Fold(order[:8], order[8:10], order[10:])
    task = "node", "forecast", Metric("mse", False), 1, FeatureEncoding("float", 1)
    return GraphTaskData("series", graphs, [fold], *task)
