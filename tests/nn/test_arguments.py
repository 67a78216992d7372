import pytest
import torch

from torch_grama.nn.arguments import ACTIVATIONS, choose, list_nearest_first, resolve_activation
from torch_grama.nn.engine.sequence import PURE_ACTIVATIONS, identity

COLOURS = {"red": 1, "green": 2, "grey": 3}
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


class TestChoose:
    def test_an_unknown_word_lists_all_with_the_nearest_first(self):
        message = r"^Expected 'colour' to be one of 'grey', 'green', 'red' \(got 'gray'\)$"
        with pytest.raises(ValueError, match=message):
            choose("colour", "gray", COLOURS)

    @pytest.mark.parametrize("word", [None, 3, ("red",), ["red"]])
    def test_what_is_no_word_is_refused_like_an_unknown_one(self, word):
        with pytest.raises(ValueError, match="Expected 'colour' to be one of"):
            choose("colour", word, COLOURS)

    def test_upper_case_does_not_hide_the_nearest_word(self):
        assert list_nearest_first("GREEN", COLOURS).startswith("'green'")


class TestActivation:
    @pytest.mark.parametrize("word", ACTIVATIONS)
    def test_every_word_is_its_formula(self, word):
        assert torch.allclose(resolve_activation(word)(X), FORMULAS[word](X))

    def test_none_is_no_activation(self):
        assert resolve_activation(None) is identity

    def test_a_callable_is_taken_as_it_is(self):
        assert resolve_activation(torch.sin) is torch.sin

    def test_every_word_is_a_pure_function(self):
        assert set(ACTIVATIONS.values()) == PURE_ACTIVATIONS.keys()

    @pytest.mark.parametrize("act", [act for act, over in PURE_ACTIVATIONS.items() if over])
    def test_written_over_its_input_it_is_the_same(self, act):
        x = X.clone()
        out = PURE_ACTIVATIONS[act](x)
        assert out.data_ptr() == x.data_ptr()
        assert torch.equal(out, act(X))
