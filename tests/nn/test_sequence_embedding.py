import pytest
import torch
from torch.nn.parameter import UninitializedParameter

from torch_grama.nn import SequenceEmbedding
from torch_grama.nn.sequence_embedding import batched_linear

NODES, IN, CHANNELS, LENGTH = 4, 5, 3, 4


def embedding(**options):
    options = {"in_channels": IN, "channels": CHANNELS, "seq_len": LENGTH, **options}
    module = SequenceEmbedding(**options).double()
    for parameter in module.parameters():
        if not isinstance(parameter, UninitializedParameter):
            torch.nn.init.normal_(parameter)
    return module


@pytest.fixture
def x(seed):
    return torch.randn(NODES, IN, dtype=torch.float64)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize(("word", "act"), [("relu", torch.relu), ("tanh", torch.tanh)])
def test_every_position_has_its_own_map(x, num_layers, word, act):
    module = embedding(num_layers=num_layers, act=word)
    states, _ = module(x)
    assert states.size() == (LENGTH, NODES, CHANNELS)
    for k in range(LENGTH):
        hidden = act(x @ module.weight[k] + module.bias[k])
        for layer in range(num_layers - 1):
            hidden = act(hidden @ module.hidden_weight[layer, k] + module.hidden_bias[layer, k])
        assert torch.allclose(states[k], hidden)


def test_residuals_are_forward_differences_and_the_last_is_zero(x):
    states, residuals = embedding()(x)
    for k in range(LENGTH - 1):
        assert torch.equal(residuals[k], states[k + 1] - states[k])
    assert torch.equal(residuals[-1], torch.zeros(NODES, CHANNELS, dtype=torch.float64))


def test_a_sequence_gives_every_position_its_snapshot(x):
    module = embedding()
    sequence = torch.randn(NODES, LENGTH, IN, dtype=torch.float64)
    states, _ = module(sequence)
    for k in range(LENGTH):
        assert torch.allclose(states[k], module(sequence[:, k])[0][k])


def test_positions_differ_at_initialisation(x):
    states, residuals = SequenceEmbedding(IN, CHANNELS, LENGTH)(x.float())
    assert (residuals[:-1].abs().sum(dim=(1, 2)) > 0).all()
    assert (states[1:] != states[:-1]).any()


@pytest.mark.parametrize("num_layers", [1, 2, 4])
def test_initialisation_keeps_the_scale(num_layers):
    x = torch.randn(200, 64)
    states, _ = SequenceEmbedding(64, 64, 2, num_layers=num_layers)(x)
    assert 0.5 < states.square().mean().sqrt() < 2


def test_dropout_only_while_training(x):
    module = embedding(dropout=0.5, act=None)
    dropped = module(x)[0]
    module.eval()
    kept = module(x)[0]
    assert (dropped == 0).any()
    assert torch.equal(kept, module(x)[0])
    assert torch.allclose(dropped[dropped != 0], 2 * kept[dropped != 0])


def test_state_dict_of_a_lazy_one_loads_into_a_lazy_one(x):
    module, other = embedding(in_channels=-1), embedding(in_channels=-1)
    other.load_state_dict(module.state_dict())
    assert other.in_channels == -1
    assert isinstance(other.weight, UninitializedParameter)


def test_reset_draws_anew():
    module = embedding(num_layers=2)
    before = {name: p.clone() for name, p in module.named_parameters()}
    module.reset_parameters()
    for name, parameter in module.named_parameters():
        assert not torch.equal(parameter, before[name])


def test_gradcheck(x):
    module = embedding(act="tanh", num_layers=2)
    assert torch.autograd.gradcheck(module, x.requires_grad_())


def make_problem():
    sizes = (3, 6, 4), (3, 4, 2), (3, 1, 2)
    return [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in sizes]


class TestBatchedLinear:
    """Equal to torch's own product, and differentiable as often."""

    def test_gradients(self):
        assert torch.autograd.gradcheck(batched_linear, make_problem())
        assert torch.autograd.gradgradcheck(batched_linear, make_problem())

    def test_autocast_is_left_to_torch(self):
        x, weight, bias = (t.detach().float() for t in make_problem())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert batched_linear(x, weight, bias).dtype == torch.bfloat16
