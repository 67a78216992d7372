"""Which optimiser trains a model, and how its learning rate moves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR, ReduceLROnPlateau

from torch_grama.nn.arguments import check_count, check_number
from torch_grama.training.trainer_settings import check_words


@dataclass(frozen=True)
class OptimizerSettings:
    r"""How parameters are moved.

    Args:
        name (str, optional): ``"adam"``, ``"adamw"`` or ``"sgd"``. (default: :obj:`"adamw"`)
        lr (float, optional): Learning rate, before the schedule. (default: :obj:`1e-3`)
        weight_decay (float, optional): Weight decay: decoupled for ``"adamw"``, an L2 penalty for
            the others. (default: :obj:`0.0`)
        betas (tuple of float, optional): Decay rates of the two moments of Adam and AdamW.
            (default: :obj:`(0.9, 0.999)`)
        momentum (float, optional): Momentum of SGD. (default: :obj:`0.9`)
        decay_biases (bool, optional): If :obj:`False`, parameters of fewer than two dimensions
            (biases, norms, gains) are not decayed. (default: :obj:`True`)
    """

    name: Literal["adam", "adamw", "sgd"] = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.9
    decay_biases: bool = True

    def __post_init__(self) -> None:
        check_words("optimizer", self, "name")
        check_number("optimizer.lr", self.lr, above=0.0)
        check_number("optimizer.weight_decay", self.weight_decay)
        if len(self.betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ValueError(
                f"Expected 'optimizer.betas' to be two numbers from 0 to below 1 (got {self.betas})"
            )
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(
                f"Expected 'optimizer.momentum' to lie from 0 to below 1 (got {self.momentum})"
            )


def build_optimizer(
    settings: OptimizerSettings, model: Module, *, capturable: bool = False
) -> Optimizer:
    r"""Makes the optimiser of a model; a capturable one can be recorded in a CUDA graph."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(
            f"Expected a model with parameters to train (got {type(model).__name__} with none)"
        )
    decayed = [p for p in parameters if settings.decay_biases or p.dim() > 1]
    kept = [p for p in parameters if not (settings.decay_biases or p.dim() > 1)]
    groups = [
        {"params": group, "weight_decay": decay}
        for group, decay in ((decayed, settings.weight_decay), (kept, 0.0))
        if group
    ]
    lr = torch.tensor(settings.lr, device=parameters[0].device) if capturable else settings.lr
    # on a CPU torch would go through the parameters one by one, a dozen operations each; in a
    # record, this is the form that leaves everything alone after a loss that is no finite number
    on_cpu = all(parameter.device.type == "cpu" for parameter in parameters)
    fused = capturable or on_cpu or None
    if settings.name == "sgd":
        return SGD(groups, lr=lr, momentum=settings.momentum, fused=capturable or None)
    kind = AdamW if settings.name == "adamw" else Adam
    return kind(groups, lr=lr, betas=settings.betas, capturable=capturable, fused=fused)


def keep_form(optimizer: Optimizer) -> None:
    r"""Gives an optimiser that has loaded a state the form back that it was built in."""
    built = optimizer.defaults
    is_tensor = isinstance(built["lr"], Tensor)
    for group in optimizer.param_groups:
        for name in ("capturable", "fused", "foreach"):
            if name in group:
                group[name] = built[name]
        rate = float(group["lr"])
        group["lr"] = torch.full_like(built["lr"], rate) if is_tensor else rate
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if "step" in state:
                on_device = built["capturable"] or built["fused"]
                state["step"] = state["step"].to(parameter.device if on_device else "cpu")


