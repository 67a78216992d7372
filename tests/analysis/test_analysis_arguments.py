"""Every public function refuses the same mistakes with the same sentences."""

import pytest
import torch

from torch_grama import analysis

one = torch.ones(1)
functions = {
    "arma_to_ssm": lambda phi: analysis.arma_to_ssm(phi, one),
    "characteristic_roots": analysis.characteristic_roots,
    "closed_loop_bound": lambda phi: analysis.closed_loop_bound(phi, one, one[0]),
    "closed_loop_gain": lambda phi: analysis.closed_loop_gain(phi, one, one[0]),
    "closed_loop_radius": lambda phi: analysis.closed_loop_radius(
        phi, one, lambda x: x, torch.zeros(2, 2)
    ),
    "impulse_response": lambda phi: analysis.impulse_response(phi, one, 3),
    "is_bibo_stable": analysis.is_bibo_stable,
    "is_stable": analysis.is_stable,
    "memory_length": lambda phi: analysis.memory_length(phi, one),
    "satisfies_sufficient_condition": analysis.satisfies_sufficient_condition,
    "simulate_arma": lambda phi: analysis.simulate_arma(phi, one, one),
    "spectral_radius": analysis.spectral_radius,
    "state_matrix": analysis.state_matrix,
}
of_theory = {"ArmaModel", "StateSpace", "operator_norm", "simulate_ssm", "ssm_to_arma"}
of_models = {
    "write_analysis",
    "read_analysis",
    "analyze",
    "AnalysisSettings",
    "Analysis",
    "summarize_errors",
    "Predictions",
    "ErrorSummary",
    "draw_example",
    "ExampleGraph",
    "influence_spread",
    "measure_smoothness",
    "dirichlet_energy",
    "Smoothness",
    "regression_errors",
    "label_errors",
    "errors_by_distance",
    "class_errors",
    "RegressionErrors",
    "LabelErrors",
    "DistanceErrors",
    "ClassErrors",
    "summarize_coefficients",
    "CoefficientSummary",
    "CoefficientLog",
    "BlockAnalysis",
    "ClosedLoop",
    "GraphLike",
    "Influence",
    "ModelInput",
    "analyze_blocks",
    "hop_distance",
    "influence_by_distance",
    "read_input",
}
without_phi = of_theory | of_models


def test_every_public_function_is_listed():
    assert set(functions) | without_phi == set(analysis.__all__)
    assert all(hasattr(analysis, name) for name in analysis.__all__)


@pytest.mark.parametrize("function", functions.values(), ids=functions)
def test_coefficients_are_checked(function):
    with pytest.raises(TypeError, match="'phi' to be a tensor \\(got list\\)"):
        function([0.5])
    with pytest.raises(ValueError, match=r"real floating point \(got torch.int64\)"):
        function(torch.ones(2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"real floating point \(got torch.complex64\)"):
        function(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="'phi' to have at least 1 dimension"):
        function(torch.tensor(0.5))
    with pytest.raises(ValueError, match=r"at least one coefficient.*got shape \(3, 0\)"):
        function(torch.ones(3, 0))
    with pytest.raises(ValueError, match="'phi' to be finite"):
        function(torch.tensor([0.5, torch.nan]))


def test_devices_must_agree():
    elsewhere = torch.zeros(2, dtype=torch.long, device="meta")
    with pytest.raises(ValueError, match=r"one device.*nodes: cpu, batch: meta"):
        analysis.operator_norm(lambda x: x, torch.zeros(2, 2), elsewhere)
    with pytest.raises(ValueError, match=r"one device.*phi: cpu, theta: meta"):
        analysis.inputs.broadcast(phi=one, theta=torch.ones(1, device="meta"))
