"""Trains a model into a run folder, or goes on where a run was left."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from torch_grama.nn.padding import PaddingError
from torch_grama.nn.subnormals import flush_subnormals
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.words import clip, format_bytes
from torch_grama.training.captured_step import (
    CapturedTraining,
    pays,
    plan_forward,
    plan_training,
    records_on,
    settled_norms,
    try_whole_graph,
)
from torch_grama.training.checkpoint_file import (
    ORIGIN,
    Checkpoint,
    CheckpointError,
    Origin,
    SafeCheckpointIO,
    hash_data,
    previous_path,
    read_checkpoint,
    read_latest,
    write_checkpoint,
)
from torch_grama.training.data_module import GraphDataModule
from torch_grama.training.epoch_end import (
    EpochEnd,
    StopReason,
    best_checkpoint,
    count_from_one,
    is_state,
)
from torch_grama.training.evaluate import choose_device, initialize_lazily, load_weights
from torch_grama.training.input_stage import FitsLabels, InputChecks, fits_labels, node_classes
from torch_grama.training.loaders import FixedBatches, GraphBatches
from torch_grama.training.process_state import (
    QuietDDPStrategy,
    SignalWatch,
    TrainingInterruptedError,
    keep_random_state,
    quiet_lightning,
)
from torch_grama.training.progress import FitStart, Reporter, ReportName, build_reporter
from torch_grama.training.scores import RankingMetric
from torch_grama.training.task import GraphTask
from torch_grama.training.trainer_settings import PRECISIONS

# Nodes and edges of a graph on which a step takes longer than Python needs to start it.
_LARGEST_GRAPH = 1_000_000


class TrainingProcessError(RuntimeError):
    r"""One of several training processes failed or was killed."""


@dataclass(frozen=True)
class FitOutcome:
    r"""What came of :func:`~torch_grama.training.fit`."""

    #: ``"max_epochs"``, ``"patience"`` (validation stopped improving), ``"min_lr"`` (a plateau
    #: schedule came to its end) or ``"signal"`` (interrupted, to be resumed)
    stop_reason: StopReason
    metric: str  #: name of the metric
    best_value: float  #: its best value on validation; NaN if it was never a number
    best_epoch: int  #: the epoch of that value, from 1 on; 0 if there is none
    epochs: int  #: epochs done, those before an interruption included
    seconds: float  #: time spent training, likewise
    last_checkpoint: Path  #: the state to resume from
    best_checkpoint: Path  #: the weights of the best epoch; the task has them
    metrics_file: Path  #: one row per epoch
    #: number of the signal that came, if one did: it interrupted the run, or came in the last epoch
    #: of one that is finished
    signal: int | None = None
    resumed_from: Path | None = None  #: the checkpoint the run went on from, if it did
    notes: tuple[str, ...] = ()  #: what the user should know, one sentence each
    changes: tuple[str, ...] = ()  #: what was changed when the run was resumed, likewise

    @property
    def is_finished(self) -> bool:
        r"""Whether the run came to its end."""
        return self.stop_reason != "signal"

    @property
    def exit_code(self) -> int:
        r"""What a command exits with: 0, or 128 plus the number of the signal."""
        return 0 if self.signal is None else 128 + self.signal


def fit(
    task: GraphTask,
    data_module: GraphDataModule,
    folder: str | Path,
    *,
    resume: bool = False,
    report: ReportName | Reporter = "auto",
    tensorboard: bool = True,
    callbacks: Sequence[pl.Callback] = (),
    origin: Origin | None = None,
) -> FitOutcome:
    r"""Trains a task on the training part of a data set and selects by its validation part.

    The folder receives ``checkpoints/last.ckpt`` (and the one before), ``checkpoints/best.ckpt``,
    ``metrics.csv`` and ``tensorboard/``. On a CPU, a run that was killed at any moment and resumed
    ends with the numbers, weights and predictions of one that was not, bit for bit. SIGTERM and
    Ctrl-C end it after the current step, saved. In the end the task has the best weights, and
    random numbers of the caller go on where they were, whatever training seeded.

    Args:
        task (GraphTask): Model, loss and metric.
        data_module (GraphDataModule): Training and validation batches.
        folder (str or Path): The run folder.
        resume (bool, optional): Whether to go on with the run in the folder; where there is none
            yet, it begins. (default: :obj:`False`)
        report (str or Reporter, optional): ``"auto"``, ``"rich"``, ``"plain"``, ``"quiet"``,
            ``"json"`` or something with the methods of :class:`Reporter`. (default: :obj:`"auto"`)
        tensorboard (bool, optional): Whether to write TensorBoard events. (default: :obj:`True`)
        callbacks (sequence of Callback, optional): Lightning callbacks that watch the run; they
            must leave the model, its gradients and random numbers alone. (default: none)
        origin (Origin, optional): What the run is made of; a resumed run must be made of the same.
            (default: the settings of task and data module, and the values of the data)

    Returns:
        FitOutcome: Why it ended, the best epoch and its value, and the files.

    Raises:
        ValueError: If settings do not fit together, or the folder has a run and :obj:`resume` is
            not set.
        RunError: If there is a run to resume that was started with other settings or data.
        NonFiniteLossError: If the loss is no finite number.
        TrainingProcessError: If one of several processes fails, with its message, or is killed.
        CheckpointError: If there is a run to resume but no good checkpoint of it, or the last one
            could not be written.
    """
    settings = data_module.settings
    device = choose_device(settings, training=True)
    files = RunFolder(Path(folder))
    several = settings.devices > 1
    reporter = build_reporter(report, several)
    found, source, notes = _find_run(files, resume)
    if settings.precision == "bf16" and device.type == "cpu" and not _multiplies_in_bf16():
        reporter.note("this CPU has no instructions for bf16, so '32' would be many times faster")
    origin = origin or _describe_origin(task, data_module)
    try:
        epochs = 0
        if found is not None:
            state = _read_state(found)
            epochs = state["run"]["epochs"]
            if ORIGIN not in state:
                notes.append(
                    f"'{source}' was written before version 0.2 and says nothing of its settings "
                    f"and data, so that they are not compared with those of now"
                )
            for text in notes:
                reporter.note(text)
            origin = origin.follow(state, files.path, epochs)
            state[ORIGIN] = dataclasses.asdict(origin)
            is_over = state["run"]["stop_reason"] in ("patience", "min_lr")
            if is_over or epochs >= settings.max_epochs:
                return _conclude(task, files, found, state, source, notes)
        else:
            _check_metric(task, data_module)
        initialize_lazily(task, data_module.example())
        if found is not None:
            load_weights(task, found, source)  # says in a sentence what Lightning lists by keys
        reporter.begin(
            FitStart(
                data=data_module.data.name,
                model=task.title,
                num_parameters=sum(p.numel() for p in task.model.parameters() if p.requires_grad),
                parameter_budget=data_module.data.parameter_budget,
                device=f"{settings.devices} x {device.type}" if several else str(device),
                first_epoch=epochs,
                max_epochs=settings.max_epochs,
            )
        )
        if found is None and fits_labels(task.model):
            # several processes are given the weights of this one, which must be on the CPU
            place = torch.device("cpu") if several else device
            batch = data_module.example().to(place)
            if (classes := node_classes(batch)) is not None:
                model = cast(FitsLabels, task.to(place).model)
                model.fit_labels(*classes, *batch.inputs, **task.positions(batch))
        ending = EpochEnd(
            files, settings, data_module.steps_per_epoch, task.metric, reporter, tensorboard, origin
        )
        with _determinism(settings.deterministic), keep_random_state():
            line = _capture(task, data_module, device)
            if line is not None and report != "quiet":  # nothing to act on, and said by every run
                reporter.note(line)
            received = _train(task, data_module, device, source, ending, callbacks)
    finally:
        reporter.end()
    last = read_checkpoint(files.last)
    final = _read_state(last)
    assert final["run"]["stop_reason"], "the last checkpoint of a run says why it ended"
    # one that came in the last epoch ended nothing, and is for the caller to obey
    final["run"]["signal"] = final["run"]["signal"] or received
    return _conclude(task, files, last, final, source, notes)


def read_best(files: RunFolder) -> tuple[Checkpoint, Path]:
    r"""Reads the selected weights, or the last ones of a finished run that could select none."""
    if files.best.exists():
        return read_checkpoint(files.best), files.best
    if files.last.exists():
        last = read_checkpoint(files.last)
        state = _read_state(last)
        if state["run"]["stop_reason"] not in ("", "signal") and state["best_epoch"] < 1:
            return {**last, ORIGIN: state.get(ORIGIN)}, files.last
    raise RunError(
        f"'{files.path}' has no weights yet: go on with `grama train --resume {files.path}`"
    )


def _find_run(files: RunFolder, resume: bool) -> tuple[Checkpoint | None, Path | None, list[str]]:
    there = [path for path in (files.last, previous_path(files.last)) if path.exists()]
    if not there:
        return None, None, []
    if not resume:
        raise ValueError(
            f"Expected a folder without a run (got '{files.path}' with '{there[0].name}'); resume "
            "it, or name another folder"
        )
    content, source, note = read_latest(files.last)
    return content, source, [note] if note else []


def _check_metric(task: GraphTask, data_module: GraphDataModule) -> None:
    """A ranking does not exist where validation has one class alone, whatever is predicted."""
    metric = copy.deepcopy(task.val_metric)
    if not isinstance(metric, RankingMetric):
        return
    for batch in data_module.source("val").batches(0, 0):
        assert batch.y is not None
        metric.update(torch.zeros(len(batch.y), task.num_outputs), batch.y, batch.weight)
    if metric.compute().isnan():
        raise ValueError(
            f"Expected both classes in the validation part of '{data_module.data.name}', which "
            f"{task.metric.name} ranks (got one alone): choose another metric, such as `--data."
            f"options.metric accuracy`, or another split"
        )


def _describe_origin(task: GraphTask, data_module: GraphDataModule) -> Origin:
    settings = {
        f"{section}.{name}": value
        for section, given in (
            ("optimizer", task.optimizer_settings),
            ("schedule", task.schedule_settings),
            ("trainer", data_module.settings),
        )
        for name, value in dataclasses.asdict(cast(Any, given)).items()
    }
    return Origin(settings, hash_data(data_module.data, 0))  # whatever was chosen is the only fold


def _read_state(checkpoint: Checkpoint) -> dict[str, Any]:
    callbacks = checkpoint.get("callbacks")
    state = callbacks.get(EpochEnd.__qualname__) if isinstance(callbacks, dict) else None
    if not isinstance(state, dict) or not is_state(state):
        raise CheckpointError(
            "Expected a checkpoint with the state of a run (got one without, such as weights "
            "alone); start the run again"
        )
    return count_from_one(state)


def _multiplies_in_bf16() -> bool:
    mkldnn = torch.backends.mkldnn.is_available()
    return mkldnn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextmanager
def _determinism(asked_for: bool) -> Iterator[None]:
    """As Lightning sets it, but earlier: what is recorded before training is replayed in it."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        if asked_for:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _capture(task: GraphTask, data_module: GraphDataModule, device: torch.device) -> str | None:
    r"""Has steps recorded where that was asked for, or is possible and pays; says so in a line."""
    settings = data_module.settings
    steps = settings.max_epochs * data_module.steps_per_epoch
    if settings.capture is False or (settings.capture == "auto" and not pays(device, steps)):
        return None
    try:
        return _record(task, data_module, device)
    except PaddingError as error:
        if settings.capture is True:
            raise ValueError(f"{error}; set trainer.capture to 'auto' or false") from error
        return f"Steps are not recorded as CUDA graphs: {error}"


