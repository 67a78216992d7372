import pytest
import torch
from baseline_checks import call, draw_graph, read_batch
from dense_formulas import affine, frame, gated_gcn, head, mamba, prepare
from torch_geometric.data import Batch, Data

from torch_grama.baselines import GPSMamba, GraphMamba
from torch_grama.baselines.batch_view import node_noise
from torch_grama.baselines.gps import ORDERS, NodeScan


@pytest.mark.parametrize("order", ["degree", "random"])
def test_graph_mamba_is_the_mean_over_noisy_orders(order):
    graph = draw_graph(8, 0, edge_dim=3)
    model = prepare(GraphMamba(5, 6, 3, 2, order=order, edge_dim=3, state_channels=4))
    x, edge = (
        affine(model.encoder.node_lin, graph.x),
        affine(model.encoder.edge_lin, graph.edge_attr),
    )
    degree = torch.bincount(graph.edge_index[0], minlength=8)
    noise = node_noise(torch.arange(8), 5, False, torch.float64)
    for local, mixer, sums in zip(model.locals, model.mixers, model.frames, strict=True):
        update, edge = gated_gcn(local.conv, x, graph.edge_index, edge)
        total = torch.zeros_like(x)
        for column in noise.t():
            key = degree + column if order == "degree" else column
            nodes = sorted(range(8), key=lambda i, key=key: float(key[i]))
            total[nodes] += mamba(mixer.block, x[nodes])
        x = frame(sums, x, [total / 5, update])
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_gps_mamba_scans_the_nodes_as_they_are_stored():
    graph = draw_graph(8, 0)
    model = prepare(GPSMamba(5, 6, 3, 2, state_channels=4))
    x, edge = affine(model.encoder.node_lin, graph.x), None
    for local, mixer, sums in zip(model.locals, model.mixers, model.frames, strict=True):
        update, edge = gated_gcn(local.conv, x, graph.edge_index, edge)
        x = frame(sums, x, [mamba(mixer.block, x), update])
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_in_training_nodes_of_higher_degree_always_come_later():
    hub = Data(
        x=torch.ones(5, 1),
        edge_index=torch.tensor([[2, 2, 2, 2, 0, 1, 3, 4], [0, 1, 3, 4] + [2] * 4]),
    )
    batch = Batch.from_data_list([hub, hub])
    view = read_batch(batch.x, batch.edge_index, batch=batch.batch)
    orders = set()
    torch.manual_seed(0)
    for _ in range(20):
        noise = node_noise(view.place, 1, True, torch.float64)[:, 0]
        order = view.sort_nodes(ORDERS["degree"](view, noise)).tolist()
        assert order[4] == 2
        assert order[9] == 7
        orders.add(tuple(order))
    assert len(orders) > 10


def test_training_draws_from_the_global_generator_and_evaluation_does_not():
    graph = draw_graph(10, 0)
    model = GraphMamba(5, 6, 3, 1).double()

    def run(seed):
        torch.manual_seed(seed)
        return call(model, graph)

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))
    model.eval()
    assert torch.equal(run(0), run(1))


def test_number_of_orders_must_be_positive():
    with pytest.raises(ValueError, match="'num_orders'"):
        NodeScan(torch.nn.Identity(), ORDERS["degree"], 0)
    with pytest.raises(ValueError, match="'degree'"):
        GraphMamba(5, 6, 3, 1, order="degrees")
