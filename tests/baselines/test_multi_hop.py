import pytest
import torch
from baseline_checks import randomize
from dense_graphs import dense, distances, draw_weighted_graph, drop_loops, fill_loops, symmetric

from torch_grama.baselines import FSGNN, H2GCN, MixHop


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_equals_the_dense_formula(num_layers, cached):
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(H2GCN(5, 4, 3, num_layers, cached=cached).double())
    distance = distances(dense(edge_index, None, 9))
    rings = [symmetric((distance == hops).double()) for hops in (1, 2)]

    state = (x @ model.lin.weight.t()).clamp(min=0)
    states = [state]
    for _ in range(num_layers):
        state = torch.cat([ring @ state for ring in rings], dim=1)
        states.append(state)
    head = model.head.mlp.layers[0]
    expected = torch.cat(states, dim=1) @ head.weight.t() + head.bias

    torch.testing.assert_close(model(x, edge_index), expected)


def test_rings_are_found_once(monkeypatch):
    x, edge_index, _ = draw_weighted_graph()
    model = H2GCN(5, 4, 3, 2).double()
    expected = model(x, edge_index)
    monkeypatch.setattr("torch_grama.baselines.hop_pairs.hop_pairs", None)
    assert torch.equal(model(x, edge_index.clone()), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("powers", [(0, 1, 2), (1, 3)])
def test_equals_the_dense_formula_of_mixhop(powers, weighted):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = randomize(MixHop(5, 4, 3, 2, powers=powers, batch_norm=False).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    h = x
    for conv in model.convs:
        parts = [torch.linalg.matrix_power(matrix, p) @ h @ conv.lins[p].weight.t() for p in powers]
        h = (torch.cat(parts, dim=1) + conv.bias).clamp(min=0)
    head = model.head.mlp.layers[0]
    torch.testing.assert_close(model(x, edge_index, weight), h @ head.weight.t() + head.bias)


def test_batch_norm_comes_before_the_activation():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(MixHop(5, 4, 3, 1).double())
    conv, norm = model.convs[0], model.norms[0]
    z = conv(x, edge_index)
    z = (z - z.mean(dim=0)) / (z.var(dim=0, unbiased=False) + norm.eps).sqrt()
    h = (z * norm.weight + norm.bias).clamp(min=0)
    torch.testing.assert_close(model(x, edge_index), model.head(h))


def test_number_of_matrices():
    """P powers: P matrices in the first layer and P squared in each of the others."""
    powers, width, depth = 3, 16, 4
    model = MixHop(width, width, 10, depth, batch_norm=False)
    matrices = sum(p.numel() for p in model.convs.parameters() if p.dim() == 2)
    assert matrices == (powers + (depth - 1) * powers**2) * width**2


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula_of_fsgnn(normalize, weighted):
    x, edge_index, weight = draw_weighted_graph()
    if not normalize:  # a loop of its own weight is no loop of weight one
        kept = edge_index[0] != edge_index[1]
        edge_index, weight = edge_index[:, kept], weight[kept]
    weight = weight if weighted else None
    model = randomize(FSGNN(5, 4, 3, 2, normalize=normalize).double())
    matrix = dense(edge_index, weight, 9)
    plain, looped = drop_loops(matrix), fill_loops(matrix)
    if normalize:
        plain, looped = symmetric(plain), symmetric(looped)
    features = [x, plain @ x, plain @ plain @ x, looped @ x, looped @ looped @ x]

    share = model.attention.exp() / model.attention.exp().sum()
    parts = []
    for place, (lin, feature) in enumerate(zip(model.lins, features, strict=True)):
        z = feature @ lin.weight.t() + lin.bias
        parts.append(share[place] * z / z.square().sum(dim=1, keepdim=True).sqrt())
    head = model.head.mlp.layers[0]
    expected = torch.cat(parts, dim=1).clamp(min=0) @ head.weight.t() + head.bias

    torch.testing.assert_close(model(x, edge_index, weight), expected)