def _record(task: GraphTask, data_module: GraphDataModule, device: torch.device) -> str:
    settings = data_module.settings
    if not records_on(device) or settings.devices > 1 or settings.precision == "16":
        raise PaddingError(
            "Expected one CUDA device and precision '32' or 'bf16' with 'trainer.capture' (got "
            f"{settings.devices} x {device.type}, '{settings.precision}')"
        )
    task.to(device)
    source = data_module.source("train")
    if isinstance(source, GraphBatches):
        source.place(device)
        if source.pack.device != device:
            raise PaddingError(
                f"Expected graphs that fit into the memory of the device (got "
                f"{format_bytes(source.pack.nbytes)})"
            )
    elif not isinstance(source, FixedBatches):
        raise PaddingError("Expected whole graphs (got subgraphs)")
    batch = data_module.example().to(device)
    if task.own_loss(batch) is not None:
        raise PaddingError(
            f"Expected a model without a loss term of its own (got {type(task.model).__name__})"
        )
    clip_and_place = settings.gradient_clip, settings.precision, device
    if isinstance(source, FixedBatches):
        too_large = batch.num_nodes + batch.num_edges > _LARGEST_GRAPH
        if settings.capture == "auto" and too_large:
            raise PaddingError("a step on a graph of this size does not wait for Python")
        try_whole_graph(task, batch)
        task.capture(CapturedTraining(task, None, *clip_and_place))
        return "Training steps are recorded as a CUDA graph and replayed"
    planned = plan_training(task, source)
    validation = None
    judged = data_module.source("val")
    assert isinstance(judged, GraphBatches)
    judged.place(device)
    if judged.pack.device == device:
        with settled_norms(task, batch):
            validation = plan_forward(task, judged, settings.precision)
        data_module.plan("val", validation.source)
    # from here on nothing is tried that could fail
    data_module.plan("train", planned)
    task.capture(CapturedTraining(task, planned, *clip_and_place), validation)
    sizes = ", ".join(f"{b.nodes:,} nodes and {b.edges:,} edges" for b in planned.buckets)
    return f"Steps are recorded as CUDA graphs and replayed; batches are padded to {sizes}"


