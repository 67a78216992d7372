import pytest
import torch
from baseline_checks import check_reset, randomize
from dense_formulas import mamba

from torch_grama.baselines import BidirectionalMamba, MambaBlock, selective_scan


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
    expected = inner * (3 * channels + 2 * rank + 3 * states + 7)
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


def step_by_step(x, delta, decay, input_map, output_map, skip=None):
    """The recurrence of the docstring, as it is written."""
    state = x.new_zeros(x.size(0), x.size(2), decay.size(1))
    outputs = []
    for t in range(x.size(1)):
        step = delta[:, t, :, None]
        state = torch.exp(step * decay) * state + step * input_map[:, t, None] * x[:, t, :, None]
        output = (state * output_map[:, t, None]).sum(dim=-1)
        outputs.append(output if skip is None else output + skip * x[:, t])
    return torch.stack(outputs, dim=1)


def draw_scan(batch=2, length=9, channels=3, states=4, strength=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    parts = [
        normal(batch, length, channels),
        normal(batch, length, channels).exp(),
        -strength * normal(channels, states).exp(),
        normal(batch, length, states),
        normal(batch, length, states),
        normal(channels),
    ]
    return [part.requires_grad_() for part in parts]


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize(("chunk_size", "max_elements"), [(1, 2**20), (4, 1), (8, 30), (64, 2**20)])
def test_equals_the_recurrence_step_by_step(length, chunk_size, max_elements):
    parts = draw_scan(length=length)
    fast = selective_scan(*parts, chunk_size=chunk_size, max_elements=max_elements)
    slow = step_by_step(*parts)
    torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-12)
    weight = torch.cos(torch.arange(fast.numel(), dtype=torch.float64)).view_as(fast)
    for a, b in zip(
        torch.autograd.grad((fast * weight).sum(), parts),
        torch.autograd.grad((slow * weight).sum(), parts),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("max_elements", [2**20, 24])
def test_gradcheck(max_elements):
    parts = draw_scan(length=5, channels=2, states=3)
    assert torch.autograd.gradcheck(
        lambda *given: selective_scan(*given, chunk_size=2, max_elements=max_elements), parts
    )


def test_a_strong_decay_stays_exact():
    """Dividing by products of decays would overflow here."""
    parts = draw_scan(length=64, strength=500.0)
    fast, slow = selective_scan(*parts), step_by_step(*parts)
    assert fast.isfinite().all()
    torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-12)


def test_without_skip_and_with_nothing_to_scan():
    *parts, skip = draw_scan()
    with_skip = selective_scan(*parts, skip)
    torch.testing.assert_close(selective_scan(*parts) + skip * parts[0], with_skip)
    assert selective_scan(*draw_scan(length=0)).size() == (2, 0, 3)
    with pytest.raises(ValueError, match="'chunk_size'"):
        selective_scan(*parts, chunk_size=0)


def test_what_is_kept_for_the_backward_pass_is_not_a_state_for_each_step():
    kept = []

    def note(tensor):
        kept.append(tensor.numel())
        return tensor

    parts = draw_scan(batch=3, length=64, channels=4, states=16)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        selective_scan(*parts, chunk_size=16)
    assert max(kept) <= 3 * 64 * 16  # the maps
    kept.clear()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        step_by_step(*parts)
    assert sum(kept) > 3 * 64 * 4 * 16


def test_half_precision_is_scanned_in_single_precision():
    parts = draw_scan(length=100)
    exact = selective_scan(*parts)
    halves = [part.bfloat16() for part in parts]
    out = selective_scan(*halves)
    assert out.dtype == torch.bfloat16
    rounded = selective_scan(*(half.double() for half in halves))
    torch.testing.assert_close(out.double(), rounded, rtol=2e-2, atol=2e-2)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(selective_scan(*parts), exact)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: (2, 9)}, "'x' of shape"),
        ({1: (2, 8, 3)}, "'delta'"),
        ({2: (4, 4)}, "'decay'"),
        ({3: (2, 9, 5)}, "'input_map'"),
        ({4: (1, 9, 4)}, "'output_map'"),
        ({5: (2,)}, "'skip'"),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    parts = draw_scan()
    for place, shape in change.items():
        parts[place] = torch.ones(shape, dtype=torch.float64)
    with pytest.raises(ValueError, match=message):
        selective_scan(*parts)
