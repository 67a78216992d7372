import pytest
import torch
from baseline_checks import read_batch

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
