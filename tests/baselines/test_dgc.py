import pytest
import torch
from baseline_checks import CHANNELS, draw_graph, randomize
from dense_graphs import adjacency, affine, draw_weighted_graph, gcn_matrix
from torch_geometric.nn import SGConv

from torch_grama.baselines import DGC


@pytest.mark.parametrize("weighted", [False, True])
def test_model_equals_its_dense_formula(weighted):
    model = randomize(DGC(CHANNELS, 8, 3, 4, step_size=0.3).double())
    data = draw_weighted_graph()
    weight = data.edge_weight if weighted else None
    x = affine(model.encoder.node_lin, data.x)
    laplacian = torch.eye(7, dtype=torch.float64) - gcn_matrix(adjacency(data, weight))
    for _ in range(4):
        x = x - 0.3 * laplacian @ x
    torch.testing.assert_close(model(data.x, data.edge_index, weight), model.head(x))


def test_paper_form_with_unit_steps_is_the_simplified_graph_convolution():
    data = draw_graph(9, 3)
    model = DGC(CHANNELS, CHANNELS, 3, 4, step_size=1.0, pre_linear=False, readout_layers=1)
    simplified = SGConv(CHANNELS, 3, K=4).double()
    simplified.lin = model.double().head.mlp.layers[0]
    torch.testing.assert_close(model(data.x, data.edge_index), simplified(data.x, data.edge_index))
    # the paper's model is a logistic regression on diffused features
    assert sum(value.numel() for value in model.parameters()) == CHANNELS * 3 + 3


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


def test_unknown_method_lists_the_known_ones():
    with pytest.raises(ValueError, match="'method' to be one of 'rk4', 'euler'"):
        DGC(5, 8, 3, 2, method="rk")
