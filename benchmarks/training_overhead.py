"""What does an epoch through ``fit`` cost beside the bare loop?

python -m benchmarks.training_overhead                   a Minesweeper-sized graph, on the CPU
python -m benchmarks.training_overhead --device cuda
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.data import Data

from benchmarks.graphs import chain
from torch_grama import GRAMA
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.training import (
    EpochReport,
    FitStart,
    GraphDataModule,
    GraphTask,
    TrainerSettings,
    build_metric,
    fit,
)

# Nodes, undirected edges, features and classes of Minesweeper.
MINESWEEPER = (10_000, 39_402, 7, 2)
BOUND = 1.15


class EpochClock:
    """Notes the moment at which every epoch ends."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def begin(self, start: FitStart) -> None:
        print(start)

    def epoch(self, report: EpochReport) -> None:
        self.moments.append(time.perf_counter())

    def note(self, text: str) -> None:
        print(text)

    def end(self) -> None:
        pass


def build_data() -> GraphTaskData:
    """A task of the size of Minesweeper: half to learn from, a quarter each for the others."""
    problem = chain(*MINESWEEPER)
    graph = Data(x=problem.x, edge_index=problem.edge_index, y=problem.y)
    order = torch.randperm(len(problem.y), generator=torch.Generator().manual_seed(0))
    part = order.argsort() * 4 // len(order)
    return GraphTaskData(
        "minesweeper-sized",
        [graph],
        [Fold(part < 2, part == 2, part == 3)],
        "node",
        "classification",
        Metric("roc_auc", True),
        problem.num_classes,
        FeatureEncoding("float", problem.x.size(1)),
    )


def build_model(width: int) -> GRAMA:
    """GRAMA as it comes, with dropout."""
    torch.manual_seed(0)
    return GRAMA(MINESWEEPER[2], width, MINESWEEPER[3], dropout=0.2)


def time_bare_loop(
    data: GraphTaskData, width: int, epochs: int, device: torch.device
) -> list[float]:
    """Seconds of each epoch of forward, backward, step, validation."""
    model = build_model(width).to(device)
    graph, fold = data.graphs[0].to(device), data.folds[0]
    train, val = (part.nonzero().reshape(-1).to(device) for part in (fold.train, fold.val))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    metric = build_metric(data.metric.name, data.kind, data.num_outputs).to(device)
    moments = [time.perf_counter()]
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        out = model(graph.x, graph.edge_index)
        F.cross_entropy(out[train], graph.y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            out = model(graph.x, graph.edge_index)
            loss = F.cross_entropy(out[val], graph.y[val])
        metric.reset()
        metric.update(out[val], graph.y[val])
        float(loss), float(metric.compute())
        moments.append(time.perf_counter())
    return differences(moments)


def time_fit(data: GraphTaskData, width: int, epochs: int, device: torch.device) -> list[float]:
    """Seconds of each epoch of ``fit``, files and all."""
    clock = EpochClock()
    settings = TrainerSettings(max_epochs=epochs, patience=None, accelerator=accelerator(device))
    task = GraphTask.for_data(build_model(width), data)
    with tempfile.TemporaryDirectory() as folder:
        fit(task, GraphDataModule(data, 0, settings), Path(folder) / "run", report=clock)
    return differences(clock.moments)


def accelerator(device: torch.device) -> str:
    return "cuda" if device.type == "cuda" else "cpu"


def differences(moments: list[float]) -> list[float]:
    return [late - early for early, late in pairwise(moments)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=64, help="hidden channels")
    parser.add_argument("--epochs", type=int, default=20, help="of each turn")
    parser.add_argument("--turns", type=int, default=3, help="the two take turns")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    data = build_data()
    bare: list[float] = []
    through: list[float] = []
    for _ in range(arguments.turns):
        bare += time_bare_loop(data, arguments.width, arguments.epochs, device)[2:]
        through += time_fit(data, arguments.width, arguments.epochs, device)[1:]
    one, two = (1e3 * statistics.median(times) for times in (bare, through))
    print(f"bare loop {one:.1f} ms per epoch, fit {two:.1f} ms: {two / one:.3f} times")
    if two / one > BOUND:
        raise SystemExit(f"Expected at most {BOUND} times the bare loop")


if __name__ == "__main__":
    main()
