import math

import pytest
import torch
from baseline_checks import CHANNELS, randomize
from dense_graphs import adjacency, affine, draw_symmetric_graph, gcn_matrix

from torch_grama.baselines import GCNII
from torch_grama.nn import AtomEncoder
from torch_grama.nn.graph_input import read_graph_input


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"theta": None, "alpha": 0.2, "residual": True}, {"act": "tanh"}]
)
def test_model_equals_its_dense_formula(options, weighted):
    model = randomize(GCNII(CHANNELS, 8, 3, 4, **options).double())
    data = draw_symmetric_graph()
    weight = data.edge_weight if weighted else None
    matrix = gcn_matrix(adjacency(data, weight))
    act = torch.tanh if options.get("act") == "tanh" else torch.relu
    alpha, theta = options.get("alpha", 0.1), options.get("theta", 0.5)
    x = first = act(affine(model.encoder.node_lin, data.x))
    for number, conv in enumerate(model.convs, start=1):
        beta = 1.0 if theta is None else math.log(theta / number + 1)
        mixed = (1 - alpha) * matrix @ x + alpha * first
        out = act((1 - beta) * mixed + beta * mixed @ conv.weight1)
        x = x + out if "residual" in options else out
    expected = model.head(x)
    torch.testing.assert_close(model(data.x, data.edge_index, weight), expected)


def test_parameter_count_of_the_long_range_benchmark():
    # 5 layers of width 300 and a linear readout, about 500,000 parameters on Peptides-func
    model = GCNII(300, 300, 10, 5, readout="graph", theta=None, pre_linear=False, readout_layers=1)
    total = sum(value.numel() for part in (model, AtomEncoder(300)) for value in part.parameters())
    assert total == pytest.approx(500_000, rel=0.02)


def test_first_state_stays_in_a_deep_model():
    # a plain graph convolution of this depth makes all nodes of a graph alike
    torch.manual_seed(0)
    data = draw_symmetric_graph(9)
    model = GCNII(CHANNELS, 8, 3, 64).double()
    graph = read_graph_input(data.num_nodes, data.edge_index)
    states = model.propagate(model.encoder.node_lin(data.x), graph)
    assert states.std(dim=0).max() > 1e-2
