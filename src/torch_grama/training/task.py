"""Any model on any task, as Lightning trains it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

import pytorch_lightning as pl
import torch
import torch.distributed
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

import torch_grama
from torch_grama.analysis import spectral_radius
from torch_grama.datasets.task_data import GraphTaskData, Kind, Metric
from torch_grama.nn.backbone import forward_parameters
from torch_grama.nn.coefficients import ARMACoefficients
from torch_grama.training.captured_step import CapturedForward, CapturedTraining
from torch_grama.training.checkpoint_file import VERSION
from torch_grama.training.graph_batch import GraphBatch, collect_positions
from torch_grama.training.input_stage import AddsLoss, adds_loss, node_classes
from torch_grama.training.loaders import PlannedBatch
from torch_grama.training.optimizer import OptimizerSettings, ScheduleSettings, build_optimizer
from torch_grama.training.scores import LossName, build_loss, build_metric


class GraphTask(pl.LightningModule):
    r"""A model, the loss it learns by and the metric it is judged by.

    Logs ``train/loss``, ``val/loss`` and ``val/<metric>`` once per epoch, each over all targets of
    the epoch. A model may add a term to the training loss and start from an estimate made of the
    training labels, see :mod:`torch_grama.training.input_stage`.

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
        loss: LossName | None = None,
        class_weights: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.title = type(model).__name__  #: what the user is told
        self.kind = kind
        self.metric = metric
        self.num_outputs = num_outputs
        self.optimizer_settings = optimizer or OptimizerSettings()
        self.schedule_settings = schedule or ScheduleSettings()
        self.loss = build_loss(kind, metric.name, num_outputs, loss, class_weights)
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
        loss: LossName | None = None,
        class_weights: Sequence[float] | Tensor | None = None,
    ) -> GraphTask:
        r"""The task of a data set; arguments as in the constructor."""
        facts = data.kind, data.metric, data.num_outputs
        return cls(model, *facts, optimizer, schedule, loss, class_weights)

    def forward(self, batch: GraphBatch) -> Tensor:
        r"""The output of the model for every node or graph of a batch."""
        out: Tensor = self.model(*batch.inputs, **self.positions(batch))
        return out

    def training_step(self, batch: GraphBatch | PlannedBatch, batch_idx: int) -> Tensor | None:
        r"""The mean loss over the targets of all devices; nothing if the step is recorded."""
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
        r"""The sum of the loss over targets, the model's own term too, and their weight."""
        assert batch.y is not None
        total, weight = self.loss(batch.select(self(batch)), batch.y, batch.weight)
        own = self.own_loss(batch)
        return total if own is None else total + own * weight, weight

    def own_loss(self, batch: GraphBatch) -> Tensor | None:
        r"""The term that the model adds to the mean loss of a step, if nodes have classes."""
        classes = node_classes(batch) if self._adds_loss else None
        if classes is None or not isinstance(self.model, AddsLoss):
            return None
        return self.model.auxiliary_loss(*classes, *batch.inputs, **self.positions(batch))

    def validation_step(self, batch: GraphBatch | PlannedBatch, batch_idx: int) -> None:
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
        self.val_metric.reset()
        self._val_sums = torch.zeros_like(self._val_sums)

    def on_validation_epoch_end(self) -> None:
        loss, value = self.read_validation()
        self._publish({"val/loss": loss, f"val/{self.metric.name}": value})

    def read_validation(self) -> tuple[float, float]:
        r"""Loss and metric over all batches since :meth:`on_validation_epoch_start`."""
        total, weight = self._sum_over_devices(self._val_sums).tolist()
        return total / weight if weight else float("nan"), float(self.val_metric.compute())

    def on_train_epoch_end(self) -> None:
        self._check_captured()
        total, weight = self._sum_over_devices(self._train_sums).tolist()
        self._train_sums.zero_()
        self._publish({"train/loss": total / weight if weight else float("nan")})

    def configure_optimizers(self) -> Optimizer:
        r"""The optimiser; the loop moves its learning rate."""
        capturable = self._captured_training is not None
        return build_optimizer(self.optimizer_settings, self.model, capturable=capturable)

    def capture(
        self, training: CapturedTraining | None, validation: CapturedForward | None = None
    ) -> None:
        r"""Lets training steps, and those of planned validation batches, be recorded and replayed
        from now on, or no longer.
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
        sums = checkpoint.get("train_sums")
        if isinstance(sums, Tensor):
            self._train_sums = sums.clone()

    def positions(self, batch: GraphBatch) -> dict[str, Tensor]:
        r"""The positional encodings of a batch, where the model takes them."""
        if not self._takes_pe:
            return {}
        pe = collect_positions(batch, random_signs=self.training)
        return {} if pe is None else {"pe": pe}

    def _fail(self, total: Tensor, batch: GraphBatch, batch_idx: int) -> NoReturn:
        steps = 0 if self._trainer is None else int(self._trainer.num_training_batches)
        step = self.current_epoch * steps + batch_idx
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
        if self._copied is not None:
            self._copied.synchronize()
        return bool(self._flag)


class BlockReport(NamedTuple):
    r"""The coefficients of one block of a model."""

    block: int  # its number
    phi_sum: float  # largest \sum_i |\phi_i| over the graphs of the batch; up to 1 is stable
    pole_radius: float  # largest modulus of a pole, likewise


class Diagnosis(NamedTuple):
    r"""Where numbers ceased to be finite."""

    place: str  # the first module whose output is not finite, or what else is known
    blocks: tuple[BlockReport, ...] = ()  # of models that report coefficients

    @property
    def worst(self) -> BlockReport | None:
        r"""The block with coefficients that are not finite, or else of the largest sum."""
        return max(
            self.blocks,
            key=lambda b: math.inf if math.isnan(b.phi_sum) else b.phi_sum,
            default=None,
        )


class NonFiniteLossError(ArithmeticError):
    r"""A loss is not a finite number, so that the run stops.

    Args:
        step (int): The optimiser step it stopped before.
        loss (float): The loss.
        diagnosis (Diagnosis): What was found.
        checkpoint (str): The last good checkpoint.
    """

    def __init__(self, step: int, loss: float, diagnosis: Diagnosis, checkpoint: str) -> None:
        self.step = step
        self.loss = loss
        self.diagnosis = diagnosis
        self.checkpoint = checkpoint
        worst = diagnosis.worst
        block, advice = "", "lower the learning rate or clip gradients"
        if worst is not None:
            block = (
                f"; block {worst.block} has sum|phi| = {worst.phi_sum:.4g} and pole radius "
                f"{worst.pole_radius:.4g}"
            )
            advice += ", or take constraint='l1'"
        super().__init__(
            f"Expected a finite loss (got {loss} at step {step}): {diagnosis.place}{block}; the "
            f"last good checkpoint is {checkpoint}; {advice}"
        )

    def __reduce__(self) -> tuple[type[NonFiniteLossError], tuple[object, ...]]:
        return type(self), (self.step, self.loss, self.diagnosis, self.checkpoint)


def diagnose(forward: Callable[[], object], model: Module) -> Diagnosis:
    r"""Runs a forward pass once more and looks where numbers cease to be finite.

    A part of the model whose ``forward`` takes ``return_coefficients`` is asked for its
    :class:`~torch_grama.nn.coefficients.ARMACoefficients`; any model may offer this.
    """
    first: list[str] = []
    names = {module: name for name, module in model.named_modules() if name}

    def note(module: Module, _: object, out: object) -> None:
        if not first and not _is_finite(out):
            first.append(names[module])

    handles = [module.register_forward_hook(note) for module in names]
    reports = (m for m in model.modules() if "return_coefficients" in forward_parameters(m))
    reporter = next(reports, None)
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = []
    if reporter is not None:
        handles.append(
            reporter.register_forward_pre_hook(
                lambda _, args, kwargs: calls.append((args, kwargs)), with_kwargs=True
            )
        )
    bad = [name for name, value in model.named_parameters() if not _is_finite(value)]
    blocks: tuple[BlockReport, ...] = ()
    with torch.no_grad():
        try:
            place = f"parameter '{bad[0]}' is not finite" if bad else ""
            if not bad and not _is_finite(forward()):
                place = "the output of the model is not finite"
        except (ValueError, RuntimeError) as error:
            place = f"the forward pass fails ({error})"
        finally:
            for handle in handles:
                handle.remove()
        if first and not place.startswith("the forward"):
            place = f"the output of '{first[0]}' is not finite"
        if reporter is not None and calls:
            args, kwargs = calls[-1]
            # where it fails in the same way as the forward pass, that was named already
            with suppress(ValueError, RuntimeError):
                _, used = reporter(*args, **{**kwargs, "return_coefficients": True})
                blocks = tuple(_report(number, one) for number, one in enumerate(used))
    return Diagnosis(place or "the output is finite, the loss of its targets is not", blocks)


def _report(number: int, coefficients: ARMACoefficients) -> BlockReport:
    phi = coefficients.phi.detach().double().cpu().reshape(-1, coefficients.phi.size(-1))
    if not _is_finite(phi):
        return BlockReport(number, math.nan, math.nan)
    radius = float(spectral_radius(phi).max())
    return BlockReport(number, float(phi.abs().sum(dim=-1).max()), radius)


def _is_finite(value: object) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return not isinstance(value, tuple | list) or all(map(_is_finite, value))
