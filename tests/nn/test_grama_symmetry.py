"""What a model of graphs must not see: the numbering of nodes, edges and graphs."""

import re

import pytest
import torch
from backbone_cases import BY_NAME, CASES, CHANNELS, WORDS, BackboneCase, backbones
from model_gradients import loss_gradients
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GraphNorm, InstanceNorm, PairNorm
from torch_geometric.nn import LayerNorm as GraphLayerNorm

from torch_grama.nn import Coefficients, Running

# every backbone: other tests run the same lines
pytestmark = pytest.mark.no_cover

GCN = BY_NAME["gcn"]
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
EVERY = [
    *((case, "node", {}) for case in CASES),
    *((case, "graph", {}) for case in WORDS),
    *((GCN, readout, options) for readout in ("node", "graph") for options in OPTIONS),
]
every_case = pytest.mark.parametrize(
    ("case", "readout", "options"),
    EVERY,
    ids=lambda value: getattr(value, "name", re.sub(r" at 0x\w+", "", str(value))),
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


@every_case
def test_node_numbers_do_not_matter(case, readout, options, batch, node_order):
    model = case.model(readout=readout, **options).eval()
    weights = [None, batch.edge_weight] if case is GCN else [None]
    for edge_weight in weights:
        given = {} if edge_weight is None else {"edge_weight": edge_weight}
        expected = case.run(model, batch, **given)
        got = case.run(model, renumber(batch, node_order), **given)
        assert not torch.allclose(expected[0], expected[1])
        assert torch.allclose(got, expected[node_order] if readout == "node" else expected)


@backbones()
def test_edge_order_does_not_matter(case, batch, edge_order):
    model = case.model().eval()
    got = case.run(model, reorder_edges(batch, edge_order))
    assert torch.allclose(got, case.run(model, batch))


@every_case
def test_a_batch_equals_its_graphs(case, readout, options, graphs, batch):
    model = case.model(readout=readout, **options).eval()
    together = case.run(model, batch)
    alone = torch.cat([case.run(model, graph) for graph in graphs])
    assert torch.allclose(together, alone)


@pytest.mark.parametrize(
    ("case", "readout", "options"),
    [
        *((case, "graph", {}) for case in CASES if not case.has_batch_statistics),
        # batch norm alone mixes the graphs of a batch while it trains
        *(
            (GCN, "node", o)
            for o in OPTIONS
            if o.get("norm") != "batch_norm" and "dropout" not in o
        ),
    ],
    ids=lambda value: getattr(value, "name", re.sub(r" at 0x\w+", "", str(value))),
)
def test_a_batch_equals_its_graphs_in_training(case, readout, options, graphs, batch):
    model = case.model(readout=readout, **options).train()
    together = case.run(model, batch)
    gradients = loss_gradients(model, together)
    alone = torch.cat([case.run(model, graph) for graph in graphs])
    assert torch.allclose(together, alone)
    # norms of PyG add their small constant at another place where there is a batch vector
    atol = 5e-5 if "norm" in options else 1e-10
    for a, b in zip(gradients, loss_gradients(model, alone), strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, rtol=1e-6, atol=atol)


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
