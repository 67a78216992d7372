"""Any model on any task, as Lightning trains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, Unpack

import pytorch_lightning as pl
import torch
import torch.distributed
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

import torch_grama
from torch_grama.datasets.task_data import GraphTaskData, Kind, Metric
from torch_grama.nn.backbone import forward_parameters
from torch_grama.training.captured_step import CapturedForward, CapturedTraining
from torch_grama.training.checkpoint_file import VERSION
from torch_grama.training.diagnosis import NonFiniteLossError, diagnose
from torch_grama.training.graph_batch import GraphBatch, collect_positions
from torch_grama.training.model_hooks import AddsLoss, FitsLabels, adds_loss, node_classes
from torch_grama.training.optimizer import OptimizerSettings, ScheduleSettings, build_optimizer
from torch_grama.training.planned_batches import PlannedBatch
from torch_grama.training.scores import LossOptions, build_loss, build_metric


class GraphTask(pl.LightningModule):
    r"""A model, the loss it learns by and the metric it is judged by.

    Logs ``train/loss``, ``val/loss`` and ``val/<metric>`` once per epoch, each over all targets of
    the epoch. A model may add a term to the training loss and start from an estimate made of the
    training labels, see :mod:`torch_grama.training.model_hooks`.

    Args:
        model (Module): Called as ``model(x, edge_index, edge_weight, edge_attr, batch,
            batch_size)``, and with ``pe`` where it takes that and the data brings encodings.
        kind (str): Kind of the targets: ``"classification"``, ``"multilabel"``,
            ``"regression"`` or ``"forecast"``.
        metric (Metric): What it is judged by.
        num_outputs (int): Number of classes, labels or quantities.
        optimizer (OptimizerSettings, optional): (default: :obj:`OptimizerSettings()`)
        schedule (ScheduleSettings, optional): (default: :obj:`ScheduleSettings()`)
        loss (str, optional): A loss other than the one that belongs to the task, see
            :func:`build_loss`. (default: :obj:`None`)
        class_weights (sequence of float, optional): What classes, or positives, count.
            (default: :obj:`None`)
    """

    def __init__(
        self,
        model: Module,
        kind: Kind,
        metric: Metric,
        num_outputs: int,
        optimizer: OptimizerSettings | None = None,
        schedule: ScheduleSettings | None = None,
        **loss: Unpack[LossOptions],
    ) -> None:
        super().__init__()
        self.model = model
        self.title = type(model).__name__  #: what the user is told
        self.kind = kind
        self.metric = metric
        self.num_outputs = num_outputs
        self.optimizer_settings = optimizer or OptimizerSettings()
        self.schedule_settings = schedule or ScheduleSettings()
        options = loss.get("loss"), loss.get("class_weights")
        self.loss = build_loss(kind, metric.name, num_outputs, *options)
        self.val_metric = build_metric(metric.name, kind, num_outputs)
        # sums of loss and weight over the epoch; no buffers, which DDP would copy from the first
        # process over those of the others
        self._train_sums = torch.zeros(2, dtype=torch.float64)
        self._val_sums = torch.zeros(2, dtype=torch.float64)
        self._takes_pe = "pe" in forward_parameters(model)
        self._adds_loss = adds_loss(model)
        self._captured_training: CapturedTraining | None = None
        self._captured_validation: CapturedForward | None = None
        # the loss of the step that the optimiser has not taken yet
        self._unchecked: tuple[LateFlag, Tensor, GraphBatch, int] | None = None
        self._last_step = 0
        self.epoch_values: dict[str, float] = {}
        self.last_good_checkpoint: Callable[[], str] = lambda: "none was written"

    @classmethod
    def for_data(
        cls,
        model: Module,
        data: GraphTaskData,
        optimizer: OptimizerSettings | None = None,
        schedule: ScheduleSettings | None = None,
        **loss: Unpack[LossOptions],
    ) -> GraphTask:
        r"""The task of a data set; arguments as in the constructor."""
        facts = data.kind, data.metric, data.num_outputs
        return cls(model, *facts, optimizer, schedule, **loss)

    def forward(self, batch: GraphBatch) -> Tensor:
        r"""The output of the model for every node or graph of a batch."""
        out: Tensor = self.model(*batch.inputs, **self._positions(batch))
        return out

    def fit_labels(self, batch: GraphBatch) -> None:
        r"""Lets the model start from an estimate made of the labels of a batch, if it does so."""
        classes = node_classes(batch)
        if classes is not None and isinstance(self.model, FitsLabels):
            self.model.fit_labels(*classes, *batch.inputs, **self._positions(batch))

    def training_step(self, batch: GraphBatch | PlannedBatch, batch_idx: int) -> Tensor | None:
        r"""Returns the mean loss over the targets of the step, on all devices together; nothing
        if the step is recorded, optimiser included.
        """
        if self._captured_training is not None:
            self._last_step = batch_idx
            self._captured_training.run(batch)
            return None
        assert isinstance(batch, GraphBatch)
        total, weight = self.measure(batch)
        finite = LateFlag(total.detach().isfinite())
        self._unchecked = (finite, total.detach(), batch, batch_idx)
        self.add_loss(total, weight)
        return total * self._world_size / self._sum_over_devices(weight).clamp(min=1e-12)

    def add_loss(self, total: Tensor, weight: Tensor) -> None:
        r"""Takes the loss of a step into that of the epoch, in place, as a record needs it."""
        self._train_sums = self._train_sums.to(total.device)
        self._train_sums += torch.stack([total.detach(), weight]).double()

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        r"""Stops the run before a loss that is no finite number reaches the weights."""
        # not in the step itself: there the device would wait for the backward pass to be queued
        if self._unchecked is not None:
            finite, total, batch, batch_idx = self._unchecked
            self._unchecked = None
            if not finite.read():
                self._fail(total, batch, batch_idx)

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        r"""Limits the norm of the gradient.

        Not left to Lightning, which refuses it to a fused optimiser in every mixed precision; it
        is wrong only where gradients are scaled, and there the optimiser is not fused.
        """
        if gradient_clip_val is not None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, gradient_clip_val)

    def measure(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        r"""The sum of the loss over the targets of a batch, the model's own term included, and
        their weight.
        """
        assert batch.y is not None
        total, weight = self.loss(batch.select(self(batch)), batch.y, batch.weight)
        own = self.own_loss(batch)
        return total if own is None else total + own * weight, weight

    def own_loss(self, batch: GraphBatch) -> Tensor | None:
        r"""The term that the model adds to the mean loss of a step; :obj:`None` for none, as where
        the targets are no classes of nodes.
        """
        classes = node_classes(batch) if self._adds_loss else None
        if classes is None or not isinstance(self.model, AddsLoss):
            return None
        return self.model.auxiliary_loss(*classes, *batch.inputs, **self._positions(batch))

    def validation_step(self, batch: GraphBatch | PlannedBatch, batch_idx: int) -> None:
        r"""Takes a batch into the loss and the metric of the epoch."""
        if isinstance(batch, PlannedBatch):
            assert self._captured_validation is not None
            self.judge(*self._captured_validation.run(batch))
        else:
            self.judge(batch.select(self(batch)), batch.y, batch.weight)

    def judge(self, out: Tensor, y: Tensor | None, weight: Tensor | None) -> None:
        r"""Takes outputs into the loss and the metric of the epoch."""
        assert y is not None
        total, counted = self.loss(out, y, weight)
        self._val_sums = self._val_sums.to(total.device)
        self._val_sums += torch.stack([total.detach(), counted]).double()
        self.val_metric.update(out, y, weight)

    def on_validation_epoch_start(self) -> None:
        r"""Forgets what was measured before."""
        self.val_metric.reset()
        self._val_sums = torch.zeros_like(self._val_sums)

    def on_validation_epoch_end(self) -> None:
        r"""Logs loss and metric over all targets."""
        loss, value = self.read_validation()
        self._publish({"val/loss": loss, f"val/{self.metric.name}": value})

    def read_validation(self) -> tuple[float, float]:
        r"""Loss and metric over all batches since :meth:`on_validation_epoch_start`."""
        total, weight = self._sum_over_devices(self._val_sums).tolist()
        return total / weight if weight else float("nan"), float(self.val_metric.compute())

    def on_train_epoch_end(self) -> None:
        r"""Logs the loss over all targets of the epoch."""
        self._check_captured()
        total, weight = self._sum_over_devices(self._train_sums).tolist()
        self._train_sums.zero_()
        self._publish({"train/loss": total / weight if weight else float("nan")})

    def configure_optimizers(self) -> Optimizer:
        r"""The optimiser; the schedule is moved by the loop, see
        :class:`~torch_grama.training.optimizer.LearningRate`.
        """
        return build_optimizer(
            self.optimizer_settings, self.model, capturable=self._captured_training is not None
        )

    def capture(
        self, training: CapturedTraining | None, validation: CapturedForward | None = None
    ) -> None:
        r"""Lets steps be recorded and replayed from now on, or no longer.

        Args:
            training (CapturedTraining, optional): Runs training steps; :obj:`None` for no record.
            validation (CapturedForward, optional): Runs those of planned validation batches.
                (default: :obj:`None`)
        """
        self._captured_training = training
        self._captured_validation = validation
        self.automatic_optimization = training is None

    def on_save_checkpoint(self, checkpoint: dict[str, object]) -> None:
        r"""Adds the version of this package, and what was measured of an epoch that is not over."""
        self._check_captured()
        checkpoint[VERSION] = torch_grama.__version__
        checkpoint["train_sums"] = self._train_sums.cpu().clone()

    def on_load_checkpoint(self, checkpoint: Mapping[str, object]) -> None:
        r"""Goes on with the epoch of the checkpoint."""
        sums = checkpoint.get("train_sums")
        if isinstance(sums, Tensor):
            self._train_sums = sums.clone()

    def _positions(self, batch: GraphBatch) -> dict[str, Tensor]:
        if not self._takes_pe:
            return {}
        pe = collect_positions(batch, random_signs=self.training)
        return {} if pe is None else {"pe": pe}

    def _fail(self, total: Tensor, batch: GraphBatch, batch_idx: int) -> NoReturn:
        step = batch_idx
        if self._trainer is not None:
            step += self.current_epoch * int(self._trainer.num_training_batches)
        report = diagnose(lambda: self(batch), self.model)
        raise NonFiniteLossError(step, float(total), report, self.last_good_checkpoint())

    def _check_captured(self) -> None:
        captured = self._captured_training
        failure = None if captured is None else captured.find_failure()
        if failure is not None:
            steps_ago, batch, loss = failure
            self._fail(loss, batch, self._last_step + 1 - steps_ago)

    def _publish(self, values: dict[str, float]) -> None:
        # Lightning rounds what is logged to float32; the exact values are for our own files
        self.epoch_values.update(values)
        for name, value in values.items():
            self.log(name, value, logger=False, sync_dist=self._world_size > 1)

    @property
    def _world_size(self) -> int:
        return self._trainer.world_size if self._trainer is not None else 1

    def _sum_over_devices(self, values: Tensor) -> Tensor:
        if self._world_size == 1:
            return values
        values = values.detach().clone()
        torch.distributed.all_reduce(values)
        return values


class LateFlag:
    r"""Copies a truth value to the CPU while the device goes on.

    Reading it waits for what the device was given before the flag, not for what came after: with
    enough work queued in between, the device never runs dry.
    """

    def __init__(self, flag: Tensor) -> None:
        self._flag = flag
        self._copied: torch.cuda.Event | None = None
        if flag.device.type == "cuda":
            self._flag = torch.empty((), dtype=torch.bool, pin_memory=True)
            self._flag.copy_(flag, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record(torch.cuda.current_stream(flag.device))

    def read(self) -> bool:
        r"""The value, once it is there."""
        if self._copied is not None:
            self._copied.synchronize()
        return bool(self._flag)
