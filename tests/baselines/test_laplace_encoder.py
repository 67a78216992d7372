import pytest
import torch
from baseline_checks import check_reset, randomize
from dense_formulas import affine, full_attention, layer_norm

from torch_grama.baselines import LaplaceEncoder


def draw():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    values = torch.rand(5, 4, generator=generator, dtype=torch.float64)
    # a graph of two nodes has two frequencies
    vectors[:2, 2:] = float("nan")
    values[:2, 2:] = float("nan")
    return vectors, values


def pairs_of(vectors, values, node):
    known = ~vectors[node].isnan()
    return torch.stack([vectors[node, known], values[node, known]], -1)


def test_deep_set_sums_an_mlp_over_the_frequencies_that_there_are():
    encoder = randomize(LaplaceEncoder(6).double()).eval()
    vectors, values = draw()
    for node, row in enumerate(encoder(vectors, values)):
        hidden = affine(encoder.lin[0], pairs_of(vectors, values, node)).clamp(min=0)
        expected = affine(encoder.lin[2], hidden).clamp(min=0).sum(0)
        torch.testing.assert_close(row, expected)


def test_transformer_runs_over_the_frequencies_that_there_are():
    encoder = LaplaceEncoder(8, method="transformer", feedforward_channels=16)
    encoder = randomize(encoder.double()).eval()
    vectors, values = draw()
    for node, row in enumerate(encoder(vectors, values)):
        z = affine(encoder.lin[0], pairs_of(vectors, values, node))
        for layer in encoder.layers:
            z = layer_norm(layer.norm1, z + full_attention(layer.self_attn, z))
            update = affine(layer.linear2, affine(layer.linear1, z).clamp(min=0))
            z = layer_norm(layer.norm2, z + update)
        torch.testing.assert_close(row, z.sum(0))


@pytest.mark.parametrize("method", ["deep_set", "transformer"])
def test_signs_are_drawn_in_training_alone(method):
    encoder = LaplaceEncoder(8, method=method, heads=2, feedforward_channels=8).double()
    for layer in encoder.layers:
        layer.eval()  # no dropout
    vectors, values = draw()
    results = []
    for seed in range(8):
        torch.manual_seed(seed)
        results.append(encoder(vectors, values))
    assert any(not torch.allclose(results[0], other) for other in results[1:])
    encoder.eval()
    assert torch.equal(encoder(vectors, values), encoder(vectors, values))


@pytest.mark.parametrize("method", ["deep_set", "transformer"])
def test_reset(method):
    check_reset(lambda: LaplaceEncoder(16, method=method))


def test_input_and_words_are_checked():
    with pytest.raises(ValueError, match="one shape"):
        LaplaceEncoder(8)(torch.ones(3, 2), torch.ones(3, 4))
    with pytest.raises(ValueError, match="'deep_set'"):
        LaplaceEncoder(8, method="deepset")
    assert str(LaplaceEncoder(8)) == "LaplaceEncoder(8, method='deep_set')"
