import pytest
import torch
import torch.nn.functional as F

from torch_grama.nn.readout import Readout


def test_layers_by_hand():
    module = Readout(4, 2, 3, F.relu, 0.0)
    x = torch.randn(5, 4)
    first, second, last = module.layers

    assert torch.equal(module(x), last(second(first(x).relu()).relu()))


def test_one_layer_is_linear():
    module = Readout(4, 2, 1, F.relu, 0.5)
    x = torch.randn(5, 4)

    assert torch.equal(module(x), module.layers[0](x))


def test_dropout_only_while_training():
    module = Readout(16, 2, 2, F.relu, 0.5)
    x = torch.randn(5, 16)

    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


def test_reset_draws_anew():
    module = Readout(4, 2, 2, F.relu, 0.0)
    before = [p.clone() for p in module.parameters()]

    module.reset_parameters()

    assert all(not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_repr():
    assert str(Readout(4, 2, 3, F.relu, 0.0)) == "Readout(4, 2)"


def test_at_least_one_layer():
    with pytest.raises(ValueError, match=r"'readout_layers' to be at least 1 \(got 0\)"):
        Readout(4, 2, 0, F.relu, 0.0)
