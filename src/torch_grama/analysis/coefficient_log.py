"""The coefficients of a model while it trains, read from the passes that it does anyway."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis.block_analysis import demand_grama
from torch_grama.analysis.records import Matrix, Row, plain_matrix, plain_number, plain_row
from torch_grama.analysis.stability import characteristic_roots, spectral_radius
from torch_grama.nn import ARMACoefficients

# Sets of coefficients whose poles are looked for; the others take part in the means alone.
_MAX_POLES = 256

# Forward passes that are kept.
_MAX_PASSES = 8


@dataclass(frozen=True)
class CoefficientSummary:
    r"""The coefficients of one block, averaged over graphs (and recurrences, where they differ)."""

    block: int  #: number of the block, from 0
    phi: Row  #: mean autoregressive coefficients ``[p]``, newest first, retention included
    phi_spread: Row  #: their standard deviations
    theta: Row  #: mean moving-average coefficients ``[q]``, newest first
    theta_spread: Row  #: their standard deviations
    poles: Matrix  #: poles ``[p][2]`` of the mean, real and imaginary part, by falling modulus
    sum_abs_phi: float  #: mean of the sum of :math:`|\phi_i|`
    radius: float  #: mean largest modulus of the poles
    max_radius: float  #: largest modulus of all poles
    num_graphs: int  #: number of sets of coefficients


def summarize_coefficients(coefficients: Sequence[ARMACoefficients]) -> list[CoefficientSummary]:
    r"""Summarises what ``model(..., return_coefficients=True)`` returned, one record per block.

    Args:
        coefficients (sequence of ARMACoefficients): The coefficients of each block.
    """
    return [_summarize(index, *used) for index, used in enumerate(coefficients)]


def _summarize(index: int, phi: Tensor, theta: Tensor) -> CoefficientSummary:
    phi, theta = (part.detach().double().flatten(0, -2).cpu() for part in (phi, theta))
    if len(phi) == 0:
        raise ValueError("Expected the coefficients of at least one graph (got none)")
    # evenly over all sets, so that no graph is favoured
    chosen = torch.linspace(0, len(phi) - 1, min(len(phi), _MAX_POLES)).round().long()
    radius = spectral_radius(phi[chosen])
    return CoefficientSummary(
        block=index,
        phi=plain_row(phi.mean(0)),
        phi_spread=plain_row(phi.std(0, correction=0)),
        theta=plain_row(theta.mean(0)),
        theta_spread=plain_row(theta.std(0, correction=0)),
        poles=plain_matrix(torch.view_as_real(characteristic_roots(phi.mean(0)))),
        sum_abs_phi=plain_number(phi.abs().sum(-1).mean()),
        radius=plain_number(radius.mean()),
        max_radius=plain_number(radius.max()),
        num_graphs=len(phi),
    )


class CoefficientLog:
    r"""Listens to the forward passes that a model does anyway, and summarises their coefficients.

    While the log is open, the coefficients of the last 8 passes are kept. The output of the model
    does not change.

    Args:
        model (Module): A GRAMA model, or a module that holds one.

    Example:
        >>> from torch_grama.nn import GRAMA
        >>> model = GRAMA(3, 8, 2, seq_len=2)
        >>> with CoefficientLog(model) as log:
        ...     out = model(torch.randn(4, 3), torch.tensor([[0, 1], [1, 0]]))
        >>> [summary.num_graphs for summary in log.summary()]
        [1, 1]
    """

    def __init__(self, model: Module) -> None:
        self._grama = demand_grama(model)
        self._heard: list[list[ARMACoefficients]] = []
        self._asked: list[bool] = []
        self._ears = ExitStack()

    def open(self) -> None:
        r"""Begins to listen, with nothing kept."""
        self.close()
        self._heard.clear()
        ask = self._grama.register_forward_pre_hook(self._ask, with_kwargs=True)
        self._ears.enter_context(ask)
        self._ears.enter_context(self._grama.register_forward_hook(self._keep))

    def close(self) -> None:
        r"""Stops listening; what was kept can still be read."""
        self._ears.close()
        self._asked.clear()

    def summary(self) -> list[CoefficientSummary]:
        r"""One record per block over all passes that were kept; empty if there was none."""
        if not self._heard:
            return []
        joined = []
        for block in zip(*self._heard, strict=True):  # one tuple of passes per block
            phi = torch.cat([used.phi.flatten(0, -2) for used in block])
            theta = torch.cat([used.theta.flatten(0, -2) for used in block])
            joined.append(ARMACoefficients(phi, theta))
        return summarize_coefficients(joined)

    def __enter__(self) -> CoefficientLog:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self, _: Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # a caller who asks for the coefficients gets them
        rest = zip(("return_coefficients", "edge_type"), arguments[6:], strict=False)
        keywords = {**dict(rest), **keywords}
        self._asked.append(bool(keywords.get("return_coefficients", False)))
        return arguments[:6], {**keywords, "return_coefficients": True}

    def _keep(
        self, _: Module, __: tuple[Any, ...], result: tuple[Tensor, list[ARMACoefficients]]
    ) -> Tensor | tuple[Tensor, list[ARMACoefficients]]:
        out, coefficients = result
        # a copy: free coefficients are views of parameters, which the next step overwrites
        kept = [ARMACoefficients(*(c.detach().clone() for c in used)) for used in coefficients]
        self._heard = [*self._heard, kept][-_MAX_PASSES:]
        return result if self._asked.pop() else out
