import pytest
import torch
from torch.nn import BatchNorm1d, GroupNorm, LayerNorm

from torch_grama.nn.norms import build_norm, normalize_sequence


@pytest.mark.parametrize(("word", "kind"), [("batch_norm", BatchNorm1d), ("layer_norm", LayerNorm)])
def test_words(word, kind):
    norm = build_norm(word, 4)

    assert type(norm) is kind
    assert norm(torch.randn(3, 4)).size() == (3, 4)


def test_none():
    assert build_norm(None, 4) is None


def test_a_callable_gets_the_channels():
    assert build_norm(lambda channels: LayerNorm(channels, eps=0.5), 4).eps == 0.5


def test_every_element_of_the_sequence_is_normalised_together_by_a_batch_norm():
    sequence = 3 * torch.randn(3, 5, 4, dtype=torch.float64) + 1

    out = normalize_sequence(BatchNorm1d(4).double(), sequence)

    assert torch.allclose(out.mean((0, 1)), torch.zeros(4).double(), atol=1e-12)
    assert torch.allclose(out.var((0, 1), correction=0), torch.ones(4).double(), atol=1e-4)


def test_layer_norm_sees_each_row_alone():
    sequence = torch.randn(3, 5, 4)
    norm = LayerNorm(4)

    assert torch.allclose(normalize_sequence(norm, sequence)[1, 2], norm(sequence[1, 2]), atol=1e-6)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("num_nodes", [0, 1])
def test_batch_norm_of_too_few_rows_uses_its_running_statistics(num_nodes, affine):
    norm = BatchNorm1d(4, affine=affine)
    norm(torch.randn(8, 4) + 3)
    before = norm.running_mean.clone()
    sequence = torch.randn(1, num_nodes, 4)

    out = normalize_sequence(norm, sequence)

    assert torch.equal(norm.running_mean, before)
    assert torch.equal(out, normalize_sequence(norm.eval(), sequence))


def test_batch_norm_without_running_statistics_says_what_torch_says():
    norm = BatchNorm1d(4, track_running_stats=False)

    with pytest.raises(ValueError, match="more than 1 value per channel"):
        normalize_sequence(norm, torch.randn(1, 1, 4))


def test_unknown_word():
    with pytest.raises(
        ValueError, match=r"'norm' to be one of 'batch_norm', 'layer_norm'.*'batch'"
    ):
        build_norm("batch", 4)


def test_what_is_no_word_and_no_callable():
    with pytest.raises(TypeError, match=r"'norm' to be a word, a callable.*got int"):
        build_norm(3, 4)


def test_a_callable_that_makes_no_module():
    with pytest.raises(TypeError, match=r"'norm' to make a torch.nn.Module \(got int\)"):
        build_norm(lambda channels: channels, 4)


def test_a_norm_of_another_kind_is_called_on_rows():
    norm = GroupNorm(2, 4)
    sequence = torch.randn(2, 3, 4)

    assert torch.allclose(
        normalize_sequence(norm, sequence), norm(sequence.view(6, 4)).view(2, 3, 4)
    )
