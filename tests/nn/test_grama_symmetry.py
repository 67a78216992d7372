"""What a model of graphs must not see: the numbering of nodes, edges and graphs."""

import re

import pytest
import torch
from backbone_cases import BY_NAME, CASES, WORDS
from model_gradients import loss_gradients
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GraphNorm, InstanceNorm, PairNorm
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


def test_the_order_of_the_graphs_does_not_matter(graphs):
    model = GCN.model(readout="graph")
    there, back = (Batch.from_data_list(part) for part in (graphs, graphs[::-1]))
    assert torch.allclose(GCN.run(model, there), GCN.run(model, back).flip(0))
