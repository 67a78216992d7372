import torch

from torch_grama.baselines.batch_view import node_noise


def test_noise_of_training_comes_from_the_global_generator():
    place = torch.arange(5)
    torch.manual_seed(3)
    first = node_noise(place, 4, True, torch.float64)
    torch.manual_seed(3)
    assert torch.equal(first, node_noise(place, 4, True, torch.float64))
    assert not torch.equal(first, node_noise(place, 4, True, torch.float64))


def test_noise_of_the_test_is_fixed_and_does_not_touch_the_generator():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = node_noise(torch.arange(50), 3, False, torch.float64)
    assert torch.equal(torch.rand(2), expected)
    again = node_noise(torch.tensor([7, 3]), 3, False, torch.float64)
    assert torch.equal(again, first[[7, 3]])


def test_noise_of_the_test_looks_uniform():
    noise = node_noise(torch.arange(4000), 6, False, torch.float64)
    assert noise.min() >= 0
    assert noise.max() < 1
    assert (noise.mean(0) - 0.5).abs().max() < 0.03
    assert (noise.var(0) - 1 / 12).abs().max() < 0.01
    assert (torch.corrcoef(noise.t()) - torch.eye(6)).abs().max() < 0.06
    assert noise.unique().numel() > 0.99 * noise.numel()
