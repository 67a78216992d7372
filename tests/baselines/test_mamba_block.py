import pytest
import torch
from baseline_checks import check_reset, randomize
from dense_formulas import mamba

from torch_grama.baselines import BidirectionalMamba, MambaBlock


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("expansion", [1, 2])
@pytest.mark.parametrize("length", [1, 3, 40])
def test_equals_the_formula_step_by_step(expansion, length):
    block = randomize(MambaBlock(6, 4, kernel_size=3, expansion=expansion).double())
    sequences = draw(2, length, 6)
    out = block(sequences)
    for sequence, row in zip(sequences, out, strict=True):
        torch.testing.assert_close(row, mamba(block, sequence), rtol=1e-9, atol=1e-11)


def test_sees_the_past_alone():
    block = MambaBlock(4).double()
    sequence = draw(1, 10, 4)
    changed = sequence.clone()
    changed[:, 6:] = 100.0
    assert torch.equal(block(sequence)[:, :6], block(changed)[:, :6])
    assert not torch.allclose(block(sequence)[:, 6:], block(changed)[:, 6:])


def test_start_of_step_sizes_and_decays():
    torch.manual_seed(0)
    block = MambaBlock(64)
    steps = torch.nn.functional.softplus(block.step_lin.bias)
    assert steps.min() >= 0.99e-3
    assert steps.max() <= 1.01e-1
    assert steps.max() / steps.min() > 20
    assert torch.allclose(block.log_decay.exp(), torch.arange(1.0, 17.0).expand(64, 16))
    assert (block.skip == 1).all()


def test_parameter_count_of_the_paper():
    """Of Gu and Dao's block: 3 e d^2 in the linear maps, and the small ones."""
    channels, states, expansion = 96, 16, 2
    inner, rank = expansion * channels, 6
    expected = (
        channels * 2 * inner
        + inner * 4
        + inner
        + inner * (rank + 2 * states)
        + rank * inner
        + inner
        + inner * states
        + inner
        + inner * channels
    )
    block = MambaBlock(channels, states, expansion=expansion)
    assert sum(p.numel() for p in block.parameters()) == expected


def test_bidirectional_turns_each_sequence_at_its_own_end():
    module = randomize(BidirectionalMamba(4, 3).double())
    sequences, lengths = draw(2, 7, 4), torch.tensor([7, 4])
    out = module(sequences, lengths)
    for sequence, row, length in zip(sequences, out, lengths.tolist(), strict=True):
        own = sequence[:length]
        expected = mamba(module.forwards, own) + mamba(module.backwards, own.flip(0)).flip(0)
        torch.testing.assert_close(row[:length], expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(module(sequences)[0], out[0])


def test_reset_and_repr():
    check_reset(lambda: MambaBlock(16))
    assert str(MambaBlock(8)) == "MambaBlock(8, state_channels=16, kernel_size=4, expansion=1)"


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match="'state_channels'"):
        MambaBlock(8, 0)
