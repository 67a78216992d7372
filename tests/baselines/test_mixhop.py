import pytest
import torch
from baseline_checks import randomize
from het_cases import dense, draw_weighted_graph, fill_loops, symmetric

from torch_grama.baselines import MixHop


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("powers", [(0, 1, 2), (1, 3)])
def test_equals_the_dense_formula(powers, weighted):
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


@pytest.mark.parametrize("powers", [(), (-1, 0)])
def test_impossible_powers(powers):
    with pytest.raises(ValueError, match="'powers'"):
        MixHop(5, 4, 3, 2, powers=powers)
