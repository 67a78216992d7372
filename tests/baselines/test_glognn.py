import pytest
import torch
from baseline_checks import randomize
from dense_graphs import dense, draw_weighted_graph, fill_loops, symmetric

from torch_grama.baselines import GloGNN


def first_state(model, x, matrix):
    h = x @ model.lin.weight.t() + model.lin.bias
    if model.node_weight is not None:
        h = model.delta * h + (1 - model.delta) * matrix @ model.node_weight
    return h.clamp(min=0) @ model.out_lin.weight.t() + model.out_lin.bias


def objective(z, h, first, near, model):
    fit = h - (1 - model.gamma) * z @ h - model.gamma * first
    size, distance = z.square().sum(), (z - near).square().sum()
    return fit.square().sum() + model.alpha * size + model.beta * distance


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("num_nodes", [None, 9])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_minimiser_written_out(gamma, num_nodes, weighted):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = GloGNN(5, 4, 3, 2, alpha=0.7, beta=1.3, gamma=gamma, delta=0.6, num_nodes=num_nodes)
    model = randomize(model.double())
    plain = dense(edge_index, weight, 9)
    matrix = symmetric(fill_loops(plain))
    near = model.hop_weight[0] * matrix + model.hop_weight[1] * matrix @ matrix

    first = first_state(model, x, plain)
    h = first
    for _ in range(2):
        # the derivative of the objective is z @ left - right
        left = (1 - gamma) ** 2 * h @ h.t() + 2.0 * torch.eye(9, dtype=torch.float64)
        right = (1 - gamma) * (h - gamma * first) @ h.t() + 1.3 * near
        z = torch.linalg.solve(left, right, left=False)
        slope = torch.func.grad(objective)(z, h, first, near, model)
        torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-10, rtol=0)
        h = (1 - gamma) * z @ h + gamma * first

    torch.testing.assert_close(model(x, edge_index, weight), h)


def test_the_adjacency_branch_depends_on_the_numbering():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(GloGNN(5, 4, 3, 2, num_nodes=9).double())
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    moved = model(x[order], place[edge_index])
    assert (moved - model(x, edge_index)[order]).abs().max() > 1e-3
