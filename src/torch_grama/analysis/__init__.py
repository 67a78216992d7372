"""Functions for the theory (poles, stability, memory, the closed loop), and for what a model does.

Every function raises a :class:`ValueError` or a :class:`TypeError` for an argument that it cannot
use: coefficients that are not finite, shapes that do not fit, a model that cannot be differentiated
or has no GRAMA inside.
"""

from torch_grama.analysis.block_analysis import BlockAnalysis, ClosedLoop, analyze_blocks
from torch_grama.analysis.closed_loop import (
    closed_loop_bound,
    closed_loop_gain,
    closed_loop_radius,
    operator_norm,
)
from torch_grama.analysis.coefficient_log import (
    CoefficientLog,
    CoefficientSummary,
    summarize_coefficients,
)
from torch_grama.analysis.hops import hop_distance
from torch_grama.analysis.impulse import impulse_response, memory_length
from torch_grama.analysis.influence import Influence, influence_by_distance, influence_of_task
from torch_grama.analysis.inputs import GraphLike, ModelInput, read_input
from torch_grama.analysis.prediction_errors import (
    ClassErrors,
    DistanceErrors,
    ErrorSummary,
    LabelErrors,
    Predictions,
    RegressionErrors,
    class_errors,
    errors_by_distance,
    label_errors,
    regression_errors,
    summarize_errors,
)
from torch_grama.analysis.run_analysis import (
    Analysis,
    AnalysisSettings,
    analyze,
    read_analysis,
    write_analysis,
)
from torch_grama.analysis.smoothness import Smoothness, dirichlet_energy, measure_smoothness
from torch_grama.analysis.spread import ExampleGraph, draw_example, influence_spread
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
    simulate_arma,
    simulate_ssm,
    ssm_to_arma,
    state_matrix,
)

__all__ = [
    "Analysis",
    "AnalysisSettings",
    "ArmaModel",
    "BlockAnalysis",
    "ClassErrors",
    "ClosedLoop",
    "CoefficientLog",
    "CoefficientSummary",
    "DistanceErrors",
    "ErrorSummary",
    "ExampleGraph",
    "GraphLike",
    "Influence",
    "LabelErrors",
    "ModelInput",
    "Predictions",
    "RegressionErrors",
    "Smoothness",
    "StateSpace",
    "analyze",
    "analyze_blocks",
    "arma_to_ssm",
    "characteristic_roots",
    "class_errors",
    "closed_loop_bound",
    "closed_loop_gain",
    "closed_loop_radius",
    "dirichlet_energy",
    "draw_example",
    "errors_by_distance",
    "hop_distance",
    "impulse_response",
    "influence_by_distance",
    "influence_of_task",
    "influence_spread",
    "is_bibo_stable",
    "is_stable",
    "label_errors",
    "measure_smoothness",
    "memory_length",
    "operator_norm",
    "read_analysis",
    "read_input",
    "regression_errors",
    "satisfies_sufficient_condition",
    "simulate_arma",
    "simulate_ssm",
    "spectral_radius",
    "ssm_to_arma",
    "state_matrix",
    "summarize_coefficients",
    "summarize_errors",
    "write_analysis",
]
