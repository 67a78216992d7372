import copy
import pickle

import pytest
import torch
from baseline_checks import draw_graph
from torch_geometric.data import Batch

from torch_grama.baselines.hop_pairs import GraphMemo
from torch_grama.nn.graph_input import read_graph_input


class Counting:
    """Returns the edges as pairs and their doubled weights, and counts the calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, edge_index, edge_weight, num_nodes):
        self.calls += 1
        ones = torch.ones(edge_index.size(1)) if edge_weight is None else edge_weight
        return edge_index, 2 * ones


@pytest.fixture
def counting():
    return Counting()


@pytest.fixture
def batch():
    return Batch.from_data_list([draw_graph(size, seed) for seed, size in enumerate((5, 3, 5))])


def find(memo, batch, weight=None):
    return look_up(memo, batch.edge_index, weight, batch.num_nodes, batch.batch, batch.num_graphs)


def look_up(memo, edge_index, weight, num_nodes, *batch):
    return memo.find(read_graph_input(num_nodes, edge_index, weight, None, *batch))


def as_set(pairs, values):
    return set(zip(*pairs.tolist(), values.tolist(), strict=True))


def test_a_batch_gives_the_pairs_of_its_graphs(counting, batch):
    weight = torch.arange(1.0, batch.num_edges + 1)
    shuffle = torch.randperm(batch.num_edges)
    batch.edge_index, shuffled = batch.edge_index[:, shuffle], weight[shuffle]
    pairs, values = find(GraphMemo(counting), batch, shuffled)
    assert as_set(pairs, values) == as_set(batch.edge_index, 2 * shuffled)
    assert counting.calls == 3


def test_a_graph_is_found_again_in_another_batch(counting, batch):
    memo = GraphMemo(counting)
    find(memo, batch)
    graphs = batch.to_data_list()
    again = Batch.from_data_list([graphs[2], draw_graph(4, 9), graphs[0], graphs[2]])
    pairs, values = find(memo, again)
    assert counting.calls == 4
    assert as_set(pairs, values) == as_set(again.edge_index, 2 * torch.ones(again.num_edges))


def test_other_weights_or_more_nodes_make_another_graph(counting):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    memo = GraphMemo(counting)
    look_up(memo, edge_index, None, 2)
    look_up(memo, edge_index.clone(), torch.ones(2), 2)
    look_up(memo, edge_index.clone(), torch.tensor([1.0, 2.0]), 2)
    look_up(memo, edge_index.clone(), None, 3)
    assert counting.calls == 4
    look_up(memo, edge_index.clone(), torch.tensor([1.0, 2.0]), 2)
    assert counting.calls == 4


def test_the_same_tensors_are_known_until_they_are_written_to(counting):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    memo = GraphMemo(counting)
    first = look_up(memo, edge_index, None, 3)
    assert look_up(memo, edge_index, None, 3)[0] is first[0]
    edge_index[0, 0] = 2
    assert look_up(memo, edge_index, None, 3)[0].tolist() == [[2, 1], [1, 0]]
    assert counting.calls == 2


def test_the_oldest_graphs_leave_first(counting):
    memo = GraphMemo(counting, max_pairs=4)
    graphs = [torch.tensor([[0, n], [n, 0]]) for n in (1, 2, 3)]
    for edge_index in graphs:
        look_up(memo, edge_index, None, 4)
    assert (len(memo._graphs), memo._num_pairs) == (2, 4)
    look_up(memo, graphs[2].clone(), None, 4)
    assert counting.calls == 3
    look_up(memo, graphs[0].clone(), None, 4)
    assert counting.calls == 4


def test_nothing_is_kept_if_so_wished(counting, batch):
    memo = GraphMemo(counting, max_pairs=0)
    find(memo, batch)
    find(memo, batch)
    assert counting.calls == 6


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda memo: pickle.loads(pickle.dumps(memo))]
)
def test_copies_start_empty(counting, batch, duplicate):
    memo = GraphMemo(counting)
    find(memo, batch)
    other = duplicate(memo)
    assert other._graphs == {}
    assert as_set(*find(other, batch)) == as_set(*find(memo, batch))


def test_empty_slots_of_a_batch_hold_nothing(counting):
    edge_index = torch.tensor([[0, 2], [1, 3]])
    batch = torch.tensor([0, 0, 2, 2])
    pairs, _ = look_up(GraphMemo(counting), edge_index, None, 4, batch, 4)
    assert pairs.tolist() == [[0, 2], [1, 3]]


def test_what_was_found_in_inference_mode_can_be_trained_with(batch):
    memo = GraphMemo(lambda edge_index, edge_weight, num_nodes: (edge_index, edge_weight.double()))
    with torch.inference_mode():
        weight = torch.rand(batch.num_edges)
        edge_index = batch.edge_index.clone()
        look_up(memo, edge_index, weight, batch.num_nodes, batch.batch, batch.num_graphs)
        # writes to such tensors are not counted, so they are looked at again
        edge_index[0, 0] += 1
        pairs, _ = look_up(memo, edge_index, weight, batch.num_nodes, batch.batch, batch.num_graphs)
        assert as_set(pairs, torch.zeros(pairs.size(1))) == as_set(
            edge_index, torch.zeros(pairs.size(1))
        )
    pairs, values = find(memo, batch, weight.clone())
    x = torch.ones(batch.num_nodes, dtype=torch.float64, requires_grad=True)
    (x[pairs[0]] * values).square().sum().backward()
    assert x.grad.abs().sum() > 0
