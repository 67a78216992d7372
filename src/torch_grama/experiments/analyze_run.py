"""Looks at the best weights of a run: dynamics, reach, smoothness, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from torch_grama.analysis import (
    Analysis,
    AnalysisSettings,
    ModelInput,
    Predictions,
    analyze,
    write_analysis,
)
from torch_grama.datasets import GraphTaskData
from torch_grama.datasets.audit import known_influence
from torch_grama.datasets.storage import Report
from torch_grama.experiments.finished_run import LoadedRun, load_own_data, load_run
from torch_grama.experiments.run import build_task
from torch_grama.nn.subnormals import flush_subnormals
from torch_grama.runs.run_files import name_model
from torch_grama.runs.run_folder import ANALYSIS, RunError
from torch_grama.training import GraphTask, predict
from torch_grama.training.graph_batch import (
    GraphBatch,
    PackedGraphs,
    batch_of_one,
    collect_positions,
    target_rows,
)
from torch_grama.training.process_state import keep_random_state

Split = Literal["train", "val", "test"]

# The name of the model as it was built, with no training.
BEFORE = "before training"

# Graphs of a data set of many that are predicted for the errors.
_MAX_PREDICTED = 2000
_BATCH = 64


@flush_subnormals()  # before torch starts its threads
@keep_random_state()
def analyze_run(
    folder: str | Path,
    *,
    compare: Sequence[str | Path] = (),
    split: Split = "val",
    settings: AnalysisSettings | None = None,
    report: Callable[[str], None] | None = None,
    data_report: Report | None = None,
    out: str | Path | None = None,
) -> Analysis:
    r"""Analyses the best weights of a run on its own data and writes ``analysis.json`` beside them,
    or to :obj:`out`.

    Of a data set of many graphs those of one part are looked at; of a single graph, the whole
    carries messages and the nodes of the part are judged. Reach and smoothness are set beside those
    of the model before training and of the runs to compare, and beside the reach of the task where
    it is known.
    """
    run = load_run(folder)
    others = _load_others(run, compare)
    data = load_own_data(run, data_report)
    if report is not None:
        report("predictions")
    numbers = _graphs_of(data, run.config.data.fold, split)
    batches = _batches(data, numbers)
    inputs = [
        replace(
            ModelInput(*cast(Any, batch.inputs)), pe=collect_positions(batch, random_signs=False)
        )
        for batch in batches
    ]
    predictions = _predict(run, data, numbers, batches, split)
    try:
        found = analyze(
            run.task.model,
            inputs,
            predictions=predictions,
            compare={
                BEFORE: build_task(run.config, run.facts, data).model,
                **{name: task.model for name, task in others.items()},
            },
            task=known_influence(data.name),
            settings=settings,
            report=report,
        )
    except ValueError as error:
        raise RunError(f"The run '{run.folder.path}' cannot be analysed: {error}") from error
    if data.node_names and found.example is not None:
        names = [str(data.node_names[node]) for node in found.example.nodes]
        found = replace(found, example=replace(found.example, names=names))
    write_analysis(found, run.folder.path / ANALYSIS if out is None else out)
    return found


def _load_others(run: LoadedRun, folders: Sequence[str | Path]) -> dict[str, GraphTask]:
    others: dict[str, GraphTask] = {}
    for folder in folders:
        other = load_run(folder)
        ours, theirs = run.config.data, other.config.data
        if (ours.name, other.facts) != (theirs.name, run.facts):
            raise RunError(
                f"Expected runs on the same data to compare: '{run.folder.path}' has "
                f"'{ours.name}', '{folder}' has '{theirs.name}' or other encodings of it"
            )
        name = name_model(other.config.model.name, other.config.model.options)
        if name in others or name in ("model", BEFORE):
            name = f"{name}, {other.folder.path.resolve().name}"
        others[name] = other.task
    return others


def _graphs_of(data: GraphTaskData, fold: int, split: Split) -> Tensor:
    r"""Numbers of the graphs that are looked at."""
    part: Tensor = getattr(data.folds[fold], split)
    if part.dtype == torch.bool:  # nodes of a single graph
        return torch.zeros(1, dtype=torch.long)
    if part.numel() == 0:
        raise RunError(
            f"Expected graphs in the '{split}' part of '{data.name}' (got none): name another with "
            f"`--split`"
        )
    spread = torch.linspace(0, len(part) - 1, min(len(part), _MAX_PREDICTED)).round().long()
    return part[spread]


def _batches(data: GraphTaskData, numbers: Tensor) -> list[GraphBatch]:
    if len(data.graphs) == 1:
        return [batch_of_one(data.graphs[0], None)]
    graphs = (data.graphs[number] for number in numbers.tolist())
    packed = PackedGraphs(graphs, data.level, targets=False)
    return [packed.batch(part) for part in torch.arange(len(packed)).split(_BATCH)]


def _predict(
    run: LoadedRun,
    data: GraphTaskData,
    numbers: Tensor,
    batches: Sequence[GraphBatch],
    split: Split,
) -> Predictions | None:
    graphs = [data.graphs[int(number)] for number in numbers]
    if any(graph.get("y") is None for graph in graphs):
        return None
    prediction = predict(run.task, batches)
    target = torch.cat([target_rows(graph["y"], data.level) for graph in graphs])
    if data.level == "node" and target.is_floating_point() and target.dim() == 1:
        target = target.reshape(-1, data.num_outputs)
    evaluated, anchors = None, None
    if data.level == "node" and "label_mask" in graphs[0]:
        evaluated = torch.cat([graph["label_mask"] for graph in graphs])
    fold = data.folds[run.config.data.fold]
    if fold.train.dtype == torch.bool:
        judged: Tensor = getattr(fold, split)
        evaluated = judged if evaluated is None else judged & evaluated
        anchors = fold.train if split != "train" else None
    return Predictions(data.kind, prediction, target, evaluated, anchors)
