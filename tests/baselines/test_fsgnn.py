import pytest
import torch
from baseline_checks import randomize
from het_cases import dense, draw_weighted_graph, drop_loops, fill_loops, symmetric

from torch_grama.baselines import FSGNN


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula(normalize, weighted):
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


def test_parameters_of_the_published_setting():
    """Three hops, both kinds of matrices and width 64 on roman-empire."""
    model = FSGNN(300, 64, 18, 3)
    expected = 7 * 301 * 64 + 7 + (7 * 64 + 1) * 18
    assert sum(p.numel() for p in model.parameters()) == expected
