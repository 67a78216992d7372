import pytest
import torch

from torch_grama.nn.arguments import ACTIVATIONS, resolve_activation
from torch_grama.nn.engine.sequence import IN_PLACE, identity

X = torch.tensor([-2.0, -0.5, 0.0, 1.5], dtype=torch.float64)

FORMULAS = {
    "relu": lambda x: x.clamp(min=0),
    "elu": lambda x: torch.where(x > 0, x, x.exp() - 1),
    "gelu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "silu": lambda x: x / (1 + (-x).exp()),
    "tanh": lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),
    "leaky_relu": lambda x: torch.where(x > 0, x, 0.01 * x),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("word", ACTIVATIONS)
def test_every_word_is_its_formula(word):
    assert torch.allclose(resolve_activation(word)(X), FORMULAS[word](X))


def test_none_is_no_activation():
    assert resolve_activation(None) is identity


def test_a_callable_is_taken_as_it_is():
    assert resolve_activation(torch.sin) is torch.sin


def test_an_unknown_word_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"Expected 'act' to be one of 'relu'.*'tanh'.*got 'rlu'"):
        resolve_activation("rlu")


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match=r"Expected 'act' to be a word, a callable or None.*int"):
        resolve_activation(3)


@pytest.mark.parametrize("act", IN_PLACE)
def test_written_over_its_input_it_is_the_same(act):
    x = X.clone()

    out = IN_PLACE[act](x)

    assert out.data_ptr() == x.data_ptr()
    assert torch.equal(out, act(X))
