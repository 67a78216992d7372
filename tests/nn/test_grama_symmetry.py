"""What a model of graphs must not see: the numbering of nodes, edges and graphs."""

import re

import pytest
import torch
from backbone_cases import BY_NAME, CASES, CHANNELS, BackboneCase, backbones
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GraphNorm, InstanceNorm, PairNorm
from torch_geometric.nn import LayerNorm as GraphLayerNorm

from torch_grama.nn import Coefficients, Running

# every backbone: other tests run the same lines
pytestmark = pytest.mark.no_cover

GCN = BY_NAME["gcn"]
readouts = pytest.mark.parametrize("readout", ["node", "graph"])
OPTIONS = [
    {"coefficients": "naive"},
    {"coefficients": Coefficients(update="step")},
    {"coefficients": Coefficients("naive", update="step")},
    {"coefficients": Coefficients(constraint="l1")},
    {"coefficients": Coefficients(constraint="softmax")},
    {"coefficients": Coefficients(ar_order=1, ma_order=2), "num_recurrences": 9},
    {"norm": "batch_norm"},
    {"norm": "layer_norm"},
    {"norm": GraphNorm},
    {"norm": GraphLayerNorm},
    {"norm": InstanceNorm},
    {"norm": lambda channels: PairNorm()},
    {"dropout": 0.5},
    {"seq_len": 1},
    {"share_weights": False},
    {"running": Running("scan")},
    {"running": Running("reference")},
]
options = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda options: re.sub(r" at 0x\w+", "", str(options))
)


def renumber(data, order):
    """Puts node ``order[k]`` at place ``k``."""
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    return Data(
        x=data.x[order],
        edge_index=place[data.edge_index],
        edge_attr=data.edge_attr,
        edge_weight=data.edge_weight,
        batch=None if data.batch is None else data.batch[order],
    )


def reorder_edges(data, order):
    return Data(
        x=data.x,
        edge_index=data.edge_index[:, order],
        edge_attr=data.edge_attr[order],
        edge_weight=data.edge_weight[order],
        batch=data.batch,
    )


@pytest.fixture
def node_order():
    """Nodes change places inside their graphs, which stay together."""
    return torch.tensor([2, 0, 3, 1, 8, 4, 6, 7, 5, 11, 10, 9])


@pytest.fixture
def edge_order(batch):
    return torch.randperm(batch.num_edges)


def assert_renumbered(case, model, batch, order, readout, **extra):
    expected = case.run(model, batch, **extra)
    got = case.run(model, renumber(batch, order), **extra)
    assert not torch.allclose(expected[0], expected[1])
    assert torch.allclose(got, expected[order] if readout == "node" else expected)


@backbones()
@readouts
def test_node_numbers_do_not_matter(case, readout, batch, node_order):
    model = case.model(readout=readout).eval()
    assert_renumbered(case, model, batch, node_order, readout)


@options
@readouts
def test_node_numbers_do_not_matter_with_options(options, readout, batch, node_order):
    model = GCN.model(readout=readout, **options).eval()
    assert_renumbered(GCN, model, batch, node_order, readout)


@readouts
def test_node_numbers_do_not_matter_with_edge_weights(readout, batch, node_order):
    model = GCN.model(readout=readout)
    assert_renumbered(GCN, model, batch, node_order, readout, edge_weight=batch.edge_weight)


@backbones()
@readouts
def test_edge_order_does_not_matter(case, readout, batch, edge_order):
    model = case.model(readout=readout).eval()
    got = case.run(model, reorder_edges(batch, edge_order))
    assert torch.allclose(got, case.run(model, batch))


@backbones()
@readouts
def test_a_batch_equals_its_graphs(case, readout, graphs, batch):
    model = case.model(readout=readout).eval()
    together = case.run(model, batch)
    alone = torch.cat([case.run(model, graph) for graph in graphs])
    assert torch.allclose(together, alone)


@options
@readouts
def test_a_batch_equals_its_graphs_with_options(options, readout, graphs, batch):
    model = GCN.model(readout=readout, **options).eval()
    together = GCN.run(model, batch)
    alone = torch.cat([GCN.run(model, graph) for graph in graphs])
    assert torch.allclose(together, alone)


@backbones([case for case in CASES if not case.has_batch_statistics])
def test_a_batch_equals_its_graphs_in_training(case, graphs, batch):
    model = case.model(readout="graph").train()
    weights = torch.randn(3, 2, dtype=torch.float64)
    together = case.run(model, batch)
    (together * weights).sum().backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    alone = torch.cat([case.run(model, graph) for graph in graphs])
    (alone * weights).sum().backward()
    assert torch.allclose(together, alone)
    for got, parameter in zip(gradients, model.parameters(), strict=True):
        assert (got is None) == (parameter.grad is None)
        if got is not None:
            assert torch.allclose(got, parameter.grad, rtol=1e-6, atol=1e-10)


# batch norm alone mixes the graphs of a batch while it trains
@pytest.mark.parametrize(
    "options",
    [o for o in OPTIONS if o.get("norm") != "batch_norm" and "dropout" not in o],
    ids=lambda options: re.sub(r" at 0x\w+", "", str(options)),
)
def test_a_batch_equals_its_graphs_in_training_with_options(options, graphs, batch):
    model = GCN.model(**options).train()
    together = GCN.run(model, batch)
    assert torch.allclose(together, torch.cat([GCN.run(model, graph) for graph in graphs]))


@pytest.mark.parametrize("update", ["block", "step"])
def test_coefficients_of_a_batch_are_those_of_its_graphs(update, graphs, batch):
    model = GCN.model(coefficients=Coefficients(update=update))
    _, together = GCN.run(model, batch, return_coefficients=True)
    for index, graph in enumerate(graphs):
        _, alone = GCN.run(model, graph, return_coefficients=True)
        for a, b in zip(together, alone, strict=True):
            assert torch.allclose(a.phi[..., index, :], b.phi[..., 0, :])
            assert torch.allclose(a.theta[..., index, :], b.theta[..., 0, :])


def test_order_of_the_graphs_does_not_matter(graphs):
    model = GCN.model(readout="graph")
    there, back = (Batch.from_data_list(part) for part in (graphs, graphs[::-1]))
    assert torch.allclose(GCN.run(model, there), GCN.run(model, back).flip(0))


def test_one_graph_with_and_without_batch_vector(path):
    model = GCN.model()
    got = model(path.x, path.edge_index, batch=torch.zeros(4, dtype=torch.long))
    assert torch.allclose(got, GCN.run(model, path))


def test_batch_size_may_be_given(batch):
    model = GCN.model(readout="graph")
    got = GCN.run(model, batch, batch_size=3)
    assert torch.equal(got, GCN.run(model, batch))


def test_information_travels_as_many_hops_as_there_are_recurrences():
    # a line of eight nodes; two blocks of three recurrences reach six hops
    case = BackboneCase("", lambda: GCNConv(CHANNELS, CHANNELS))
    # naive coefficients: selective ones read the mean of the graph
    model = case.model(seq_len=3, num_blocks=2, act="tanh", coefficients="naive")
    x = torch.randn(8, 5, dtype=torch.float64, requires_grad=True)
    line = torch.stack([torch.arange(7), torch.arange(1, 8)])
    edge_index = torch.cat([line, line.flip(0)], dim=1)
    (gradient,) = torch.autograd.grad(model(x, edge_index)[0].sum(), x)
    assert (gradient.abs().sum(1) > 0).tolist() == [True] * 7 + [False]