def _train(
    task: GraphTask,
    data_module: GraphDataModule,
    device: torch.device,
    source: Path | None,
    ending: EpochEnd,
    callbacks: Sequence[pl.Callback],
) -> int | None:
    r"""Trains, and returns the signal that came meanwhile, if one did."""
    settings, files = data_module.settings, ending.folder
    several = settings.devices > 1
    task.last_good_checkpoint = files.describe_last
    checks = InputChecks(task.model)
    try:
        with quiet_lightning(), flush_subnormals(), SignalWatch(forward=several) as watch:
            if not several:
                ending.watch = watch
            trainer = pl.Trainer(
                accelerator=device.type,
                devices=settings.devices,
                # processes are spawned, so that the caller's code runs once
                strategy=QuietDDPStrategy(start_method="spawn") if several else "auto",
                precision=cast(Any, PRECISIONS[settings.precision]),
                max_epochs=settings.max_epochs,
                check_val_every_n_epoch=settings.check_val_every,
                # a recorded step limits its gradient itself
                gradient_clip_val=settings.gradient_clip if task.automatic_optimization else None,
                deterministic=settings.deterministic,
                callbacks=[*callbacks, checks, ending],
                plugins=[SafeCheckpointIO()],
                default_root_dir=str(files.path),
                logger=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                num_sanity_val_steps=0,
                use_distributed_sampler=False,
                # torch has no such norm for CPUs: there, each process normalises its own share
                sync_batchnorm=several and device.type == "cuda",
                # what a model caches in validation must be fit for gradients
                inference_mode=False,
            )
            trainer.fit(
                task, datamodule=data_module, ckpt_path=None if source is None else str(source)
            )
    except TrainingInterruptedError:
        pass  # saved, and said in the outcome
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        ours = isinstance(error, CheckpointError | RunError | torch.OutOfMemoryError)
        if source is None or ending.has_begun or ours:
            raise
        raise CheckpointError(
            f"Expected the state of this run in '{source}' (got one that it cannot go on from: "
            f"{type(error).__name__}, {clip(' '.join(str(error).split()))}); start the run again"
        ) from error
    except ProcessRaisedException as error:
        reason = str(error).strip().splitlines()[-1]
        raise TrainingProcessError(f"A training process failed: {reason}") from error
    except ProcessExitedException as error:
        raise TrainingProcessError(
            f"A training process ended from outside ({error.signal_name or error.exit_code}), and "
            f"the others with it; resume the run from {files.describe_last()}"
        ) from error
    finally:
        task.capture(None)
        checks.set(True)
    return watch.received


