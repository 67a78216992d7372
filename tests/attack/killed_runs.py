"""Runs in processes of their own, which die at a chosen moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch.nn import Module
from training_cases import SmallNet, graph_task, node_task

from torch_grama.experiments.models import build_model
from torch_grama.training import (
    GraphDataModule,
    GraphTask,
    OptimizerSettings,
    ScheduleSettings,
    TrainerSettings,
    evaluation_loader,
    fit,
    predict,
)
from torch_grama.training.epoch_end import History

# a process with everything imported, from which the runs are forked
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch_grama.experiments", "torch.utils.tensorboard"])


@dataclass(frozen=True)
class Case:
    """A run, and how it comes to an end."""

    level: Literal["node", "graph"]
    schedule: ScheduleSettings
    save_every: float = 0.0
    max_epochs: int = 6
    patience: int | None = 3
    loader: Literal["auto", "subgraphs"] = "auto"
    num_workers: int = 0
    model: str = ""


CASES = {
    "graphs-cosine": Case("graph", ScheduleSettings("cosine", warmup_epochs=2), model="gin"),
    "graphs-plateau": Case("graph", ScheduleSettings("plateau", patience=0, min_lr=1e-4)),
    "graphs-onecycle": Case("graph", ScheduleSettings("onecycle"), patience=None, model="grama"),
    "graphs-seldom": Case("graph", ScheduleSettings("cosine"), save_every=1e6, model="gatedgcn"),
    "nodes-plateau": Case("node", ScheduleSettings("plateau", patience=1, min_lr=1e-5)),
    "subgraphs": Case("node", ScheduleSettings(), loader="subgraphs", model="gcn"),
}
LONG_CASES = {
    "workers": Case("graph", ScheduleSettings("cosine"), num_workers=1, model="gps"),
    "subgraphs-seldom": Case(
        "node", ScheduleSettings("onecycle"), 1e6, loader="subgraphs", model="grama-gatedgcn"
    ),
}


def run_in_process(
    case: str, folder: Path, kill_at: int | None = None, send: int = signal.SIGKILL
) -> int | None:
    """Begins or resumes a run, which signals itself at event ``kill_at``; returns its exit code."""
    process = _CONTEXT.Process(target=_run, args=(case, folder, kill_at, send))
    process.start()
    process.join(1200)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError("the run did not end")
    return process.exitcode


def read_answer(folder: Path) -> dict[str, Any]:
    """What a finished run came to: outcome, rows, weights, predictions, number of events."""
    answer: dict[str, Any] = torch.load(folder / "answer.pt", weights_only=True)
    return answer


def assert_same_answer(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Asserts equality to the last bit."""
    for name in ("stop_reason", "best_value", "best_epoch", "epochs", "rows"):
        assert one[name] == two[name], name
    for name in ("weights", "last_weights"):
        assert one[name].keys() == two[name].keys()
        for key, value in one[name].items():
            assert torch.equal(value, two[name][key]), f"{name} {key}"
    assert torch.equal(one["predictions"], two["predictions"])


def find_case(name: str) -> Case:
    """The case of a name."""
    return {**CASES, **LONG_CASES}[name]


def build(case: str) -> tuple[GraphTask, GraphDataModule]:
    """The task and the data of a case."""
    chosen = find_case(case)
    data = graph_task() if chosen.level == "graph" else node_task()
    torch.manual_seed(0)
    model: Module = SmallNet(4, data.num_outputs, chosen.level)
    if chosen.model:
        model = build_model(chosen.model, 4, 8, data.num_outputs, 2, chosen.level, dropout=0.3)
    task = GraphTask.for_data(
        model,
        data,
        OptimizerSettings(lr=0.02),
        chosen.schedule,
    )
    settings = TrainerSettings(
        max_epochs=chosen.max_epochs,
        patience=chosen.patience,
        batch_size=4,
        save_every=chosen.save_every,
        gradient_clip=1.0,
        accelerator="cpu",
        num_workers=chosen.num_workers,
        loader=chosen.loader,
    )
    return task, GraphDataModule(data, 0, settings)


def _run(case: str, folder: Path, kill_at: int | None, send: int) -> None:
    # workers are started as those of a command: under a fork server they outlive a killed run
    multiprocessing.set_start_method(None, force=True)
    torch.set_num_threads(1)
    events = _count_events(kill_at, send)
    task, module = build(case)
    outcome = fit(task, module, folder, resume=True, report="json")
    if not outcome.is_finished:
        sys.exit(outcome.exit_code)
    data = graph_task() if find_case(case).level == "graph" else node_task()
    rows = [line.rpartition(",")[0] for line in outcome.metrics_file.read_text().splitlines()]
    last = torch.load(outcome.last_checkpoint, weights_only=True)
    torch.save(
        {
            "stop_reason": outcome.stop_reason,
            "best_value": outcome.best_value,
            "best_epoch": outcome.best_epoch,
            "epochs": outcome.epochs,
            "rows": rows,
            "weights": task.state_dict(),
            "last_weights": last["state_dict"],
            "predictions": predict(task, evaluation_loader(data, 0, "test", module.settings)),
            "events": events[0],
        },
        folder / "answer.pt",
    )


def _count_events(kill_at: int | None, send: int) -> list[int]:
    """Counts steps, rows, flushes and renames, and sends the signal at one of them."""
    events = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if events[0] == kill_at:
                os.kill(os.getpid(), send)
            events[0] += 1
            return function(*args, **kwargs)

        return wrapper

    # Lightning looks the steps up on the class, where their names must stay
    for owner, name in (
        (GraphTask, "training_step"),
        (GraphTask, "validation_step"),
        (History, "add"),
        (Path, "replace"),
        (os, "fsync"),
        (os, "link"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
    return events
