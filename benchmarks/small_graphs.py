"""Many small graphs: what a training step costs as it is, and replayed from a record."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch.nn import Module
from torch.profiler import ProfilerActivity, profile
from torch_geometric.data import Data

from benchmarks.graphs import molecules
from benchmarks.stacks import GCNStack, GPSStack, PlainGatedGCN
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.nn import GRAMA, Running
from torch_grama.nn.padding import PaddingError
from torch_grama.training import GraphDataModule, GraphTask, OptimizerSettings, TrainerSettings
from torch_grama.training.captured_step import CapturedTraining, plan_training
from torch_grama.training.loaders import GraphBatches
from torch_grama.training.optimizer import build_optimizer

Row = dict[str, str | int | float | None]


@dataclass(frozen=True)
class Molecules:
    """A data set like a known one: graphs here and there, nodes per graph, batch sizes."""

    name: str
    num_graphs: int
    real_graphs: int
    mean_nodes: int
    batch_sizes: tuple[int, int]
    width: int
    depth: int


ZINC = Molecules("ZINC", 2_000, 10_000, 23, (32, 128), 104, 8)
PEPTIDES = Molecules("Peptides", 600, 10_873, 150, (16, 128), 225, 6)


def molecules_scene(device: torch.device, quick: bool) -> list[Row]:
    """Batches like those of ZINC and of the peptides, eager and (on CUDA) recorded."""
    rows: list[Row] = []
    for kind in (ZINC, PEPTIDES):
        data = _data(kind)
        for batch_size in kind.batch_sizes:
            models = _models(kind)
            if quick:
                models = {name: models[name] for name in list(models)[-2:]}
            for name, build in models.items():
                rows.append(_measure(kind, data, batch_size, name, build, device, quick))
                _print(rows[-1])
    return rows


def together_scene(device: torch.device, quick: bool) -> list[Row]:
    """Recorded runs side by side on one device, each in a process of its own; they share it well
    under MPS (``nvidia-cuda-mps-control -d``).
    """
    if device.type != "cuda":
        return []
    rows: list[Row] = []
    for count in (1, 8):
        context = multiprocessing.get_context("spawn")
        start, speeds = context.Barrier(count), context.Queue()
        processes = [
            context.Process(target=_run_together, args=(start, speeds, 2.0 if quick else 8.0))
            for _ in range(count)
        ]
        for process in processes:
            process.start()
        total = sum(speeds.get() for _ in processes)
        for process in processes:
            process.join()
        rows.append({"scene": "side by side", "model": "GRAMA(GatedGCN)", "runs": count})
        rows[-1]["steps_a_second"] = total
        print(f"{count} runs side by side: {total:.0f} steps per second", flush=True)
    return rows


def _run_together(start: Any, speeds: Any, seconds: float) -> None:
    build = _models(ZINC)["GRAMA(GatedGCN)"]
    replay = _record(*_prepare(_data(ZINC), 32, build, torch.device("cuda", 0)))
    start.wait()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(50):
            replay()
        torch.cuda.synchronize()
        count += 50
    speeds.put(count / (time.perf_counter() - begin))


def _models(kind: Molecules) -> dict[str, Callable[[], Module]]:
    sizes, depth = (16, kind.width), kind.depth

    def grama(backbone: str) -> Callable[[], Module]:
        return partial(
            GRAMA,
            *sizes,
            1,
            seq_len=2,
            num_blocks=depth // 2,
            backbone=backbone,
            readout="graph",
            edge_dim=None if backbone == "gcn" else 4,
            running=Running(check_input=False),
        )

    models: dict[str, Callable[[], Module]] = {
        "PyG GCN": partial(_NoEdges, partial(GCNStack, *sizes, depth, 1, cached=False)),
        "GRAMA(GCN)": partial(_NoEdges, grama("gcn")),
        "GatedGCN": partial(PlainGatedGCN, *sizes, depth, 1, edge_dim=4),
        "GRAMA(GatedGCN)": grama("gatedgcn"),
    }
    if kind is ZINC:
        models["PyG GPS"] = partial(_NoEdges, partial(GPSStack, *sizes, depth, 1))
        models["GRAMA(GPS)"] = grama("gps")
    else:
        models["GRAMA(molecule layer)"] = grama("neighbor-sum")
    return models


class _NoEdges(Module):
    """A model that is not shown edge attributes."""

    def __init__(self, build: Callable[[], Module]) -> None:
        super().__init__()
        self.model = build()

    def forward(
        self,
        x: torch.Tensor,
        edge_index: torch.Tensor,
        edge_weight: None,
        edge_attr: torch.Tensor,
        batch: torch.Tensor,
        batch_size: int,
    ) -> torch.Tensor:
        out: torch.Tensor = self.model(x, edge_index, batch=batch, batch_size=batch_size)
        return out


def _data(kind: Molecules) -> GraphTaskData:
    problem = molecules(kind.num_graphs, kind.mean_nodes)
    assert problem.batch is not None
    sizes = torch.bincount(problem.batch).tolist()
    starts = torch.tensor([0, *sizes]).cumsum(0)
    owner = problem.batch[problem.edge_index[0]]
    generator = torch.Generator().manual_seed(1)
    graphs = []
    for number, size in enumerate(sizes):
        edges = problem.edge_index[:, owner == number] - starts[number]
        edges = edges[:, edges[0] != edges[1]]
        graphs.append(
            Data(
                x=problem.x[starts[number] : starts[number] + size],
                edge_index=edges,
                edge_attr=torch.randn(edges.size(1), 4, generator=generator),
                y=torch.randn(1, 1, generator=generator),
            )
        )
    order = torch.arange(kind.num_graphs)
    encodings = FeatureEncoding("float", 16), FeatureEncoding("float", 4)
    fold = Fold(order[:-20], order[-20:-10], order[-10:])
    return GraphTaskData(
        kind.name, graphs, [fold], "graph", "regression", Metric("mae", False), 1, *encodings
    )


def _measure(
    kind: Molecules,
    data: GraphTaskData,
    batch_size: int,
    name: str,
    build: Callable[[], Module],
    device: torch.device,
    quick: bool,
) -> Row:
    task, source = _prepare(data, batch_size, build, device)
    whole = [batch for batch in source.batches(0, 0) if batch.batch_size == batch_size]
    batches = cycle(whole)
    optimizer = build_optimizer(OptimizerSettings(), task.model)

    def eager() -> None:
        optimizer.zero_grad()
        total, weight = task.measure(next(batches))
        (total / weight).backward()
        optimizer.step()

    steps_an_epoch = -(-kind.real_graphs // batch_size)
    eager_ms = _milliseconds(eager, device, 3 if quick else 20)
    row: Row = {
        "scene": f"{kind.name}, batch {batch_size}",
        "model": name,
        "width": kind.width,
        "depth": kind.depth,
        "eager_ms": eager_ms,
        "eager_epochs_a_minute": 6e4 / eager_ms / steps_an_epoch,
    }
    if device.type != "cuda":
        return row
    row["eager_kernels"], row["eager_device_ms"] = _profile(eager)
    begin = time.perf_counter()
    try:
        replay = _record(task, source)
    except PaddingError as error:
        return {**row, "not_recorded": str(error)}
    row["recording_seconds"] = time.perf_counter() - begin
    recorded_ms = _milliseconds(replay, device, 20 if quick else 200, together=True)
    row["recorded_ms"] = recorded_ms
    row["recorded_steps_a_second"] = 1e3 / recorded_ms
    row["recorded_epochs_a_minute"] = 6e4 / recorded_ms / steps_an_epoch
    row["recorded_kernels"], row["recorded_device_ms"] = _profile(replay)
    return row


def _prepare(
    data: GraphTaskData, batch_size: int, build: Callable[[], Module], device: torch.device
) -> tuple[GraphTask, GraphBatches]:
    torch.manual_seed(0)
    task = GraphTask.for_data(build(), data).to(device)
    task.train()
    source = GraphDataModule(data, 0, TrainerSettings(batch_size=batch_size)).source("train")
    assert isinstance(source, GraphBatches)
    source.place(device)
    return task, source


def _record(task: GraphTask, source: GraphBatches) -> Callable[[], None]:
    """A function that runs the next recorded step; all batches have the usual number of graphs."""
    optimizer = build_optimizer(OptimizerSettings(), task.model, capturable=True)
    planned = plan_training(task, source)
    device = source.pack.device
    steps = CapturedTraining(task, planned, None, "32", device, optimizer)
    plans = list(planned.batches(0, 0))
    turn = cycle([plan for plan in plans if plan.size.graphs == plans[0].size.graphs])

    def replay() -> None:
        steps.run(next(turn))

    for _ in range(len(plans) + 8):
        replay()
    torch.cuda.synchronize(device)
    return replay


def _milliseconds(
    run: Callable[[], None], device: torch.device, steps: int, together: bool = False
) -> float:
    """The median time of a step; together, the mean of steps that nobody waits for."""
    for _ in range(3):
        run()
    times = []
    for count in [steps] if together else [1] * steps:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        for _ in range(count):
            run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(1e3 * (time.perf_counter() - begin) / count)
    return statistics.median(times)


def _profile(run: Callable[[], None], steps: int = 5) -> tuple[float, float]:
    """Kernels and device milliseconds of a step."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
    kernels = [event for event in found.events() if event.device_type.name == "CUDA"]
    return len(kernels) / steps, sum(event.device_time for event in kernels) / 1e3 / steps


def _print(row: Row) -> None:
    text = f"{row['scene']!s:22s} {row['model']!s:22s} eager {row['eager_ms']:7.2f} ms"
    if "recorded_ms" in row:
        text += (
            f" ({row['eager_kernels']:.0f} kernels)  recorded {row['recorded_ms']:6.2f} ms "
            f"({row['recorded_kernels']:.0f} kernels, {row['recorded_device_ms']:.2f} ms of them), "
            f"{row['recorded_epochs_a_minute']:.0f} epochs per minute"
        )
    print(text + str(row.get("not_recorded", "")), flush=True)
