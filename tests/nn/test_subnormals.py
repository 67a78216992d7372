"""Where the smallest numbers are zero, and where they are not."""

import pytest
import torch
from torch.nn import Linear

from torch_grama.analysis import ModelInput, influence_by_distance
from torch_grama.nn.subnormals import are_flushed, flush_subnormals


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_they_are_zero_inside_and_as_before_after_it(is_asked_for):
    torch.set_flush_denormal(is_asked_for)
    try:
        with flush_subnormals():
            with flush_subnormals():
                assert are_flushed()
            assert are_flushed()
        assert are_flushed() is is_asked_for
    finally:
        torch.set_flush_denormal(False)


def test_they_are_zero_while_influence_is_measured():
    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = Linear(2, 1)

        def forward(self, x, edge_index, *args, **options):
            seen.append(are_flushed())
            return self.lin(x)

    influence_by_distance(Model(), ModelInput(torch.ones(3, 2), torch.tensor([[0, 1], [1, 2]])))
    assert set(seen) == {True}
    assert not are_flushed()
