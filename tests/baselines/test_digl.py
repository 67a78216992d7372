import pytest
import torch
from baseline_checks import call, draw_graph, randomize
from het_cases import dense, draw_weighted_graph
from torch_geometric.data import Batch

from torch_grama.baselines import DIGL, GraphDiffusion


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_equals_the_dense_formula_on_the_diffused_graph(residual, cached):
    x, edge_index, weight = draw_weighted_graph()
    diffusion = GraphDiffusion("heat", t=2.0, avg_degree=4)
    model = DIGL(
        5, 4, 3, 2, diffusion=diffusion, residual=residual, batch_norm=False, cached=cached
    )
    model = randomize(model.double())
    matrix = dense(*diffusion(edge_index, weight, 9), 9)
    h = x @ model.lin.weight.t() + model.lin.bias
    for conv in model.convs:
        update = (matrix @ h @ conv.lin.weight.t() + conv.bias).clamp(min=0)
        h = h + update if residual else update
    torch.testing.assert_close(model(x, edge_index, weight), model.head(h))


def test_batch_norm_comes_before_the_activation():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(DIGL(5, 4, 3, 1).double())
    matrix = dense(*GraphDiffusion()(edge_index, None, 9), 9)
    h = x @ model.lin.weight.t() + model.lin.bias
    z = matrix @ h @ model.convs[0].lin.weight.t() + model.convs[0].bias
    z = (z - z.mean(dim=0)) / (z.var(dim=0, unbiased=False) + 1e-5).sqrt()
    h = h + (z * model.norms[0].weight + model.norms[0].bias).clamp(min=0)
    torch.testing.assert_close(model(x, edge_index), model.head(h))


def test_a_word_stands_for_a_diffusion_with_default_settings():
    assert DIGL(5, 4, 3, 2).memo.compute == GraphDiffusion("ppr")
    assert DIGL(5, 4, 3, 2, diffusion="heat").memo.compute == GraphDiffusion("heat")
    with pytest.raises(ValueError, match="'diffusion'"):
        DIGL(5, 4, 3, 2, diffusion="hat")


def test_a_graph_is_diffused_once_whatever_batch_it_comes_in():
    graphs = [draw_graph(size, seed) for seed, size in enumerate((5, 7, 4))]
    model = DIGL(5, 4, 3, 2).double().eval()
    call(model, Batch.from_data_list(graphs))
    assert str(model.memo).startswith("GraphMemo(graphs=3,")
    call(model, Batch.from_data_list(graphs[::-1]))
    assert str(model.memo).startswith("GraphMemo(graphs=3,")
