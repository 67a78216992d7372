import pytest
import torch
import torch.nn.functional as F

from torch_grama.nn.engine.sequence import NodeSequence
from torch_grama.nn.functional import forward_differences


def test_differences_by_hand():
    states = torch.tensor([1.0, 4.0, 2.0]).view(3, 1, 1)

    assert forward_differences(states).flatten().tolist() == [3.0, -2.0, 0.0]


def test_a_single_state_has_the_difference_zero():
    assert forward_differences(torch.ones(1, 2, 3)).tolist() == torch.zeros(1, 2, 3).tolist()


def test_gradient_of_differences():
    states = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(forward_differences, states)


def test_materialize_applies_the_activation_to_both():
    states, residuals = torch.randn(2, 3, 4, 5)

    got = NodeSequence(states, residuals, F.relu).materialize()

    assert torch.equal(got[0], states.clamp(min=0))
    assert torch.equal(got[1], residuals.clamp(min=0))


def test_missing_residuals_are_differences_of_activated_states():
    states = torch.tensor([-1.0, 2.0, -3.0]).view(3, 1, 1)

    got = NodeSequence(states, None, F.relu).materialize()

    assert got[1].flatten().tolist() == [2.0, -2.0, 0.0]


def test_owned_tensors_are_activated_on_the_spot_without_gradients():
    states, residuals = torch.randn(2, 3, 4, 5)
    expected = NodeSequence(states.clone(), residuals.clone(), F.relu).materialize()

    with torch.no_grad():
        got = NodeSequence.from_owned(states, residuals, F.relu)

    assert got.states is states
    assert got.residuals is residuals
    for ours, theirs in zip(got.materialize(), expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("act", [F.relu, F.gelu])
def test_owned_tensors_whose_gradient_is_wanted_are_left_alone(act):
    states = torch.randn(3, 4, 5)
    before = states.clone()

    with torch.set_grad_enabled(act is F.relu):
        got = NodeSequence.from_owned(states, None, act)

    assert got.act is act
    assert torch.equal(states, before)