@dataclass(frozen=True)
class ScheduleSettings:
    r"""How the learning rate moves.

    With warm-up :math:`w` and :math:`T` epochs, epoch :math:`t` of ``"cosine"`` has the factor
    :math:`\max(10^{-6}, t / w)` for :math:`t < w`, then
    :math:`\frac{1}{2} (1 + \cos(\pi (t - w) / (T - w)))`.

    Args:
        name (str, optional): ``"constant"``, ``"cosine"``, ``"onecycle"`` (up and down again within
            the run, step by step) or ``"plateau"`` (down whenever validation stops improving).
            (default: :obj:`"constant"`)
        warmup_epochs (int, optional): Epochs of linear warm-up of ``"constant"`` and ``"cosine"``.
            (default: :obj:`0`)
        factor (float, optional): What ``"plateau"`` multiplies the rate by. (default: :obj:`0.5`)
        patience (int, optional): Validations without improvement before ``"plateau"`` acts.
            (default: :obj:`20`)
        min_lr (float, optional): Lowest rate of ``"plateau"``; the run stops an epoch after it is
            reached. (default: :obj:`1e-5`)
        plateau_on (str, optional): What ``"plateau"`` watches: validation ``"loss"`` or
            ``"metric"``. (default: :obj:`"loss"`)
        rise (float, optional): Share of the steps in which ``"onecycle"`` rises.
            (default: :obj:`0.3`)
    """

    name: Literal["constant", "cosine", "onecycle", "plateau"] = "constant"
    warmup_epochs: int = 0
    factor: float = 0.5
    patience: int = 20
    min_lr: float = 1e-5
    plateau_on: Literal["loss", "metric"] = "loss"
    rise: float = 0.3

    def __post_init__(self) -> None:
        check_words("schedule", self, "name", "plateau_on")
        check_count("schedule.warmup_epochs", self.warmup_epochs, least=0)
        check_count("schedule.patience", self.patience, least=0)
        check_number("schedule.min_lr", self.min_lr)
        for name in ("factor", "rise"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(
                    f"Expected 'schedule.{name}' to lie between 0 and 1 (got {getattr(self, name)})"
                )
        if self.warmup_epochs and self.name in ("onecycle", "plateau"):
            raise ValueError(
                "Expected 'schedule.warmup_epochs' only with 'constant' or 'cosine' (got "
                f"{self.warmup_epochs} with '{self.name}'); set it to 0"
            )


class LearningRate:
    r"""Moves the learning rate of an optimiser; its state goes into a checkpoint."""

    def __init__(
        self,
        settings: ScheduleSettings,
        optimizer: Optimizer,
        max_epochs: int,
        steps_per_epoch: int,
        higher_is_better: bool,
    ) -> None:
        if settings.name == "cosine" and settings.warmup_epochs >= max_epochs:
            raise ValueError(
                f"Expected 'schedule.warmup_epochs' below 'max_epochs' (got "
                f"{settings.warmup_epochs} and {max_epochs})"
            )
        rate = float(optimizer.param_groups[0]["lr"])
        if settings.name == "plateau" and rate <= settings.min_lr:
            raise ValueError(
                f"Expected 'optimizer.lr' above 'schedule.min_lr' with 'plateau', which ends the "
                f"run at that rate (got {rate:g} and {settings.min_lr:g})"
            )
        self._settings = settings
        self._optimizer = optimizer
        self._steps = 0
        self._scheduler: LambdaLR | OneCycleLR | ReduceLROnPlateau
        if settings.name == "onecycle":
            peaks = [float(group["lr"]) for group in optimizer.param_groups]
            self._scheduler = OneCycleLR(
                optimizer,
                max_lr=peaks,
                total_steps=max(2, max_epochs * steps_per_epoch),
                pct_start=settings.rise,
                cycle_momentum=False,
            )
        elif settings.name == "plateau":
            maximize = settings.plateau_on == "metric" and higher_is_better
            self._scheduler = ReduceLROnPlateau(
                optimizer,
                mode="max" if maximize else "min",
                factor=settings.factor,
                patience=settings.patience,
                min_lr=settings.min_lr,
                eps=0.0,
            )
        else:
            self._scheduler = LambdaLR(
                optimizer, lambda epoch: learning_rate_factor(settings, epoch, max_epochs)
            )

    @property
    def value(self) -> float:
        r"""The learning rate of the first group of parameters, now."""
        return float(self._optimizer.param_groups[0]["lr"])

    @property
    def is_spent(self) -> bool:
        r"""Whether a plateau schedule has come down to its lowest rate."""
        at_floor = self.value <= self._settings.min_lr * (1 + 1e-9)
        return self._settings.name == "plateau" and at_floor

    def end_step(self) -> None:
        r"""Moves a schedule that goes by optimiser steps."""
        self._steps += 1
        scheduler = self._scheduler
        if isinstance(scheduler, OneCycleLR) and scheduler.last_epoch + 1 < scheduler.total_steps:
            scheduler.step()

    def end_epoch(self, loss: float | None, metric: float | None) -> None:
        r"""Moves a schedule that goes by epochs, by what validation said if there was one."""
        if isinstance(self._scheduler, LambdaLR):
            self._scheduler.step()
        elif isinstance(self._scheduler, ReduceLROnPlateau):
            watched = loss if self._settings.plateau_on == "loss" else metric
            if watched is not None:
                self._scheduler.step(watched)

    def state_dict(self) -> dict[str, object]:
        state = {
            name: value
            for name, value in self._scheduler.state_dict().items()
            if isinstance(value, bool | int | float)
        }
        rates = [float(group["lr"]) for group in self._optimizer.param_groups]
        return {"scheduler": state, "rates": rates, "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # a run may have been given more epochs: the length is that of now
        kept = {name: v for name, v in state["scheduler"].items() if name != "total_steps"}
        vars(self._scheduler).update(kept)
        self._steps = steps = int(state.get("steps", 0))
        if not isinstance(self._scheduler, ReduceLROnPlateau):
            # the rate follows from the number of the step or epoch; a schedule by steps stays at
            # its last one, however many came after
            if isinstance(self._scheduler, OneCycleLR) and steps:
                self._scheduler.last_epoch = min(steps, self._scheduler.total_steps - 1)
            self._scheduler.last_epoch -= 1
            with warnings.catch_warnings():
                # that of the optimiser comes later
                warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
                self._scheduler.step()
            return
        for group, rate in zip(self._optimizer.param_groups, state["rates"], strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate


def learning_rate_factor(settings: ScheduleSettings, epoch: int, max_epochs: int) -> float:
    r"""The factor of epochs from 0 on, see :class:`ScheduleSettings`."""
    warmup = settings.warmup_epochs
    if epoch < warmup:
        return max(1e-6, epoch / warmup)
    if settings.name == "constant":
        return 1.0
    share = min(1.0, (epoch - warmup) / (max_epochs - warmup))
    return 0.5 * (1.0 + math.cos(math.pi * share))
