import pytest
import torch

from torch_grama.baselines import selective_scan


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


def draw(batch=2, length=9, channels=3, states=4, strength=1.0, seed=0):
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
    parts = draw(length=length)
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


def test_reference_is_the_equation_for_one_channel_and_one_state():
    x = torch.tensor([2.0, -1.0, 3.0])
    delta = torch.tensor([0.5, 1.0, 2.0])
    b, c = torch.tensor([1.0, 2.0, -1.0]), torch.tensor([1.0, 0.5, 4.0])
    h1 = 0.5 * 1.0 * 2.0
    h2 = torch.exp(torch.tensor(-0.7 * 1.0)) * h1 + 1.0 * 2.0 * -1.0
    h3 = torch.exp(torch.tensor(-0.7 * 2.0)) * h2 + 2.0 * -1.0 * 3.0
    expected = torch.stack([c[0] * h1, c[1] * h2, c[2] * h3]) + 0.1 * x
    out = step_by_step(
        x.view(1, 3, 1),
        delta.view(1, 3, 1),
        torch.tensor([[-0.7]]),
        b.view(1, 3, 1),
        c.view(1, 3, 1),
        torch.tensor([0.1]),
    )
    assert torch.allclose(out.flatten(), expected)


@pytest.mark.parametrize("max_elements", [2**20, 24])
def test_gradcheck(max_elements):
    parts = draw(length=5, channels=2, states=3)
    assert torch.autograd.gradcheck(
        lambda *given: selective_scan(*given, chunk_size=2, max_elements=max_elements), parts
    )


def test_a_strong_decay_stays_exact():
    """Dividing by products of decays would overflow here."""
    parts = draw(length=64, strength=500.0)
    fast, slow = selective_scan(*parts), step_by_step(*parts)
    assert fast.isfinite().all()
    torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-12)


def test_without_skip_and_with_nothing_to_scan():
    *parts, skip = draw()
    with_skip = selective_scan(*parts, skip)
    torch.testing.assert_close(selective_scan(*parts) + skip * parts[0], with_skip)
    assert selective_scan(*draw(length=0)).size() == (2, 0, 3)


def test_what_is_kept_for_the_backward_pass_is_not_a_state_for_each_step():
    kept = []

    def note(tensor):
        kept.append(tensor.numel())
        return tensor

    parts = draw(batch=3, length=64, channels=4, states=16)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        selective_scan(*parts, chunk_size=16)
    assert max(kept) <= 3 * 64 * 16  # the maps
    kept.clear()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        step_by_step(*parts)
    assert sum(kept) > 3 * 64 * 4 * 16


def test_half_precision_is_scanned_in_single_precision():
    parts = draw(length=100)
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
    parts = draw()
    for place, shape in change.items():
        parts[place] = torch.ones(shape, dtype=torch.float64)
    with pytest.raises(ValueError, match=message):
        selective_scan(*parts)


def test_chunk_size_must_be_positive():
    with pytest.raises(ValueError, match="'chunk_size'"):
        selective_scan(*draw(), chunk_size=0)
