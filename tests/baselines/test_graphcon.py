import pytest
import torch
from baseline_checks import CHANNELS, draw_graph, randomize
from dense_graphs import adjacency, affine, attention, draw_weighted_graph, gcn_matrix

from torch_grama.baselines import GCN, GraphCON


def dense_drive(model, x, matrix):
    if model.coupling == "gcn":
        drive = gcn_matrix(matrix) @ x @ model.conv.lin.weight.t() + model.conv.bias
        drive = drive if model.skip_lin is None else drive + affine(model.skip_lin, x)
        return torch.relu(drive)
    conv, width = model.conv, x.size(1)
    values = (x @ conv.lin.weight.t()).split(width, dim=1)
    skips = affine(model.skip_lin, x).split(width, dim=1)
    biases = conv.bias.split(width)
    total = torch.zeros_like(x)
    for head, value in enumerate(values):
        to_target, from_source = value @ conv.att_dst[0, head], value @ conv.att_src[0, head]
        score = to_target[:, None] + from_source[None, :]
        score = torch.where(score > 0, score, 0.2 * score)
        weight = attention(score, matrix + torch.eye(len(x), dtype=x.dtype))
        total = total + torch.relu(weight @ value + biases[head] + skips[head])
    return total / len(values)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"residual": False},
        {"step_size": 1.0, "alpha": 0.3, "gamma": 2.0},
        {"coupling": "gat"},
        {"coupling": "gat", "heads": 4},
    ],
)
def test_model_equals_its_dense_formula(options):
    model = randomize(GraphCON(CHANNELS, 8, 3, 4, **options).double())
    data = draw_weighted_graph()
    weight = None if "coupling" in options else data.edge_weight
    matrix = adjacency(data, weight)
    step, alpha, gamma = (
        options.get(name, default)
        for name, default in [("step_size", 0.5), ("alpha", 1.0), ("gamma", 1.0)]
    )
    x = y = affine(model.encoder.node_lin, data.x)
    for _ in range(4):
        y = y + step * (dense_drive(model, x, matrix) - gamma * x - alpha * y)
        x = x + step * y
    torch.testing.assert_close(model(data.x, data.edge_index, weight), model.head(x))


def test_unit_constants_lose_the_oscillator():
    # X <- act(GCN(X)): a graph convolutional network whose layers share their weights
    model = GraphCON(CHANNELS, 8, 3, 3, step_size=1.0, residual=False).double()
    plain = GCN(CHANNELS, 8, 3, 3).double()
    plain.encoder, plain.head = model.encoder, model.head
    for layer in plain.layers:
        layer.conv = model.conv
    data = draw_graph(9, 0)
    torch.testing.assert_close(model(data.x, data.edge_index), plain(data.x, data.edge_index))


def test_without_drive_and_damping_the_energy_stays_bounded():
    # gamma x^2 + y^2 of a symplectic Euler step drifts by no more than its step size
    data = draw_graph(6, 0)
    model = GraphCON(
        CHANNELS, CHANNELS, 3, 500, step_size=0.1, alpha=0.0, residual=False, pre_linear=False
    ).double()
    with torch.no_grad():
        model.conv.lin.weight.zero_()
        model.conv.bias.zero_()
    seen = []
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model(data.x, data.edge_index)
    start = data.x.square().sum() * 2
    assert 1e-3 * start < seen[0].square().sum() < 1.1 * start


def test_wrong_arguments_say_what_is_expected():
    with pytest.raises(ValueError, match="'coupling' to be one of"):
        GraphCON(5, 8, 3, 2, coupling="sage")
    with pytest.raises(ValueError, match="heads=1 for coupling='gcn'"):
        GraphCON(5, 8, 3, 2, heads=2)
