import pytest
import torch
from baseline_checks import read_batch

from torch_grama.baselines.batch_view import node_noise

EDGES = torch.tensor([[0, 1, 3, 4, 4], [1, 0, 4, 3, 5]])


def test_pack_and_unpack_are_inverse_and_leave_empty_graphs_out():
    x = torch.arange(12.0).view(6, 2)
    view = read_batch(x, EDGES, batch=torch.tensor([0, 0, 2, 3, 3, 3]), batch_size=5)
    assert view.num_graphs == 3
    assert view.sizes.tolist() == [2, 1, 3]
    assert view.place.tolist() == [0, 1, 0, 0, 1, 2]
    dense = view.pack(x)
    assert dense.size() == (3, 3, 2)
    assert torch.equal(dense[0], torch.tensor([[0.0, 1], [2, 3], [0, 0]]))
    assert torch.equal(view.mask, torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool())
    assert torch.equal(view.unpack(dense), x)


@pytest.mark.parametrize("batch", [None, torch.zeros(6, dtype=torch.long)])
def test_one_graph_is_not_padded(batch):
    x = torch.randn(6, 2)
    view = read_batch(x, EDGES, batch=batch)
    assert view.mask is None
    assert torch.equal(view.pack(x), x.unsqueeze(0))
    assert torch.equal(view.unpack(view.pack(x)), x)


def test_nodes_are_sorted_within_their_graph():
    view = read_batch(torch.ones(6, 1), EDGES, batch=torch.tensor([0, 0, 0, 1, 1, 1]))
    order = view.sort_nodes(torch.tensor([5.0, 1.0, 3.0, 2.0, 0.0, 2.0]))
    assert order.tolist() == [1, 2, 0, 4, 3, 5]
    assert view.degrees().tolist() == [1, 1, 0, 1, 2, 0]


def test_input_is_checked():
    with pytest.raises(ValueError, match="'batch'"):
        read_batch(torch.ones(6, 1), EDGES, batch=torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="sorted"):
        read_batch(torch.ones(6, 1), EDGES, batch=torch.tensor([0, 0, 1, 0, 1, 1]))


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
