"""Every public function refuses the same mistakes with the same sentences."""

from inspect import isfunction, signature

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


def test_every_function_of_coefficients_is_listed():
    public = {name: getattr(analysis, name) for name in analysis.__all__}
    of_phi = [
        name
        for name, found in public.items()
        if isfunction(found) and next(iter(signature(found).parameters)) == "phi"
    ]
    assert sorted(functions) == of_phi


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
