"""Which optimiser trains a model, and how it is set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import SGD, Adam, AdamW, Optimizer

from torch_grama.nn.arguments import check_number, choose

OptimizerName = Literal["adam", "adamw", "sgd"]
OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW, "sgd": SGD}


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

    name: OptimizerName = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.9
    decay_biases: bool = True

    def __post_init__(self) -> None:
        choose("optimizer.name", self.name, OPTIMIZERS)
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
    r"""Makes the optimiser of those parameters of a model that have a gradient; a capturable one
    can be recorded in a CUDA graph, with the learning rate in a tensor.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(
            f"Expected a model with parameters to train (got {type(model).__name__} with none)"
        )
    groups = _group_by_decay(parameters, settings)
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
    r"""Gives an optimiser back the form that it was built in, after it has loaded the state of one
    that may have been built to be recorded, or not to be.
    """
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


def _group_by_decay(
    parameters: Iterable[Parameter], settings: OptimizerSettings
) -> list[dict[str, object]]:
    decayed: list[Parameter] = []
    kept: list[Parameter] = []
    for parameter in parameters:
        (decayed if settings.decay_biases or parameter.dim() > 1 else kept).append(parameter)
    groups: list[dict[str, object]] = []
    if decayed:
        groups.append({"params": decayed, "weight_decay": settings.weight_decay})
    if kept:
        groups.append({"params": kept, "weight_decay": 0.0})
    return groups
