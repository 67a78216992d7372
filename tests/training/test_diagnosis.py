"""Where numbers ceased to be finite."""

import math
import pickle

import torch
from torch.nn import Linear, Module, Sequential

from torch_grama import GRAMA, Coefficients
from torch_grama.training import NonFiniteLossError
from torch_grama.training.task import BlockReport, Diagnosis, diagnose

X = torch.ones(4, 3)
EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


class Wrapped(Module):
    """A model within a model, as an input stage has one."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, x, edge_index):
        return self.inner(x, edge_index)


def test_first_bad_module_is_named():
    model = Sequential(Linear(3, 3), Linear(3, 3))
    found = diagnose(lambda: model(X * torch.inf), model)
    assert found == Diagnosis("the output of '0' is not finite")
    assert found.worst is None
    assert not model[0]._forward_hooks


def test_bad_parameters_are_named_first():
    model = Sequential(Linear(3, 3), Linear(3, 3))
    with torch.no_grad():
        model[1].bias[0] = math.nan
    assert diagnose(lambda: model(X), model).place == "parameter '1.bias' is not finite"


def test_a_finite_output_points_at_the_targets():
    model = Sequential(Linear(3, 3))
    assert "the loss of its targets is not" in diagnose(lambda: model(X), model).place


def test_a_forward_pass_that_fails_is_quoted():
    model = GRAMA(3, 4, 2)
    found = diagnose(lambda: model(X * torch.nan, EDGES), model)
    assert found.place.startswith("the forward pass fails (")


def test_coefficients_of_every_block_of_a_wrapped_model():
    model = Wrapped(
        GRAMA(
            3, 4, 2, coefficients=Coefficients("naive", constraint="none"), num_blocks=2, gain=1.0
        )
    )
    with torch.no_grad():
        for block, phi in zip(model.inner.blocks, ([0.5, 0.25, 0, 0], [2, 0, 0, 0]), strict=True):
            weight = block.coefficients.weight
            weight *= 0
            weight[0] = 1.0
            scale = float(block.coefficients().phi[0, 0])
            weight[:4] = torch.tensor(phi) / scale
    found = diagnose(lambda: model(X, EDGES), model)
    assert [block.block for block in found.blocks] == [0, 1]
    assert abs(found.blocks[0].phi_sum - 0.75) < 1e-6
    root = (0.5 + math.sqrt(0.25 + 4 * 0.25)) / 2  # of z^2 = 0.5 z + 0.25
    assert abs(found.blocks[0].pole_radius - root) < 1e-6
    assert found.worst.block == 1
    assert abs(found.worst.pole_radius - 2.0) < 1e-6


def test_coefficients_that_are_no_numbers_are_the_worst():
    blocks = (BlockReport(0, 5.0, 2.0), BlockReport(1, math.nan, math.nan))
    assert Diagnosis("somewhere", blocks).worst.block == 1


def test_error_survives_a_process_boundary():
    error = NonFiniteLossError(3, math.inf, Diagnosis("here", (BlockReport(0, 1.5, 1.2),)), "'x'")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert "block 0 has sum|phi| = 1.5 and pole radius 1.2" in str(error)
