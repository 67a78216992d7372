"""Chooses the engine, and runs one block's recurrence with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_grama.nn.engine.handwritten import apply, handwritten_gradients_work
from torch_grama.nn.engine.horner import last_state_weights
from torch_grama.nn.engine.linear import HornerScan, LinearScan
from torch_grama.nn.engine.reading import MixedReading
from torch_grama.nn.engine.scan import scan, scan_plain
from torch_grama.nn.engine.transition import Transition, fold_differences, solve_recurrence
from torch_grama.nn.linear_backbone import LinearMap
from torch_grama.nn.node_sequence import NodeSequence
from torch_grama.nn.recurrence_reference import arma_recurrence_reference

ENGINES = {
    "auto": "the fastest that is exact for the backbone",
    "reference": "the equation, one lag at a time",
    "scan": "any backbone, one matrix-vector product a step",
    "linear": "linear backbones, forward and backward by hand",
}


@dataclass(frozen=True)
class Recurrence:
    r"""One block's recurrence, ready to run.

    Attributes:
        sequence: The given sequence.
        phi: Autoregressive coefficients :math:`(B, p)`, newest first.
        theta: Moving-average coefficients :math:`(B, q)`, newest first.
        backbone: Callable from states to residuals; a :class:`LinearMap` for a linear one.
        num_recurrences: Number of new elements :math:`R`.
        batch: The graph of each node, or :obj:`None` for one graph.
        internal: Whether the results stay inside the model, so that their gradients may be
            overwritten.
    """

    sequence: NodeSequence
    phi: Tensor
    theta: Tensor
    backbone: Callable[[Tensor], Tensor]
    num_recurrences: int
    batch: Tensor | None = None
    internal: bool = False

    def run(self, engine: str = "auto") -> tuple[Tensor, Tensor]:
        r"""Returns all new states and residuals, :math:`(R, N, F)` each."""
        if engine == "reference":
            return self._run_reference()
        if not handwritten_gradients_work():
            return scan_plain(*self._read_plain(), self.backbone, self.batch)
        mixed, newest, response = self._read()
        if self._is_linear(engine):
            linear: LinearMap = self.backbone  # type: ignore[assignment]
            out: tuple[Tensor, Tensor] = apply(
                LinearScan,
                mixed,
                newest,
                response,
                linear.weight,
                linear.root_weight,
                linear.bias,
                linear.adjacency,
                self.batch,
                self.internal,
            )
            return out
        return scan(mixed, newest, response, self.backbone, self.batch)

    def run_last(self, engine: str = "auto") -> Tensor:
        r"""Returns the last new state alone, :math:`(N, F)`."""
        if engine != "reference" and handwritten_gradients_work() and self._is_linear(engine):
            return self._run_horner()
        states, _ = self.run(engine)
        return states[-1]

    def _is_linear(self, engine: str) -> bool:
        if not isinstance(self.backbone, LinearMap):
            if engine == "linear":
                raise ValueError(
                    "Expected a linear backbone for engine='linear' (got one that is not known to "
                    "be linear); use engine='scan', or give the module a linear_map method"
                )
            return False
        # The adjacency's own gradient is left to autograd.
        return engine in ("auto", "linear") and not self.backbone.adjacency.value.requires_grad

    def _run_reference(self) -> tuple[Tensor, Tensor]:
        states, residuals = self.sequence.materialize()
        return arma_recurrence_reference(
            states,
            residuals,
            self.phi,
            self.theta,
            self.backbone,
            self.num_recurrences,
            self.batch,
        )

    def _solve(self) -> Transition:
        length = self.sequence.states.size(0)
        return solve_recurrence(self.phi, self.theta, length, self.num_recurrences)

    def _mix(self, state_weights: Tensor, residual_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        sequence = self.sequence
        out: tuple[Tensor, Tensor] = apply(
            MixedReading,
            sequence.states,
            sequence.residuals,
            self._rounded(state_weights),
            None if residual_weights is None else self._rounded(residual_weights),
            self.batch,
            sequence.act,
        )
        return out

    def _rounded(self, weights: Tensor) -> Tensor:
        # from float64 to the type of the sums: that of the states, and never below float32
        return weights.to(torch.promote_types(self.sequence.states.dtype, torch.float32))

    def _read(self) -> tuple[Tensor, Tensor, Tensor]:
        transition = self._solve()
        if self.sequence.residuals is None:
            mixed, newest = self._mix(fold_differences(transition), None)
        else:
            mixed, newest = self._mix(transition.from_states, transition.from_residuals)
        return mixed, newest, self._rounded(transition.response)

    def _read_plain(self) -> tuple[Tensor, Tensor, Tensor]:
        states, residuals = self.sequence.materialize()
        transition = self._solve()
        weights = torch.cat([transition.from_states, transition.from_residuals], dim=-1)
        given = torch.cat([states, residuals])
        if self.batch is None:
            mixed = torch.einsum("rl,lnf->rnf", weights[0].to(given.dtype), given)
        else:
            mixed = torch.einsum("nrl,lnf->rnf", weights[self.batch].to(given.dtype), given)
        return mixed, states[-1], self._rounded(transition.response)

    def _run_horner(self) -> Tensor:
        linear: LinearMap = self.backbone  # type: ignore[assignment]
        state_weights, residual_weights, bias_weights = last_state_weights(
            self._solve(), from_differences=self.sequence.residuals is None
        )
        terms, _ = self._mix(state_weights, residual_weights)
        offset = None
        if linear.bias is not None:
            offset = bias_weights.to(linear.bias.dtype)[..., None] * linear.bias  # [B, R, F]
        out: Tensor = apply(
            HornerScan,
            terms,
            offset,
            linear.weight,
            linear.root_weight,
            linear.adjacency,
            self.batch,
        )
        return out
