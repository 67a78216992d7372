import pytest
import torch
import torch.nn.functional as F
from baseline_checks import draw_graph, read_batch
from dense_formulas import gated_gcn, prepare

from torch_grama.baselines import GPS
from torch_grama.baselines.branch_stack import LOCAL_LAYERS, GatedGCNBranch

GRAPH = draw_graph(7, 0, edge_dim=5)


def branch_of(local, has_edge_attr=False, layer=0):
    """The branch of one layer of three, with states as wide as the features of the graph."""
    edge_dim = 5 if has_edge_attr else None
    return GPS(5, 5, 3, 3, local=local, edge_dim=edge_dim, heads=1).locals[layer].double()


def test_gcn_reads_weights():
    branch = branch_of("gcn")
    weight = torch.rand(GRAPH.edge_index.size(1), dtype=torch.float64)
    view = read_batch(GRAPH.x, GRAPH.edge_index, weight)
    out, edge = branch(GRAPH.x, None, view)
    dense = torch.eye(7, dtype=torch.float64)
    dense[GRAPH.edge_index[1], GRAPH.edge_index[0]] = weight
    scale = dense.sum(1).rsqrt()
    expected = scale[:, None] * dense * scale @ GRAPH.x @ branch.conv.lin.weight.t()
    assert edge is None
    torch.testing.assert_close(out, expected + branch.conv.bias)
    seen = []
    branch.conv.register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(branch(GRAPH.x, None, view)[0], out)
    assert seen  # a watched convolution is called, with the weights


@pytest.mark.parametrize("has_edge_attr", [False, True])
def test_gine_sums_rectified_neighbours(has_edge_attr):
    branch = branch_of("gine", has_edge_attr)
    edge = GRAPH.edge_attr if has_edge_attr else None
    out, same = branch(GRAPH.x, edge, read_batch(GRAPH.x, GRAPH.edge_index))
    total = GRAPH.x.clone()
    for number, (j, i) in enumerate(GRAPH.edge_index.t().tolist()):
        message = GRAPH.x[j]
        total[i] += F.relu(message + GRAPH.edge_attr[number]) if has_edge_attr else message
    torch.testing.assert_close(out, branch.conv.nn(total))
    assert same is edge


def test_gine_multi_maps_four_summaries_of_the_neighbours():
    branch = branch_of("gine-multi")
    out, _ = branch(GRAPH.x, None, read_batch(GRAPH.x, GRAPH.edge_index))
    summaries = []
    for node in range(7):
        senders = GRAPH.x[GRAPH.edge_index[0, GRAPH.edge_index[1] == node]]
        assert len(senders) > 0
        parts = (senders.sum(0), senders.mean(0), senders.amax(0), senders.amin(0))
        summaries.append(torch.cat(parts))
    total = GRAPH.x + branch.conv.aggr_module.lin(torch.stack(summaries))
    torch.testing.assert_close(out, branch.conv.nn(total))


@pytest.mark.parametrize("is_first", [False, True])
def test_gated_gcn_updates_the_edges(is_first):
    branch = prepare(branch_of("gatedgcn", layer=0 if is_first else 1))
    edge = None if is_first else GRAPH.edge_attr
    out, new_edge = branch(GRAPH.x, edge, read_batch(GRAPH.x, GRAPH.edge_index))
    expected, expected_edge = gated_gcn(branch.conv, GRAPH.x, GRAPH.edge_index, edge)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(new_edge, expected_edge)


def test_dropout_of_the_edges_keeps_what_they_were():
    branch = GatedGCNBranch(5, True, dropout=0.5).double()
    view = read_batch(GRAPH.x, GRAPH.edge_index)
    torch.manual_seed(0)
    _, new_edge = branch(GRAPH.x, GRAPH.edge_attr, view)
    change = new_edge - GRAPH.edge_attr
    assert (change == 0).double().mean() > 0.5
    assert (change >= 0).all()


@pytest.mark.parametrize(
    ("local", "edge_dim"),
    [
        (local, width)
        for local in LOCAL_LAYERS
        for width in (None, 3)
        if (local, width) != ("gcn", 3)
    ],
)
def test_reset_forgets_every_parameter(local, edge_dim):
    model = GPS(5, 8, 2, 2, local=local, edge_dim=edge_dim)
    with torch.no_grad():
        for value in model.parameters():
            value.fill_(9.0)

    model.reset_parameters()

    assert [name for name, value in model.named_parameters() if bool((value == 9.0).any())] == []
