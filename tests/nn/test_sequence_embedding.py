import pytest
import torch
from torch.nn.parameter import UninitializedParameter

from torch_grama.nn import SequenceEmbedding

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


def test_every_position_has_its_own_map(x):
    module = embedding()

    states, _ = module(x)

    assert states.size() == (LENGTH, NODES, CHANNELS)
    for k in range(LENGTH):
        assert torch.allclose(states[k], (x @ module.weight[k] + module.bias[k]).clamp(min=0))


def test_residuals_are_forward_differences_and_the_last_is_zero(x):
    states, residuals = embedding()(x)

    for k in range(LENGTH - 1):
        assert torch.equal(residuals[k], states[k + 1] - states[k])
    assert torch.equal(residuals[-1], torch.zeros(NODES, CHANNELS, dtype=torch.float64))


def test_residuals_may_start_at_zero(x):
    states, residuals = embedding(initial_residuals="zero")(x)

    assert torch.equal(residuals, torch.zeros_like(states))


def test_further_layers_by_hand(x):
    module = embedding(num_layers=3, act="tanh")

    states, _ = module(x)

    for k in range(LENGTH):
        hidden = (x @ module.weight[k] + module.bias[k]).tanh()
        for layer in range(2):
            weight, bias = module.hidden_weight[layer, k], module.hidden_bias[layer, k]
            hidden = (hidden @ weight + bias).tanh()
        assert torch.allclose(states[k], hidden)


def test_a_sequence_gives_every_position_its_snapshot(x):
    module = embedding()
    sequence = torch.randn(NODES, LENGTH, IN, dtype=torch.float64)

    states, _ = module(sequence)

    for k in range(LENGTH):
        assert torch.allclose(states[k], module(sequence[:, k])[0][k])


def test_a_sequence_may_come_first():
    module, other = embedding(), embedding(sequence_first=True)
    other.load_state_dict(module.state_dict())
    sequence = torch.randn(NODES, LENGTH, IN, dtype=torch.float64)

    for a, b in zip(module(sequence), other(sequence.transpose(0, 1)), strict=True):
        assert torch.equal(a, b)


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


def test_lazy_takes_the_width_from_the_first_input(x):
    module = embedding(in_channels=-1)

    states, _ = module(x)

    assert module.in_channels == IN
    assert module.weight.size() == (LENGTH, IN, CHANNELS)
    assert torch.isfinite(states).all()


def test_state_dict_fills_a_lazy_one(x):
    module, lazy = embedding(), embedding(in_channels=-1)

    lazy.load_state_dict(module.state_dict())

    assert lazy.in_channels == IN
    assert torch.equal(lazy(x)[0], module(x)[0])


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


@pytest.mark.parametrize("num_layers", [1, 2])
def test_every_parameter_gets_a_gradient(x, num_layers):
    module = embedding(num_layers=num_layers)

    module(x)[0].sum().backward()

    assert all(p.grad is not None for p in module.parameters())


def test_gradcheck(x):
    module = embedding(act="tanh", num_layers=2)

    assert torch.autograd.gradcheck(module, x.requires_grad_())


def test_repr():
    assert str(SequenceEmbedding(7, 16, 4)) == "SequenceEmbedding(7, 16, seq_len=4)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"in_channels": 0}, r"'in_channels' to be positive or -1 \(got 0\)"),
        ({"channels": 0}, r"'channels' to be at least 1 \(got 0\)"),
        ({"seq_len": -1}, r"'seq_len' to be at least 1 \(got -1\)"),
        ({"num_layers": 0}, r"'num_layers' to be at least 1 \(got 0\)"),
        (
            {"initial_residuals": "zeros"},
            r"'initial_residuals' to be one of 'zero', 'difference' \(got 'zeros'\)",
        ),
        ({"act": "rleu"}, r"'act' to be one of 'relu'"),
    ],
)
def test_bad_arguments_get_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        SequenceEmbedding(**{"in_channels": 5, "channels": 4, "seq_len": 3, **change})
