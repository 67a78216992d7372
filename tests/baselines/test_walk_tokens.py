import pytest
import torch
from baseline_checks import draw_graph, read_batch
from torch_geometric.data import Batch
from torch_geometric.utils import subgraph

from torch_grama.baselines.gmn import sample_walk_tokens


def sample(graph, max_length=3, num_samples=2, num_walks=2, training=False):
    view = read_batch(graph.x, graph.edge_index, batch=getattr(graph, "batch", None))
    return sample_walk_tokens(view, max_length, num_samples, num_walks, training)


def members(tokens, node, place):
    return tokens.node[tokens.token == node * tokens.num_tokens + place].tolist()


@pytest.mark.parametrize("training", [False, True])
def test_tokens_are_connected_balls_that_narrow_to_the_node(training):
    graph = draw_graph(12, 0)
    tokens = sample(graph, 4, 2, 3, training)
    assert tokens.num_tokens == 9
    neighbours = {i: set() for i in range(12)}
    for j, i in graph.edge_index.t().tolist():
        neighbours[j].add(i)
    for node in range(12):
        assert members(tokens, node, 8) == [node]
        for place in range(8):
            length = 4 - place // 2
            reached, ball = {node}, {node}
            own = set(members(tokens, node, place))
            for _ in range(length):
                reached = set().union(*(neighbours[i] for i in reached)) & own
                ball |= reached
            # all members are reached within so many steps without leaving the token
            assert own == ball
            assert 2 <= len(own) <= 1 + 3 * length


def test_edges_are_those_of_the_induced_subgraphs():
    graph = draw_graph(10, 1)
    tokens = sample(graph, 3, 2, 4)
    for token in range(10 * tokens.num_tokens):
        inside = tokens.token[tokens.source] == token
        assert (tokens.token[tokens.target[inside]] == token).all()
        found = torch.stack(
            [tokens.node[tokens.source[inside]], tokens.node[tokens.target[inside]]]
        )
        expected, _ = subgraph(tokens.node[tokens.token == token], graph.edge_index, num_nodes=10)
        assert sorted(found.t().tolist()) == sorted(expected.t().tolist())
        assert torch.equal(graph.edge_index[:, tokens.edge[inside]], found)


def test_steps_go_to_every_neighbour_alike():
    graph = draw_graph(6, 2)
    torch.manual_seed(0)
    seen = torch.zeros(6, 6)
    for _ in range(400):
        tokens = sample(graph, 1, 1, 1, training=True)
        for node in range(6):
            (other,) = set(members(tokens, node, 0)) - {node}
            seen[node, other] += 1 / 400
    adjacency = torch.zeros(6, 6)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1
    assert torch.allclose(seen, adjacency / adjacency.sum(1, keepdim=True), atol=0.12)


def test_a_graph_in_a_batch_has_the_tokens_it_has_alone():
    graphs = [draw_graph(5, 0), draw_graph(9, 1)]
    together, alone = sample(Batch.from_data_list(graphs)), sample(graphs[1])
    first = together.token >= 5 * together.num_tokens
    assert torch.equal(together.node[first] - 5, alone.node)


def test_walks_that_can_go_nowhere_stay():
    graph = draw_graph(3, 0)
    graph.edge_index = torch.tensor([[0], [1]])
    tokens = sample(graph)
    assert members(tokens, 2, 0) == [2]
    assert members(tokens, 0, 0) == [0, 1]
    graph.edge_index = graph.edge_index[:, :0]
    tokens = sample(graph)
    assert tokens.source.numel() == 0
    assert members(tokens, 0, 0) == [0]
