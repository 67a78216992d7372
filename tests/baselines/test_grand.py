import math

import pytest
import torch
from baseline_checks import CHANNELS, draw_graph, randomize
from dense_graphs import adjacency, affine, attention

from torch_grama.baselines import GRAND


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
def test_model_equals_its_dense_formula(linear, heads, method, source):
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


def test_isolated_nodes_keep_their_state():
    model = GRAND(CHANNELS, CHANNELS, 3, 4, pre_linear=False).double()
    seen = []
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    x = torch.randn(3, CHANNELS, dtype=torch.float64)
    model(x, torch.tensor([[0, 1], [1, 0]]))
    torch.testing.assert_close(seen[0][2], x[2])
    assert not torch.allclose(seen[0][0], x[0])


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="'heads' to divide hidden_channels"):
        GRAND(5, 8, 3, 2, heads=3)
