"""What went wrong when a loss is not a finite number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis import spectral_radius
from torch_grama.nn.backbone import forward_parameters
from torch_grama.nn.coefficients import ARMACoefficients


@dataclass(frozen=True)
class BlockReport:
    r"""The coefficients of one block of a model."""

    block: int  # its number
    phi_sum: float  # largest \sum_i |\phi_i| over the graphs of the batch; up to 1 is stable
    pole_radius: float  # largest modulus of a pole, likewise


@dataclass(frozen=True)
class Diagnosis:
    r"""Where numbers ceased to be finite."""

    place: str  # the first module whose output is not finite, or what else is known
    # the coefficients of each block, for models that report them
    blocks: tuple[BlockReport, ...] = ()

    @property
    def worst(self) -> BlockReport | None:
        r"""The block with coefficients that are not finite, or else of the largest sum."""
        if not self.blocks:
            return None
        return max(self.blocks, key=lambda b: math.inf if math.isnan(b.phi_sum) else b.phi_sum)


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
        block = (
            "the model reports no ARMA coefficients"
            if worst is None
            else f"block {worst.block} has sum|phi| = {worst.phi_sum:.4g} and pole radius "
            f"{worst.pole_radius:.4g}"
        )
        super().__init__(
            f"Expected a finite loss (got {loss} at step {step}): {diagnosis.place}; {block}; the "
            f"last good checkpoint is {checkpoint}; lower the learning rate, clip gradients, or "
            "take constraint='l1'"
        )

    def __reduce__(self) -> tuple[type[NonFiniteLossError], tuple[object, ...]]:
        return type(self), (self.step, self.loss, self.diagnosis, self.checkpoint)


def diagnose(forward: Callable[[], object], model: Module) -> Diagnosis:
    r"""Runs a forward pass once more and looks where numbers cease to be finite.

    A part of the model whose ``forward`` takes ``return_coefficients`` is asked for its
    :class:`~torch_grama.nn.coefficients.ARMACoefficients`; any model may offer this.
    """
    bad = [name for name, value in model.named_parameters() if not bool(value.isfinite().all())]
    first: list[str] = []
    names = {module: name for name, module in model.named_modules() if name}

    def note(module: Module, _: object, out: object) -> None:
        if not first and not _is_finite(out):
            first.append(names[module])

    handles = [module.register_forward_hook(note) for module in names]
    reporter = next((module for module in model.modules() if _reports(module)), None)
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = []
    if reporter is not None:
        handles.append(
            reporter.register_forward_pre_hook(
                lambda _, args, kwargs: calls.append((args, kwargs)), with_kwargs=True
            )
        )
    try:
        with torch.no_grad():
            place = _run(forward, first, bad)
    finally:
        for handle in handles:
            handle.remove()
    return Diagnosis(place, _read_blocks(reporter, calls))


def _run(forward: Callable[[], object], first: list[str], bad: list[str]) -> str:
    if bad:
        return f"parameter '{bad[0]}' is not finite"
    try:
        finite = _is_finite(forward())
    except (ValueError, RuntimeError) as error:
        return f"the forward pass fails ({error})"
    if first:
        return f"the output of '{first[0]}' is not finite"
    if not finite:
        return "the output of the model is not finite"
    return "the output is finite, the loss of its targets is not"


def _read_blocks(
    reporter: Module | None, calls: list[tuple[tuple[object, ...], dict[str, object]]]
) -> tuple[BlockReport, ...]:
    if reporter is None or not calls:
        return ()
    args, kwargs = calls[-1]
    try:
        with torch.no_grad():
            _, coefficients = reporter(*args, **{**kwargs, "return_coefficients": True})
    except (ValueError, RuntimeError):
        return ()  # it fails in the same way as the forward pass, which was named already
    return tuple(_report(number, used) for number, used in enumerate(coefficients))


def _report(number: int, coefficients: ARMACoefficients) -> BlockReport:
    phi = coefficients.phi.detach().double().cpu().reshape(-1, coefficients.phi.size(-1))
    if not bool(phi.isfinite().all()):
        return BlockReport(number, math.nan, math.nan)
    radius = float(spectral_radius(phi).max())
    return BlockReport(number, float(phi.abs().sum(dim=-1).max()), radius)


def _reports(module: Module) -> bool:
    return "return_coefficients" in forward_parameters(module)


def _is_finite(value: object) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    if isinstance(value, tuple | list):
        return all(_is_finite(part) for part in value)
    return True
