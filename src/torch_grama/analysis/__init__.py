"""Theory made computable: poles, stability, memory and the growth of the closed loop."""

from torch_grama.analysis.simulation import simulate_arma, simulate_ssm
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
    "simulate_arma",
    "simulate_ssm",
    "ssm_to_arma",
    "state_matrix",
]
