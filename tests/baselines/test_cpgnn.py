import pytest
import torch
from baseline_checks import randomize
from dense_graphs import dense, draw_weighted_graph, drop_loops, symmetric

from torch_grama.baselines import CPGNN
from torch_grama.baselines.class_scores import balance


def prior_logits(model, x):
    first, second = model.prior.lins
    hidden = (x @ first.weight.t() + first.bias).clamp(min=0)
    return hidden @ second.weight.t() + second.bias


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula(normalize, weighted):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = randomize(CPGNN(5, 4, 3, 2, normalize=normalize).double())
    matrix = drop_loops(dense(edge_index, weight, 9))
    matrix = symmetric(matrix) if normalize else matrix

    exponentials = prior_logits(model, x).exp()
    first = exponentials / exponentials.sum(dim=1, keepdim=True) - 1 / 3
    belief = first
    for _ in range(2):
        belief = first + matrix @ belief @ model.compatibility

    torch.testing.assert_close(model(x, edge_index, weight), belief)


def test_fit_estimates_the_compatibility_from_labels_and_beliefs():
    x, edge_index, weight = draw_weighted_graph()
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])
    mask = torch.tensor([True] * 6 + [False] * 3)
    model = randomize(CPGNN(5, 4, 3, 2, dropout=0.5, pretrain_steps=0).double())
    labels = torch.eye(3, dtype=torch.float64)[y]
    belief = torch.where(mask[:, None], labels, prior_logits(model, x).softmax(dim=1))
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
        before = torch.nn.functional.cross_entropy(prior_logits(model, x), y)
        model.fit_labels(y, mask, x, edge_index)
        after = torch.nn.functional.cross_entropy(prior_logits(model, x), y)
    assert after < 0.5 * before
    assert all(parameter.grad is None for parameter in model.parameters())


def test_heterophilous_labels_give_a_heterophilous_matrix():
    """On a bipartite graph, each class meets the other alone."""
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 3], [1, 0, 3, 2, 3, 0]])
    y, mask = torch.tensor([0, 1, 0, 1]), torch.ones(4, dtype=torch.bool)
    model = CPGNN(2, 4, 2, 2, pretrain_steps=0)
    model.fit_labels(y, mask, torch.randn(4, 2), edge_index)
    centred = torch.tensor([[-0.5, 0.5], [0.5, -0.5]])
    torch.testing.assert_close(model.compatibility.detach(), centred, atol=1e-3, rtol=0)


def test_auxiliary_loss_is_the_prior_loss_and_the_row_sums():
    x, edge_index, _ = draw_weighted_graph()
    y, mask = torch.arange(9) % 3, torch.arange(9) < 5
    model = randomize(CPGNN(5, 4, 3, 2, prior_loss_weight=0.5).double())
    chances = prior_logits(model, x).softmax(dim=1)
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
