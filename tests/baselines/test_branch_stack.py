import pytest
import torch
import torch.nn.functional as F
from baseline_checks import check_reset, draw_graph, read_batch

from torch_grama.baselines import GPS
from torch_grama.baselines.branch_stack import GatedGCNBranch, node_noise
from torch_grama.nn.graph_input import read_graph_input

GRAPH = draw_graph(7, 0, edge_dim=5)
READ = read_graph_input(7, GRAPH.edge_index)


@pytest.mark.parametrize("has_edge_attr", [False, True])
def test_gine_sums_rectified_neighbours(has_edge_attr):
    # states as wide as the features of the graph
    edge_dim = 5 if has_edge_attr else None
    branch = GPS(5, 5, 3, 1, local="gine", edge_dim=edge_dim, heads=1).locals[0].double()
    edge = GRAPH.edge_attr if has_edge_attr else None
    out, same = branch(GRAPH.x, READ, edge)
    total = GRAPH.x.clone()
    for number, (j, i) in enumerate(GRAPH.edge_index.t().tolist()):
        message = GRAPH.x[j]
        total[i] += F.relu(message + GRAPH.edge_attr[number]) if has_edge_attr else message
    torch.testing.assert_close(out, branch.conv.nn(total))
    assert same is edge


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_reset_reaches_the_map_of_the_summaries(edge_dim):
    check_reset(lambda: GPS(5, 16, 2, 2, local="gine-multi", edge_dim=edge_dim))


def test_dropout_of_the_edges_keeps_what_they_were():
    branch = GatedGCNBranch(5, True, dropout=0.5).double()
    torch.manual_seed(0)
    _, new_edge = branch(GRAPH.x, READ, GRAPH.edge_attr)
    change = new_edge - GRAPH.edge_attr
    assert (change == 0).double().mean() > 0.5
    assert (change >= 0).all()


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


def test_graphs_must_lie_together():
    with pytest.raises(ValueError, match="sorted"):
        read_batch(torch.ones(6, 1), EDGES, batch=torch.tensor([0, 0, 1, 0, 1, 1]))


def test_noise_of_training_comes_from_the_global_generator():
    draws = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        draws.append(node_noise(torch.arange(5), 4, True, torch.float64))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
