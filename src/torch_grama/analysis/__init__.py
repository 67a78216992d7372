"""Theory made computable: poles, stability, memory and the growth of the closed loop."""

from torch_grama.analysis.closed_loop import closed_loop_radius
from torch_grama.analysis.closed_loop_bounds import (
    closed_loop_bound,
    closed_loop_gain,
    operator_norm,
)
from torch_grama.analysis.impulse import impulse_response, memory_length
from torch_grama.analysis.simulation import simulate_arma, simulate_ssm
from torch_grama.analysis.stability import (
    characteristic_roots,
    is_bibo_stable,
    is_stable,
    satisfies_sufficient_condition,
    spectral_radius,
)
from torch_grama.analysis.state_space import (
    ArmaModel,
    StateSpace,
    arma_to_ssm,
    ssm_to_arma,
    state_matrix,
)

__all__ = [
    "ArmaModel",
    "StateSpace",
    "arma_to_ssm",
    "characteristic_roots",
    "closed_loop_bound",
    "closed_loop_gain",
    "closed_loop_radius",
    "impulse_response",
    "is_bibo_stable",
    "is_stable",
    "memory_length",
    "operator_norm",
    "satisfies_sufficient_condition",
    "simulate_arma",
    "simulate_ssm",
    "spectral_radius",
    "ssm_to_arma",
    "state_matrix",
]
