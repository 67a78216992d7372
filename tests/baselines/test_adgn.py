import pytest
import torch
from baseline_checks import CHANNELS, randomize
from dense_graphs import adjacency, affine, draw_weighted_graph, gcn_matrix

from torch_grama.baselines import ADGN


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("aggregation", ["sum", "gcn"])
def test_model_equals_its_dense_formula(aggregation, sharing, weighted):
    model = ADGN(
        CHANNELS,
        8,
        3,
        4,
        aggregation=aggregation,
        weight_sharing=sharing,
        epsilon=0.3,
        gamma=0.2,
    )
    model = randomize(model.double())
    assert len(model.convs) == (1 if sharing else 4)
    data = draw_weighted_graph()
    weight = data.edge_weight if weighted else None
    matrix = adjacency(data, weight)
    matrix = gcn_matrix(matrix) if aggregation == "gcn" else matrix
    x = affine(model.encoder.node_lin, data.x)
    for number in range(4):
        conv = model.convs[0 if sharing else number]
        own = conv.W - conv.W.t() - 0.2 * torch.eye(8, dtype=torch.float64)
        field = x @ own.t() + matrix @ x @ conv.phi.lin.weight.t() + conv.bias
        x = x + 0.3 * torch.tanh(field)
    torch.testing.assert_close(model(data.x, data.edge_index, weight), model.head(x))


def test_own_term_has_no_growing_and_no_decaying_direction():
    conv = randomize(ADGN(CHANNELS, 8, 3, 4, gamma=0.0).double()).convs[0]
    eigenvalues = torch.linalg.eigvals((conv.W - conv.W.t()).detach())
    assert eigenvalues.real.abs().max() < 1e-12
    assert eigenvalues.imag.abs().max() > 1e-2


def test_deep_model_keeps_its_gradient():
    # 100 steps of which each turns the states, where a plain stack would lose the first
    torch.manual_seed(0)
    model = ADGN(CHANNELS, 8, 3, 100, epsilon=0.05, gamma=0.0).double()
    data = draw_weighted_graph()
    x = data.x.clone().requires_grad_()
    model(x, data.edge_index).square().sum().backward()
    assert x.grad.norm() > 1e-3


def test_unknown_aggregation_lists_the_known_ones():
    with pytest.raises(ValueError, match="'aggregation' to be one of 'sum', 'gcn'"):
        ADGN(5, 8, 3, 2, aggregation="summ")
