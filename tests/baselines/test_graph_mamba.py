import pytest
import torch
from baseline_checks import call, draw_graph, read_batch
from dense_formulas import (
    affine,
    branches,
    encode,
    frame,
    gated_gcn,
    head,
    layer_norm,
    mamba,
    prepare,
)
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from torch_grama.baselines import GMN, GPSMamba, GraphMamba
from torch_grama.baselines.branch_stack import node_noise
from torch_grama.baselines.graph_mamba import ORDERS, sample_walk_tokens


@pytest.mark.parametrize("order", ["degree", "random"])
def test_graph_mamba_is_the_mean_over_noisy_orders(order):
    graph = draw_graph(8, 0, edge_dim=3)
    model = prepare(GraphMamba(5, 6, 3, 2, order=order, edge_dim=3, state_channels=4))
    degree = torch.bincount(graph.edge_index[0], minlength=8)
    noise = node_noise(torch.arange(8), 5, False, torch.float64)

    def scan(mixer, x):
        total = torch.zeros_like(x)
        for column in noise.t():
            nodes = (degree + column if order == "degree" else column).argsort()
            total[nodes] += mamba(mixer.block, x[nodes])
        return total / 5

    torch.testing.assert_close(call(model, graph), branches(model, graph, scan))


def test_gps_mamba_scans_the_nodes_as_they_are_stored():
    graph = draw_graph(8, 0)
    model = prepare(GPSMamba(5, 6, 3, 2, state_channels=4))
    expected = branches(model, graph, lambda mixer, x: mamba(mixer.block, x))
    torch.testing.assert_close(call(model, graph), expected)


def test_in_training_nodes_of_higher_degree_always_come_later():
    hub = Data(
        x=torch.ones(5, 1),
        edge_index=torch.tensor([[2, 2, 2, 2, 0, 1, 3, 4], [0, 1, 3, 4] + [2] * 4]),
    )
    batch = Batch.from_data_list([hub, hub])
    view = read_batch(batch.x, batch.edge_index, batch=batch.batch)
    orders = set()
    torch.manual_seed(0)
    for _ in range(20):
        noise = node_noise(view.place, 1, True, torch.float64)[:, 0]
        order = view.sort_nodes(ORDERS["degree"](view, noise)).tolist()
        assert order[4] == 2
        assert order[9] == 7
        orders.add(tuple(order))
    assert len(orders) > 10


def both_ways(scan, sequence):
    return mamba(scan.forwards, sequence) + mamba(scan.backwards, sequence.flip(0)).flip(0)


def encode_token(scan, x, edge, graph, nodes):
    """One subgraph, given by its nodes."""
    states = []
    for i in nodes:
        messages = [
            (affine(scan.neighbor_lin, x[j]) + shift).clamp(min=0)
            for (j, target), shift in zip(graph.edge_index.t().tolist(), edge, strict=True)
            if target == i and j in nodes
        ]
        received = torch.stack(messages).mean(0) if messages else 0
        states.append((affine(scan.own_lin, x[i]) + received).clamp(min=0))
    return torch.stack(states).mean(0)


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_gmn_is_its_formula(edge_dim):
    size = 7
    graph = draw_graph(size, 0, edge_dim)
    model = prepare(GMN(5, 6, 3, 2, edge_dim=edge_dim, walk_length=2, state_channels=3))
    view = read_batch(graph.x, graph.edge_index)
    tokens = sample_walk_tokens(view, 2, 2, 2, False)
    x, edge = encode(model, graph)
    start = edge
    degree = torch.bincount(graph.edge_index[0], minlength=size)
    order = sorted(range(size), key=lambda i: (int(degree[i]), i))
    for local, scan, sums in zip(model.locals, model.scans, model.frames, strict=True):
        shift = [0] * graph.edge_index.size(1)
        if start is not None:
            shift = affine(scan.edge_lin, start)
        read = torch.zeros_like(x)
        for i in range(size):
            own = [members(tokens, i, place) for place in range(5)]
            sequence = torch.stack([encode_token(scan, x, shift, graph, token) for token in own])
            normed = layer_norm(scan.norm, sequence)
            read[i] = sequence[-1] + mamba(scan.token_scan.forwards, normed)[-1]
            read[i] += mamba(scan.token_scan.backwards, normed.flip(0))[-1]
        scanned = torch.zeros_like(x)
        scanned[order] = both_ways(scan.node_scan, read[order])
        update, edge = gated_gcn(local.conv, x, graph.edge_index, edge)
        x = frame(sums, x, [scanned, update])
    torch.testing.assert_close(call(model, graph), head(model, x))


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
    tokens = sample(graph, 1, 400, 1, training=True)
    owner = tokens.token // tokens.num_tokens
    walked = owner != tokens.node
    seen.index_put_((owner[walked], tokens.node[walked]), torch.tensor(1 / 400), accumulate=True)
    adjacency = torch.zeros(6, 6)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1
    assert torch.allclose(seen, adjacency / adjacency.sum(1, keepdim=True), atol=0.12)


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
