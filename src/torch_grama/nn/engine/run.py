"""Chooses the engine, and runs one block's recurrence with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.closed_form import power_weights, step_weights
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.engine.handwritten import apply, handwritten_gradients_work
from torch_grama.nn.engine.linear import HornerScan, LinearScan
from torch_grama.nn.engine.reading import Reading
from torch_grama.nn.engine.scan import scan, scan_plain
from torch_grama.nn.engine.transition import solve_recurrence
from torch_grama.nn.linear_backbone import LinearMap
from torch_grama.nn.node_sequence import NodeSequence
from torch_grama.nn.recurrence_reference import arma_recurrence_reference

ENGINES = {
    "auto": "the fastest that is exact for the backbone",
    "reference": "the equation, one lag at a time",
    "scan": "any backbone, one matrix-vector product a step",
    "linear": "linear backbones, forward and backward by hand",
}

# What the steps need of the given sequence: the mixed part, the newest state, the response.
Mixture = tuple[Tensor, Tensor, Tensor]
# What Horner's rule needs of it: the terms at each power, and the weights of the bias.
Terms = tuple[Tensor, Tensor]


def read_mixture(reading: Reading, phi: Tensor, theta: Tensor, num_recurrences: int) -> Mixture:
    r"""Reads a sequence for the steps that follow.

    Args:
        reading (Reading): The sequence.
        phi (Tensor): Autoregressive coefficients :math:`(B, p)`, newest first.
        theta (Tensor): Moving-average coefficients :math:`(B, q)`, newest first.
        num_recurrences (int): Number of new elements :math:`R`.

    Returns:
        The mixed part :math:`(R, N, F)`, the newest state :math:`(N, F)` and the impulse response
        :math:`(B, R)`.
    """
    state_weights, residual_weights, response = step_weights(
        phi, theta, reading.seq_len, num_recurrences, reading.reads_differences
    )
    mixed, newest = reading.mix(state_weights, residual_weights)
    return mixed, newest, response.to(torch.promote_types(mixed.dtype, torch.float32))


def read_terms(reading: Reading, phi: Tensor, theta: Tensor, num_recurrences: int) -> Terms:
    r"""Reads a sequence for Horner's rule; arguments as :func:`read_mixture`.

    Returns:
        The terms :math:`(R + 1, N, F)` and the weights of the bias :math:`(B, R)`.
    """
    state_weights, residual_weights, bias_weights = power_weights(
        phi, theta, reading.seq_len, num_recurrences, reading.reads_differences
    )
    terms, _ = reading.mix(state_weights, residual_weights)
    return terms, bias_weights


def run_steps(
    mixture: Mixture,
    backbone: Callable[[Tensor], Tensor],
    groups: Groups,
    linear: bool,
    overwrites: bool = False,
    saves_memory: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""Runs all steps; returns the new states and residuals, :math:`(R, N, F)` each.

    Args:
        mixture (tuple of Tensor): What was read of the given sequence.
        backbone (callable): Maps states to residuals; a :class:`LinearMap` if :obj:`linear`.
        groups (Groups): Which nodes share coefficients.
        linear (bool): Whether to use the linear engine.
        overwrites (bool, optional): Whether incoming gradients may be overwritten, because they
            come from another engine and nobody else sees them. (default: :obj:`False`)
        saves_memory (bool, optional): Whether memory is worth more than launches.
            (default: :obj:`False`)
    """
    if not linear:
        return scan(*mixture, backbone, groups)
    assert isinstance(backbone, LinearMap)
    out: tuple[Tensor, Tensor] = apply(
        LinearScan,
        *mixture,
        backbone.weight,
        backbone.root_weight,
        backbone.bias,
        backbone.adjacency,
        groups,
        overwrites,
        saves_memory,
    )
    return out


