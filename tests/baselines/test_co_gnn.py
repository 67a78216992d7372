import pytest
import torch
from baseline_checks import CHANNELS, draw_graph, randomize
from dense_graphs import adjacency, affine, draw_symmetric_graph, mean_matrix

from torch_grama.baselines import CoGNN
from torch_grama.nn.graph_input import read_graph_input


def combine(aggregation, matrix):
    return mean_matrix(matrix) if aggregation == "mean" else matrix


def dense_logits(network, x, matrix, act):
    for number, conv in enumerate(network.convs):
        x = affine(conv.lin_rel, matrix @ x) + affine(conv.lin_root, x)
        x = act(x) if number + 1 < len(network.convs) else x
    return x


def layer_norm(norm, x):
    centred = x - x.mean(1, keepdim=True)
    scaled = centred / (centred.square().mean(1, keepdim=True) + norm.eps).sqrt()
    return scaled * norm.weight + norm.bias


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("action_layers", [1, 2])
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_model_equals_its_dense_formula(aggregation, action_layers, weighted):
    data = draw_symmetric_graph(9)
    weight = data.edge_weight if weighted else None
    full = adjacency(data, weight)
    kept = []
    for seed in range(6):
        torch.manual_seed(seed)
        model = CoGNN(CHANNELS, 8, 3, 3, aggregation=aggregation, action_layers=action_layers)
        model = randomize(model.double(), seed).eval()
        x = torch.relu(affine(model.encoder.node_lin, data.x))
        for conv in model.convs:
            x = layer_norm(model.norm, x)
            matrix = combine(aggregation, full)
            listen = dense_logits(model.listen, x, matrix, torch.relu)
            broadcast = dense_logits(model.broadcast, x, matrix, torch.relu)
            listens = (listen[:, 0] >= listen[:, 1]).double()
            broadcasts = (broadcast[:, 0] >= broadcast[:, 1]).double()
            open_edges = listens[:, None] * broadcasts[None, :]
            kept.append(float((open_edges * (full != 0)).sum() / (full != 0).sum()))
            # the mean is over all neighbours, heard or not
            message = open_edges * matrix @ x
            x = x + torch.relu(affine(conv.lin_rel, message) + affine(conv.lin_root, x))
        expected = model.head(layer_norm(model.norm, x))
        torch.testing.assert_close(model(data.x, data.edge_index, weight), expected)
    # some layers close some edges and keep others
    assert any(0 < share < 1 for share in kept)


def test_training_samples_and_evaluation_does_not():
    torch.manual_seed(0)
    model = CoGNN(CHANNELS, 8, 3, 3).double()
    data = draw_graph(12, 0)
    assert not torch.equal(model(data.x, data.edge_index), model(data.x, data.edge_index))
    model.eval()
    assert torch.equal(model(data.x, data.edge_index), model(data.x, data.edge_index))


def test_sampled_actions_are_hard_and_follow_the_probabilities():
    torch.manual_seed(0)
    model = CoGNN(CHANNELS, 8, 3, 1).double()
    data = draw_graph(4, 0)
    x = model.encoder.node_lin(data.x).detach()
    graph = read_graph_input(4, data.edge_index)
    draws = torch.stack([model._choose(x, graph)[0].detach() for _ in range(600)])
    assert set(draws.round(decimals=9).unique().tolist()) == {0.0, 1.0}
    wanted = model.listen(x, graph).softmax(dim=1)[:, 0].detach()
    # the temperature moves the gradient, not the probability: three standard errors
    torch.testing.assert_close(draws.mean(0), wanted, rtol=0, atol=3 * 0.5 / 600**0.5)


def test_gradients_reach_actions_and_temperature():
    torch.manual_seed(0)
    model = CoGNN(CHANNELS, 8, 3, 3, action_layers=2).double()
    data = draw_graph(12, 0)
    model(data.x, data.edge_index).square().sum().backward()
    for part in (model.listen, model.broadcast, model.sharpness):
        assert all(float(value.grad.abs().sum()) > 0 for value in part.parameters())
