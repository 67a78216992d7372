"""Standardised columns: mean zero, deviation one, flags and constants left alone, and back."""

import torch
from torch_geometric.nn.inits import reset

from torch_grama.training.input_stage import InputStage, Standardize


def test_columns_get_mean_zero_and_deviation_one():
    generator = torch.Generator().manual_seed(0)
    x = 300 + 50 * torch.randn(500, 2, generator=generator)
    standardize = Standardize(2)
    standardize.fit(x)
    z = standardize(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(standardize.invert(z), x)


def test_flags_constants_and_missing_rows():
    x = torch.tensor([[0.0, 7.0, 1.0], [1.0, 7.0, 3.0], [0.0, 7.0, float("nan")]])
    standardize = Standardize(3)
    standardize.fit(x)
    assert torch.equal(standardize(x)[:, :2], x[:, :2])
    assert standardize.mean[2] == 2
    standardize.fit(torch.full((2, 3), float("nan")))
    assert standardize.mean[2] == 2


def test_by_the_largest_nothing_is_shifted_and_no_size_passes_one():
    x = torch.tensor([[-8.0, 1.0], [4.0, 0.0]])
    divide = Standardize(2, by_largest=True)
    divide.fit(x)
    assert divide(x).tolist() == [[-1.0, 1.0], [0.5, 0.0]]
    torch.testing.assert_close(divide.invert(divide(x)), x)


def test_a_sequence_is_measured_over_all_its_elements():
    x = torch.arange(12.0).reshape(2, 3, 2)
    standardize = Standardize(2)
    standardize.fit(x)
    torch.testing.assert_close(standardize(x).mean((0, 1)), torch.zeros(2))


def test_scales_are_kept_with_the_weights_and_survive_a_reset():
    standardize = Standardize(1)
    standardize.fit(torch.tensor([[10.0], [30.0]]))
    other = Standardize(1)
    other.load_state_dict(standardize.state_dict())
    reset(other)
    assert (float(other.mean), float(other.scale)) == (20.0, 10.0)
    assert str(other) == "Standardize(1)"


def test_a_stage_scales_what_goes_in_and_what_comes_out():
    class Double(torch.nn.Module):
        def forward(self, x, *graph):
            return 2 * x

    given, wanted = Standardize(1), Standardize(1)
    given.fit(torch.tensor([[10.0], [30.0]]))
    wanted.fit(torch.tensor([[100.0], [300.0]]))
    stage = InputStage(Double(), node_scale=given, output_scale=wanted)
    out = stage(torch.tensor([[30.0]]), torch.zeros(2, 0, dtype=torch.long))
    assert out.tolist() == [[200.0 + 100.0 * 2.0]]
    assert "output_scale=Standardize(1)" in str(stage)
