"""What happens around the steps of a run: seeds, schedule, selection, files, the end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint
from torch import Tensor

import torch_grama
from torch_grama.datasets.task_data import Metric
from torch_grama.runs.metrics_file import MetricsFile
from torch_grama.runs.run_folder import RunFolder
from torch_grama.training.checkpoint_file import (
    ORIGIN,
    VERSION,
    CheckpointError,
    Origin,
    write_checkpoint,
)
from torch_grama.training.optimizer import LearningRate, keep_form
from torch_grama.training.process_state import (
    SignalWatch,
    TrainingInterruptedError,
    random_state,
    restore_random_state,
    seed_all,
)
from torch_grama.training.progress import EpochReport, Reporter
from torch_grama.training.task import GraphTask
from torch_grama.training.trainer_settings import TrainerSettings

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


StopReason = Literal["max_epochs", "patience", "min_lr", "signal"]


@dataclass
class RunState:
    r"""What of a run is neither model nor optimiser."""

    stop_reason: StopReason | str = ""  # why it ended; empty while it goes on
    signal: int = 0  # the signal that interrupted it; 0 for none
    epochs: int = 0  # epochs that are over
    seconds: float = 0.0  # time spent in them
    mid_epoch: bool = False  # whether the state was taken between two steps of an epoch


@dataclass(eq=False)
class EpochEnd(Checkpoint):
    r"""Does in one place, in a fixed order, what must happen once an epoch is over: choose the best
    weights, move the learning rate, write the row, tell the user, decide whether to stop, save.

    It is a :class:`~pytorch_lightning.callbacks.Checkpoint` because Lightning calls those last. All
    of its state is in each checkpoint, the best weights included: one file is the whole truth.
    """

    folder: RunFolder
    settings: TrainerSettings
    steps_per_epoch: int
    metric: Metric
    reporter: Reporter
    tensorboard: bool
    origin: Origin

    def __post_init__(self) -> None:
        self.state = RunState()
        self.best_value, self.best_epoch = math.nan, 0  # NaN and 0 before the first
        self.history = History(self.metric.name)
        self.watch = SignalWatch()
        self._rate: LearningRate  # from the start of the fit on
        self._best_weights: dict[str, Tensor] = {}
        self._best_is_written = True
        self._loaded: Mapping[str, Any] | None = None
        self._saved_at = -math.inf
        self._begun_at = self._epoch_begun_at = 0.0
        self._epochs_here = 0
        self.has_begun = False

    # Lightning's hooks, in the order in which they are called

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        task = cast(GraphTask, pl_module)
        # before the optimiser's state is loaded, so that the schedule sees the rate it starts from
        self._rate = LearningRate(
            task.schedule_settings,
            trainer.optimizers[0],
            self.settings.max_epochs,
            self.steps_per_epoch,
            self.metric.higher_is_better,
        )

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.watch.take_over()
        if self._loaded is not None:
            keep_form(trainer.optimizers[0])
            self._rate.load_state_dict(self._loaded["learning_rate"])
        if trainer.is_global_zero:
            self.folder.path.mkdir(parents=True, exist_ok=True)
            board = self.folder.board if self.tensorboard else None
            self.history.open(self.folder.metrics, board)
        self._begun_at = self._epoch_begun_at = time.monotonic()
        if self._loaded is None:
            self._save(trainer)
        elif self.state.mid_epoch:
            restore_random_state(self._loaded["random"])
        self.state.mid_epoch = False
        self.has_begun = True

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # random numbers belong to the epoch: it comes out the same whatever ran before it
        seed_all(self.settings.seed, trainer.current_epoch, trainer.global_rank)
        self._epoch_begun_at = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any, **__: Any) -> None:
        self._rate.end_step()
        # between two steps one process alone can save: others would have random states of their own
        if trainer.world_size > 1 or trainer.is_last_batch:
            return
        # looked at once: a signal that comes while the state is saved is for the next step
        received = self.watch.received
        if received is None and not self._is_due():
            return
        self.state.mid_epoch = True
        self.state.seconds += time.monotonic() - self._epoch_begun_at
        self._epoch_begun_at = time.monotonic()
        if received is not None:
            self.state.stop_reason, self.state.signal = "signal", received
        self._save(trainer, final=received is not None)
        self.state.mid_epoch = False
        if received is not None:
            raise TrainingInterruptedError

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        epoch = trainer.current_epoch + 1
        validated = epoch % self.settings.check_val_every == 0
        measured = cast(GraphTask, pl_module).epoch_values
        loss = measured["val/loss"] if validated else None
        value = measured[f"val/{self.metric.name}"] if validated else None
        rate = self._rate.value
        # outputs that are no numbers can have an accuracy, but no loss
        if value is not None and math.isfinite(measured["val/loss"]) and self._is_better(value):
            self.best_value, self.best_epoch = value, epoch
            self._best_weights = {
                name: weights.detach().to("cpu", copy=True)
                for name, weights in pl_module.state_dict().items()
            }
            self._best_is_written = False
        self._rate.end_epoch(loss, value)
        now = time.monotonic()
        self.state.epochs = epoch
        self.state.seconds += now - self._epoch_begun_at
        self._epoch_begun_at = now
        self._epochs_here += 1
        steps, seconds = epoch * self.steps_per_epoch, self.state.seconds
        self.history.add(epoch, steps, measured["train/loss"], loss, value, rate, seconds)
        if trainer.is_global_zero:
            # the first epoch warms up, and tells little about the others
            mean = (now - self._begun_at) / max(1, self._epochs_here - 1)
            self._begun_at = now if self._epochs_here == 1 else self._begun_at
            self.reporter.epoch(
                EpochReport(
                    epoch=epoch,
                    max_epochs=self.settings.max_epochs,
                    train_loss=measured["train/loss"],
                    metric=self.metric.name,
                    value=value,
                    best_value=self.best_value,
                    best_epoch=self.best_epoch,
                    seconds_left=mean * (self.settings.max_epochs - epoch),
                )
            )
            if self.history.problem:
                text = f"No more TensorBoard events are written ({self.history.problem})"
                self.reporter.note(f"{text}; training goes on")
                self.history.problem = ""
        self._stop(trainer, epoch)
        is_due = self._is_due()
        if trainer.world_size > 1:  # all processes do what one of them wishes
            is_due = trainer.strategy.reduce_boolean_decision(is_due, all=False)
        if self.state.stop_reason or is_due:
            self._save(trainer, final=bool(self.state.stop_reason))

    def teardown(self, *_: Any, **__: Any) -> None:
        self.history.close()

    on_exception = teardown

    def state_dict(self) -> dict[str, Any]:
        return {
            "run": vars(self.state).copy(),
            "best_value": self.best_value,
            "best_epoch": self.best_epoch,
            "best_weights": self._best_weights,
            "history": {
                "columns": self.history.columns,
                "rows": torch.tensor(self.history.rows, dtype=torch.float64).reshape(-1, 7),
            },
            "learning_rate": self._rate.state_dict(),
            "random": random_state(),
            ORIGIN: asdict(self.origin),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict = count_from_one(state_dict)
        self._loaded = state_dict
        self.state = RunState(**state_dict["run"])
        self.state.stop_reason, self.state.signal = "", 0
        self.best_value = state_dict["best_value"]
        self.best_epoch = state_dict["best_epoch"]
        self._best_weights = dict(state_dict["best_weights"])
        self._best_is_written = False
        self.history.rows = state_dict["history"]["rows"].tolist()

    # what the hooks are made of

    def _is_better(self, value: float) -> bool:
        if math.isnan(value) or math.isnan(self.best_value):
            return not math.isnan(value)
        higher = self.metric.higher_is_better
        return value > self.best_value if higher else value < self.best_value

    def _stop(self, trainer: pl.Trainer, epoch: int) -> None:
        settings, state = self.settings, self.state
        received = self.watch.received or 0
        if trainer.world_size > 1:  # any process may have got it; all must stop
            noted = torch.tensor(received, device=trainer.strategy.root_device)
            received = int(trainer.strategy.reduce(noted, reduce_op="max"))
        if epoch >= settings.max_epochs:
            state.stop_reason = "max_epochs"
        elif epoch >= settings.min_epochs and self._rate.is_spent:
            state.stop_reason = "min_lr"
        elif settings.patience is not None and epoch >= max(
            settings.min_epochs, self.best_epoch + settings.patience
        ):
            state.stop_reason = "patience"
        elif received:
            state.stop_reason, state.signal = "signal", received
        trainer.should_stop = bool(state.stop_reason)

    def _save(self, trainer: pl.Trainer, final: bool = False) -> None:
        r"""Saves everything; a disk that is full now may not be so the next time."""
        try:
            if trainer.is_global_zero:
                self.history.flush()
            trainer.save_checkpoint(self.folder.last, weights_only=False)
            if trainer.is_global_zero and not self._best_is_written:
                if self._best_weights:
                    best = best_checkpoint(self.metric.name, self.state_dict())
                    write_checkpoint(self.folder.best, best)
                self._best_is_written = True
        except OSError as error:
            problem = f"The checkpoint '{self.folder.last}' could not be written ({error})"
            if final:
                raise CheckpointError(
                    f"{problem}; make room and resume from the one before"
                ) from error
            self.reporter.note(f"{problem}; the one before is untouched and training goes on")
        self._saved_at = time.monotonic()

    def _is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= self.settings.save_every


class History:
    r"""The numbers of every epoch so far.

    The rows are part of every checkpoint. A resumed run writes the file anew from them, so that it
    has every epoch once, whatever was written after the checkpoint.
    """

    def __init__(self, metric: str) -> None:
        measured = ["train/loss", "val/loss", f"val/{metric}"]
        self.columns = ["epoch", "step", *measured, "lr", "seconds"]
        self.rows: list[list[float]] = []
        self.problem = ""  # why there are no more TensorBoard events
        self._table: MetricsFile | None = None
        self._board: SummaryWriter | None = None

    def open(self, csv_path: Path, board_folder: Path | None) -> None:
        r"""Begins to write; rows that are there already are written first."""
        self._table = MetricsFile(csv_path, self.columns, self.rows)
        if board_folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            with self._without_board():
                # events of epochs that will be run again are hidden
                self._board = SummaryWriter(
                    str(board_folder), purge_step=len(self.rows) + 1 if self.rows else None
                )

    def add(self, *row: float | None) -> None:
        self.rows.append([math.nan if value is None else value for value in row])
        if self._table is not None:
            self._table.add(self.rows[-1])
        with self._without_board():
            for name, value in zip(self.columns[1:], row[1:], strict=True):
                if self._board is not None and value is not None and value == value:
                    self._board.add_scalar(name, value, len(self.rows))

    def flush(self) -> None:
        if self._table is not None:
            self._table.flush()
        with self._without_board():
            if self._board is not None:
                self._board.flush()

    def close(self) -> None:
        if self._table is not None:
            self._table.close()
        with self._without_board():
            if self._board is not None:
                self._board.close()
        self._table = self._board = None

    @contextmanager
    def _without_board(self) -> Iterator[None]:
        """Goes on without events where they cannot be written, such as on a full disk."""
        try:
            yield
        except OSError as error:
            self._board, self.problem = None, str(error)


def count_from_one(state: dict[str, Any]) -> dict[str, Any]:
    r"""The state of a checkpoint whose epochs, before version 0.2, may count from 0."""
    rows = state["history"]["rows"]
    if len(rows) == 0 or rows[0, 0] != 0:
        return state | {"best_epoch": max(0, state["best_epoch"])}
    shift = torch.zeros(rows.size(1), dtype=rows.dtype)
    shift[0] = 1
    history = state["history"] | {"rows": rows + shift}
    return state | {"history": history, "best_epoch": state["best_epoch"] + 1}


def is_state(state: Mapping[str, object]) -> bool:
    r"""Whether what a checkpoint holds has the form of the state of :class:`EpochEnd`."""
    run, start = state.get("run"), vars(RunState())
    kinds: dict[str, type] = {"best_value": float, "best_epoch": int} | dict.fromkeys(
        ("best_weights", "history", "learning_rate", "random"), dict
    )
    return (
        isinstance(run, dict)
        and run.keys() == start.keys()
        and all(type(run[name]) is type(value) for name, value in start.items())
        and all(type(state.get(name)) is kind for name, kind in kinds.items())
        and isinstance(rows := state["history"].get("rows"), Tensor)  # type: ignore[attr-defined]
        and rows.dim() == 2
    )


def best_checkpoint(metric: str, state: Mapping[str, Any]) -> dict[str, object]:
    r"""What the file of the best weights holds."""
    return {
        "state_dict": state["best_weights"],
        "epoch": state["best_epoch"],
        "metric": metric,
        "value": state["best_value"],
        ORIGIN: state[ORIGIN],
        VERSION: torch_grama.__version__,
    }