def _conclude(
    task: GraphTask,
    files: RunFolder,
    last: Checkpoint,
    state: dict[str, Any],
    source: Path | None,
    notes: list[str],
) -> FitOutcome:
    """Gives the task the best weights, and makes sure that their file has them too."""
    run = state["run"]
    if state["best_epoch"]:
        best = best_checkpoint(task.metric.name, state)
        load_weights(task, best, files.best)
        written: Checkpoint = {}
        with suppress(CheckpointError):
            written = read_checkpoint(files.best)
        # a kill can come after the one file and before the other
        if (written.get("epoch"), written.get("value")) != (best["epoch"], best["value"]):
            write_checkpoint(files.best, best)
    else:
        load_weights(task, last, files.last)
        notes = [
            *notes,
            f"Validation {task.metric.name} was never a number, so the last weights stand for the "
            "best",
        ]
    return FitOutcome(
        stop_reason=cast(StopReason, run["stop_reason"] or "max_epochs"),
        metric=task.metric.name,
        best_value=state["best_value"],
        best_epoch=state["best_epoch"],
        epochs=run["epochs"],
        seconds=run["seconds"],
        last_checkpoint=files.last,
        best_checkpoint=files.best if state["best_epoch"] else files.last,
        metrics_file=files.metrics,
        signal=run["signal"] or None,
        resumed_from=source,
        notes=tuple(notes),
        changes=tuple(state[ORIGIN]["changes"]),
    )
