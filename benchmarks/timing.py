"""Times several models side by side: one step each in turn, so that all meet the same machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch.nn import Module

from benchmarks.graphs import Problem
from torch_grama.nn.recording import Recording

# A model that has been timed this often and for this long sits out the remaining rounds.
FEWEST_STEPS = 5
LONGEST_MS = 3000.0


@dataclass
class Timing:
    """Milliseconds: median and quartiles; peak memory in GiB (CUDA only)."""

    train: tuple[float, float, float]
    infer: tuple[float, float, float]
    memory: float | None


def time_models(
    models: dict[str, Callable[[], Module]],
    problem: Problem,
    steps: int,
    warmup: int,
    autocast: tuple[str, ...] = (),
) -> dict[str, Timing]:
    """Returns the timings of full training steps and of inference for each model."""
    built = {name: build().to(problem.x.device) for name, build in models.items()}
    optimizers = {
        name: torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        for name, model in built.items()
    }

    def train(name: str) -> None:
        optimizers[name].zero_grad()
        _loss(built[name], problem, name in autocast).backward()
        optimizers[name].step()

    def infer(name: str) -> None:
        with torch.no_grad(), _precision(problem, name in autocast):
            _forward(built[name], problem)

    for model in built.values():
        model.train()
    training = _interleave(train, list(built), problem.x.device, steps, warmup)
    memory = {name: _peak_memory(lambda name=name: train(name), problem.x.device) for name in built}
    for model in built.values():
        model.eval()
    inference = _interleave(infer, list(built), problem.x.device, steps, warmup)
    return {name: Timing(training[name], inference[name], memory[name]) for name in built}


def time_recorded(
    models: dict[str, Callable[[], Module]], problem: Problem, steps: int
) -> dict[str, tuple[float, float]]:
    """Milliseconds of a training step and of inference, both replayed from a CUDA graph."""
    found = {}
    for name, build in models.items():
        model = build().to(problem.x.device)
        rate = torch.tensor(1e-4, device=problem.x.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, capturable=True, fused=True)
        train = Recording(partial(_step, model, optimizer, problem), problem.x.device, warm_ups=3)
        training = _replayed(train, steps)
        infer = Recording(partial(_infer, model.eval(), problem), problem.x.device)
        found[name] = training, _replayed(infer, steps)
    return found


def _step(model: Module, optimizer: torch.optim.Optimizer, problem: Problem) -> None:
    optimizer.zero_grad(set_to_none=True)
    _loss(model, problem, False).backward()
    optimizer.step()


@torch.no_grad()
def _infer(model: Module, problem: Problem) -> torch.Tensor:
    return _forward(model, problem)


def _replayed(run: Callable[[], object], steps: int) -> float:
    times = []
    for step in range(8 + steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        if step >= 8:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def _interleave(
    run: Callable[[str], None], names: list[str], device: torch.device, steps: int, warmup: int
) -> dict[str, tuple[float, float, float]]:
    measured: dict[str, list[float]] = {name: [] for name in names}
    for step in range(warmup + steps):
        for name in names:
            if len(measured[name]) >= FEWEST_STEPS and sum(measured[name]) > LONGEST_MS:
                continue
            _synchronize(device)
            start = time.perf_counter()
            run(name)
            _synchronize(device)
            if step >= warmup:
                measured[name].append(1e3 * (time.perf_counter() - start))
    return {name: _quartiles(times) for name, times in measured.items()}


def _quartiles(times: list[float]) -> tuple[float, float, float]:
    if len(times) < 4:
        return statistics.median(times), min(times), max(times)
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, low, high


def _peak_memory(run: Callable[[], None], device: torch.device) -> float | None:
    """Peak memory of one step, over what the other models hold."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    return float((torch.cuda.max_memory_allocated(device) - before) / 2**30)


def _loss(model: Module, problem: Problem, autocast: bool) -> torch.Tensor:
    with _precision(problem, autocast):
        return F.cross_entropy(_forward(model, problem), problem.y)


def _forward(model: Module, problem: Problem) -> torch.Tensor:
    keywords = {}
    if problem.batch is not None:
        keywords = {"batch": problem.batch, "batch_size": problem.batch_size}
    out: torch.Tensor = model(problem.x, problem.edge_index, **keywords)
    return out


def _precision(problem: Problem, autocast: bool) -> torch.autocast:
    return torch.autocast(problem.x.device.type, dtype=torch.bfloat16, enabled=autocast)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
