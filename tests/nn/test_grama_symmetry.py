"""What a model of graphs must not see: the numbering of nodes, edges and graphs."""

import re

import pytest
import torch
from backbone_cases import BY_NAME, CASES, CHANNELS, WORDS, BackboneCase
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


def renumber(data, order, edge_order):
    """Puts node ``order[k]`` at place ``k``, and edges likewise, in tensors turned in memory."""
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    spread = torch.zeros(2 * order.numel(), dtype=torch.long)
    spread[::2] = data.batch[order]
    turned = Data(
        x=data.x[order].t().contiguous().t(),
        edge_index=place[data.edge_index[:, edge_order]].t().contiguous().t(),
        edge_attr=data.edge_attr[edge_order].t().contiguous().t(),
        edge_weight=data.edge_weight[edge_order],
        batch=spread[::2],
    )
    assert not any(turned[name].is_contiguous() for name in ("x", "edge_index", "batch"))
    return turned


@every_case
def test_the_order_of_nodes_and_edges_does_not_matter(case, readout, options, batch):
    model = case.model(readout=readout, **options).eval()
    # nodes change places inside their graphs, which stay together
    order = torch.tensor([2, 0, 3, 1, 8, 4, 6, 7, 5, 11, 10, 9])
    moved = renumber(batch, order, torch.randperm(batch.num_edges))
    weights = ["edge_weight"] if case is GCN else []
    expected = case.run(model, batch, **{name: batch[name] for name in weights})
    got = case.run(model, moved, **{name: moved[name] for name in weights})
    assert not torch.allclose(expected[0], expected[1])
    assert torch.allclose(got, expected[order] if readout == "node" else expected)


@every_case
def test_a_batch_equals_its_graphs_and_empty_slots_each_other(
    case, readout, options, graphs, batch
):
    # batch norm alone mixes the graphs of a batch while it trains
    is_fixed = not (case.has_batch_statistics or "dropout" in options)
    is_fixed &= options.get("norm") != "batch_norm"
    model = case.model(readout=readout, **options).train(is_fixed)
    slots = torch.tensor([0, 1, 3])
    batch.batch = slots[batch.batch]
    together = case.run(model, batch, batch_size=5)
    if readout == "graph":
        assert torch.allclose(together[2], together[4])
        together = together[slots]
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


def test_the_order_of_the_graphs_does_not_matter(graphs):
    model = GCN.model(readout="graph")
    there, back = (Batch.from_data_list(part) for part in (graphs, graphs[::-1]))
    assert torch.allclose(GCN.run(model, there), GCN.run(model, back).flip(0))


def test_batch_vector_and_batch_size_may_be_given(path, batch):
    model = GCN.model(readout="graph")
    path.batch = torch.zeros(4, dtype=torch.long)
    assert torch.allclose(GCN.run(model, path), model(path.x, path.edge_index))
    assert torch.equal(GCN.run(model, batch, batch_size=3), GCN.run(model, batch))


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
