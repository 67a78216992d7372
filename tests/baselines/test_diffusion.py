import math

import pytest
import torch
from baseline_checks import CHANNELS, draw_graph, randomize
from dense_graphs import adjacency, affine, attention, draw_symmetric_graph, gcn_matrix

from torch_grama.baselines import DGC, GRAND, GraphCON
from torch_grama.baselines.diffusion import METHODS


@pytest.mark.parametrize("weighted", [False, True])
def test_model_equals_its_dense_formula(weighted):
    model = randomize(DGC(CHANNELS, 8, 3, 4, step_size=0.3).double())
    data = draw_symmetric_graph()
    weight = data.edge_weight if weighted else None
    x = affine(model.encoder.node_lin, data.x)
    laplacian = torch.eye(7, dtype=torch.float64) - gcn_matrix(adjacency(data, weight))
    for _ in range(4):
        x = x - 0.3 * laplacian @ x
    torch.testing.assert_close(model(data.x, data.edge_index, weight), model.head(x))


@pytest.mark.parametrize(("method", "tolerance"), [("euler", 1e-1), ("rk4", 1e-5)])
def test_steps_follow_the_heat_equation(method, tolerance):
    data = draw_graph(9, 3)
    model = DGC(
        CHANNELS, CHANNELS, 3, 20, step_size=0.1, method=method, pre_linear=False, readout_layers=1
    ).double()
    laplacian = torch.eye(9, dtype=torch.float64) - gcn_matrix(adjacency(data))
    exact = affine(model.head.mlp.layers[0], torch.linalg.matrix_exp(-2.0 * laplacian) @ data.x)
    error = (model(data.x, data.edge_index) - exact).abs().max()
    assert error < tolerance
    assert error > tolerance / 1e3


def dense_attention(module, x, matrix):
    """The mean over the heads of the softmax of keys of the target with queries of the source."""
    keys = affine(module.key_lin, x).chunk(module.heads, dim=1)
    queries = affine(module.query_lin, x).chunk(module.heads, dim=1)
    scores = [
        key @ query.t() / math.sqrt(key.size(1)) for key, query in zip(keys, queries, strict=True)
    ]
    return sum(attention(score, matrix) for score in scores) / module.heads


@pytest.mark.parametrize("method", ["euler", "rk4"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("source", [False, True])
def test_model_equals_its_dense_formula_of_grand(linear, heads, method, source):
    model = GRAND(
        CHANNELS, 8, 3, 3, linear=linear, heads=heads, method=method, source=source, step_size=0.7
    )
    model = randomize(model.double())
    data = draw_graph(7, 0)
    matrix = adjacency(data) + torch.eye(7, dtype=torch.float64)
    x = first = affine(model.encoder.node_lin, data.x)
    constant = dense_attention(model.attention, x, matrix)
    rate = 1 / (1 + torch.exp(-model.alpha))

    def flow(state):
        weight = constant if linear else dense_attention(model.attention, state, matrix)
        change = rate * (weight @ state - state)
        return change + model.beta * first if source else change

    for _ in range(3):
        if method == "euler":
            x = x + 0.7 * flow(x)
            continue
        k1 = flow(x)
        k2 = flow(x + 0.35 * k1)
        k3 = flow(x + 0.35 * k2)
        k4 = flow(x + 0.7 * k3)
        x = x + 0.7 * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    torch.testing.assert_close(model(data.x, data.edge_index), model.head(x))


@pytest.mark.parametrize("linear", [True, False])
def test_diffusion_stays_between_the_extremes_of_the_start(linear):
    data = draw_graph(9, 1)
    model = GRAND(
        CHANNELS, CHANNELS, 3, 20, linear=linear, method="euler", step_size=0.5, pre_linear=False
    )
    model = randomize(model.double())
    seen = []
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model(data.x, data.edge_index)
    assert (seen[0] <= data.x.amax(0) + 1e-12).all()
    assert (seen[0] >= data.x.amin(0) - 1e-12).all()
    assert (seen[0].std(0) < data.x.std(0)).all()


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk4", 4)])
def test_error_falls_with_the_order_of_the_method(method, order):
    # x' = -x^2 from 1 is 1 / (1 + t)
    def error(num_steps):
        x = torch.ones((), dtype=torch.float64)
        for _ in range(num_steps):
            x = METHODS[method](lambda state: -state * state, x, 1 / num_steps)
        return abs(float(x) - 0.5)

    assert math.log2(error(20) / error(40)) == pytest.approx(order, abs=0.15)


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
def test_graphcon_equals_its_dense_formula(options):
    model = randomize(GraphCON(CHANNELS, 8, 3, 4, **options).double())
    data = draw_symmetric_graph()
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


def test_without_drive_and_damping_the_energy_stays_bounded():
    # gamma x^2 + y^2 of a symplectic Euler step drifts by no more than its step size
    data = draw_graph(6, 0)
    model = GraphCON(
        CHANNELS, CHANNELS, 3, 200, step_size=0.1, alpha=0.0, residual=False, pre_linear=False
    ).double()
    with torch.no_grad():
        model.conv.lin.weight.zero_()
        model.conv.bias.zero_()
    seen = []
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model(data.x, data.edge_index)
    start = data.x.square().sum() * 2
    assert 1e-3 * start < seen[0].square().sum() < 1.1 * start