def run_horner(
    terms: Terms, backbone: LinearMap, groups: Groups, overwrites: bool = False
) -> Tensor:
    r"""Runs Horner's rule; returns the last new state :math:`(N, F)`.

    Args:
        terms (tuple of Tensor): What was read of the given sequence.
        backbone (LinearMap): The linear backbone.
        groups (Groups): Which nodes share coefficients.
        overwrites (bool, optional): Whether the gradients may take the place of intermediate
            results, which allows a single backward pass. (default: :obj:`False`)
    """
    offset = None
    if backbone.bias is not None:
        offset = terms[1].to(backbone.bias.dtype)[..., None] * backbone.bias  # [B, R, F]
    out: Tensor = apply(
        HornerScan,
        terms[0],
        offset,
        backbone.weight,
        backbone.root_weight,
        backbone.adjacency,
        groups,
        overwrites,
    )
    return out


def prefers_horner(num_recurrences: int, backbone: LinearMap) -> bool:
    r"""Whether Horner's rule is worth the small products that its coefficients take.

    It saves the sums over the history, which are short for few recurrences; on a device with
    kernels for the coefficients it saves launches too.
    """
    return num_recurrences >= (3 if kernels.runs_on_device(backbone.weight) else 8)


def uses_linear_engine(engine: str, backbone: object) -> bool:
    r"""Whether the linear engine is to run this backbone.

    Raises:
        ValueError: If it is asked for and the backbone is not known to be linear.
    """
    if not isinstance(backbone, LinearMap):
        if engine == "linear":
            raise ValueError(
                "Expected a linear backbone for engine='linear' (got one that is not known to be "
                "linear); use engine='scan', or give the module a linear_map method"
            )
        return False
    # The gradient of the adjacency itself is left to autograd.
    return engine in ("auto", "linear") and not backbone.adjacency.value.requires_grad


@dataclass(frozen=True, eq=False)
class Recurrence:
    r"""One recurrence with given coefficients.

    Attributes:
        sequence: The given sequence.
        phi: Autoregressive coefficients :math:`(B, p)`, newest first.
        theta: Moving-average coefficients :math:`(B, q)`, newest first.
        backbone: Callable from states to residuals; a :class:`LinearMap` for a linear one.
        num_recurrences: Number of new elements :math:`R`.
        batch: The graph of each node, or :obj:`None` for one set of coefficients.
    """

    sequence: NodeSequence
    phi: Tensor
    theta: Tensor
    backbone: Callable[[Tensor], Tensor]
    num_recurrences: int
    batch: Tensor | None = None

    def run(self, engine: str = "auto") -> tuple[Tensor, Tensor]:
        r"""Returns all new states and residuals, :math:`(R, N, F)` each."""
        if engine == "reference":
            return self._run_reference()
        linear = uses_linear_engine(engine, self.backbone)
        if not handwritten_gradients_work():
            return self._run_plain()
        mixture = read_mixture(self._reading(), self.phi, self.theta, self.num_recurrences)
        return run_steps(mixture, self.backbone, self._groups, linear)

    def run_last(self, engine: str = "auto") -> Tensor:
        r"""Returns the last new state alone, :math:`(N, F)`."""
        if (
            engine != "reference"
            and isinstance(self.backbone, LinearMap)
            and uses_linear_engine(engine, self.backbone)
            and prefers_horner(self.num_recurrences, self.backbone)
            and handwritten_gradients_work()
        ):
            terms = read_terms(self._reading(), self.phi, self.theta, self.num_recurrences)
            return run_horner(terms, self.backbone, self._groups)
        states, _ = self.run(engine)
        return states[-1]

    @property
    def _groups(self) -> Groups:
        return Groups(self.batch, self.phi.size(0))

    def _reading(self) -> Reading:
        return Reading(self.sequence, self._groups, pools=False)

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

    def _run_plain(self) -> tuple[Tensor, Tensor]:
        states, residuals = self.sequence.materialize()
        transition = solve_recurrence(self.phi, self.theta, states.size(0), self.num_recurrences)
        weights = torch.cat([transition.from_states, transition.from_residuals], dim=-1)
        weights = weights.to(states.dtype)
        given = torch.cat([states, residuals])
        if self.batch is None:
            mixed = torch.einsum("rl,lnf->rnf", weights[0], given)
        else:
            mixed = torch.einsum("nrl,lnf->rnf", weights[self.batch], given)
        return scan_plain(mixed, states[-1], transition.response, self.backbone, self.batch)
