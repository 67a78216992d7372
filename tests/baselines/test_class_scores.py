import pytest
import torch
import torch.nn.functional as F
from baseline_checks import randomize
from dense_formulas import affine, mlp, softmax_rows
from dense_graphs import dense, draw_weighted_graph, drop_loops, fill_loops, symmetric

from torch_grama.baselines import CPGNN, GloGNN
from torch_grama.baselines.class_scores import balance


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula(normalize, weighted):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
    model = randomize(CPGNN(5, 4, 3, 2, normalize=normalize).double())
    matrix = drop_loops(dense(edge_index, weight, 9))
    matrix = symmetric(matrix) if normalize else matrix

    belief = first = softmax_rows(mlp(model.prior, x)) - 1 / 3
    for _ in range(2):
        belief = first + matrix @ belief @ model.compatibility

    torch.testing.assert_close(model(x, edge_index, weight), belief)


def test_fit_estimates_the_compatibility_from_labels_and_beliefs():
    x, edge_index, weight = draw_weighted_graph()
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])
    mask = torch.tensor([True] * 6 + [False] * 3)
    model = randomize(CPGNN(5, 4, 3, 2, dropout=0.5, pretrain_steps=0).double())
    labels = torch.eye(3, dtype=torch.float64)[y]
    belief = torch.where(mask[:, None], labels, mlp(model.prior, x).softmax(dim=1))
    counts = (labels * mask[:, None]).t() @ drop_loops(dense(edge_index, weight, 9)) @ belief

    model.fit_labels(y, mask, x, edge_index, weight)

    assert model.training
    got = model.compatibility.detach() + 1 / 3
    assert torch.equal(got, got.t())
    torch.testing.assert_close(got.sum(dim=0), torch.ones(3, dtype=torch.float64))
    expected = balance(counts)
    torch.testing.assert_close(got, (expected + expected.t()) / 2)


def test_fit_does_not_read_labels_outside_the_mask():
    x, edge_index, _ = draw_weighted_graph()
    mask = torch.tensor([True] * 6 + [False] * 3)
    fitted = []
    for hidden_label in (0, 2, -1):
        torch.manual_seed(0)
        model = CPGNN(5, 4, 3, 2, pretrain_steps=3).double()
        y = torch.tensor([0, 1, 2, 0, 1, 2] + [hidden_label] * 3)
        model.fit_labels(y, mask, x, edge_index)
        fitted.append(torch.cat([model.compatibility.flatten(), model.prior.lins[0].bias]))
    assert torch.equal(fitted[0], fitted[1])
    assert torch.equal(fitted[0], fitted[2])


def test_fit_trains_the_prior_and_leaves_no_gradients():
    x, edge_index, _ = draw_weighted_graph()
    y, mask = torch.arange(9) % 3, torch.ones(9, dtype=torch.bool)
    model = CPGNN(5, 16, 3, 2, pretrain_steps=100).double()
    with torch.no_grad():
        before = F.cross_entropy(mlp(model.prior, x), y)
        model.fit_labels(y, mask, x, edge_index)
        after = F.cross_entropy(mlp(model.prior, x), y)
    assert after < 0.5 * before
    assert all(parameter.grad is None for parameter in model.parameters())


def test_auxiliary_loss_is_the_prior_loss_and_the_row_sums():
    x, edge_index, _ = draw_weighted_graph()
    y, mask = torch.arange(9) % 3, torch.arange(9) < 5
    model = randomize(CPGNN(5, 4, 3, 2, prior_loss_weight=0.5).double())
    chances = mlp(model.prior, x).softmax(dim=1)
    prior = -sum(chances[i, y[i]].log() for i in range(5)) / 5
    rows = sum(abs(sum(row)) for row in model.compatibility.tolist())
    got = model.auxiliary_loss(y, mask, x, edge_index)
    torch.testing.assert_close(got, 0.5 * prior + rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("zeros", ["none", "a row", "all"])
def test_balanced_matrices_are_doubly_stochastic(dtype, zeros):
    matrix = torch.rand(4, 4, dtype=dtype) + 0.01
    if zeros != "none":
        matrix[slice(1) if zeros == "a row" else slice(None)] = 0
    balanced = balance(matrix)
    ones = torch.ones(4, dtype=dtype)
    torch.testing.assert_close(balanced.sum(dim=0), ones)
    torch.testing.assert_close(balanced.sum(dim=1), ones)
    if zeros == "all":
        torch.testing.assert_close(balanced, torch.full((4, 4), 0.25, dtype=dtype))


def first_state(model, x, matrix):
    h = affine(model.lin, x)
    if model.node_weight is not None:
        h = model.delta * h + (1 - model.delta) * matrix @ model.node_weight
    return affine(model.out_lin, h.clamp(min=0))


def objective(z, h, first, near, model):
    fit = h - (1 - model.gamma) * z @ h - model.gamma * first
    size, distance = z.square().sum(), (z - near).square().sum()
    return fit.square().sum() + model.alpha * size + model.beta * distance


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("num_nodes", [None, 9])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_minimiser_written_out(gamma, num_nodes, weighted):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
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
