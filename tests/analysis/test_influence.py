import dataclasses
import json
import time

import networkx as nx
import pytest
import torch
from analysis_graphs import MessagePassingStack, grama, graph, path_edges
from coefficient_strategies import quick, seeds
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from torch_grama.analysis import ModelInput, hop_distance, influence_by_distance, influence_of_task
from torch_grama.analysis.influence import confidence


def test_influence_counts_walks_on_a_path():
    """With two sums over neighbours and self, (A + I)^2 holds every derivative."""
    A = torch.eye(5, dtype=torch.float64)
    A[tuple(path_edges(5))] = 1
    walks = (A @ A).square() * 3  # three channels that do not mix
    hops = (torch.arange(5) - torch.arange(5)[:, None]).abs()
    found = influence_by_distance(MessagePassingStack(2), graph(5))
    for k in range(5):
        assert found.total[k] == pytest.approx(float(walks[hops == k].sum()) / 5, rel=1e-4)
        assert found.num_nodes[k] == pytest.approx(float((hops == k).sum()) / 5, rel=1e-4)
        assert found.mean[k] == pytest.approx(float(walks[hops == k].mean()), rel=1e-4)
    assert found.influence_range == pytest.approx(float((walks * hops).sum() / walks.sum()), 1e-4)
    assert found.exact
    assert found.total_error == []
    assert found.influence_range_error is None


def test_direction_reach_and_what_lies_beyond(monkeypatch):
    one_way = ModelInput(torch.randn(6, 1), torch.stack([torch.arange(5), torch.arange(1, 6)]))
    whole = influence_by_distance(MessagePassingStack(9), one_way)
    with monkeypatch.context() as patch:
        patch.setattr("torch_grama.analysis.influence._MAX_HOPS", 2)
        found = influence_by_distance(MessagePassingStack(9), one_way)
    assert len(found.total) == 3
    assert found.total == whole.total[:3]
    assert found.beyond == pytest.approx(sum(whole.total[3:]), rel=1e-4)
    assert found.influence_range == whole.influence_range
    assert whole.beyond == whole.unreachable == 0

    class Global(MessagePassingStack):
        def forward(self, x, *_):
            return x.sum(0).expand_as(x)

    # half of all ordered pairs of different nodes have no path
    found = influence_by_distance(Global(1), one_way)
    assert found.unreachable == pytest.approx(15 / 6, rel=1e-4)
    assert sum(found.total) == pytest.approx(21 / 6, rel=1e-4)


def test_sampling_agrees_with_the_exact_value_within_its_confidence():
    model, inputs = grama(), graph(8)
    exact = influence_by_distance(model, inputs)
    inside = []
    for seed in range(8):
        found = influence_by_distance(model, inputs, exact=False, num_samples=24, seed=seed)
        assert not found.exact
        near = zip(found.total[:4], exact.total[:4], found.total_error[:4], strict=True)
        inside += [abs(value - truth) <= error for value, truth, error in near]
        deviation = abs(found.influence_range - exact.influence_range)
        inside.append(deviation <= found.influence_range_error)
    assert sum(inside) >= 0.9 * len(inside)
    again = influence_by_distance(model, inputs, exact=False, num_samples=24, seed=7)
    assert again == found


def test_all_elements_of_a_sequence_count():
    torch.manual_seed(0)
    inputs = ModelInput(torch.randn(5, 3, 3).double(), path_edges(5))  # [N, L, C]
    model = grama().eval()
    jacobian = torch.autograd.functional.jacobian(lambda x: inputs.run(model, x), inputs.x)
    squares = jacobian.square().sum((1, 3, 4))  # [N, out, N, L, C] -> [N, N]
    hops = (torch.arange(5) - torch.arange(5)[:, None]).abs()
    found = influence_by_distance(model, inputs)
    for k in range(5):
        assert found.total[k] == pytest.approx(float(squares[hops == k].sum()) / 5, rel=1e-4)


def test_graphs_are_averaged():
    model, graphs = grama(), [graph(4), graph(7, seed=1)]
    together = influence_by_distance(model, graphs)
    alone = [influence_by_distance(model, part) for part in graphs]
    for k in range(4):
        expected = (alone[0].total[k] + alone[1].total[k]) / 2
        assert together.total[k] == pytest.approx(expected, rel=1e-3)
    assert together.total[6] == pytest.approx(alone[1].total[6] / 2, rel=1e-3)


def test_permuting_nodes_changes_nothing():
    model, inputs = grama(backbone="gatedgcn"), graph(7)
    order = torch.randperm(7)
    position = order.argsort()
    permuted = ModelInput(inputs.x[order], position[inputs.edge_index])
    first, second = (influence_by_distance(model, part) for part in (inputs, permuted))
    assert first.total == pytest.approx(second.total, rel=1e-3)
    assert first.influence_range == pytest.approx(second.influence_range, rel=1e-3)


def test_a_deeper_model_reaches_further_than_its_layers():
    torch.manual_seed(0)
    inputs = graph(16)
    shallow = MessagePassingStack(2)
    found = influence_by_distance(shallow, inputs)
    assert sum(found.total[3:]) == 0 < found.total[2]
    assert (
        found.influence_range
        < influence_by_distance(MessagePassingStack(6), inputs).influence_range
    )
    baseline = _Called(GCN(3, 8, num_layers=3, out_channels=2).double())
    found = influence_by_distance(baseline, inputs)
    assert found.total[3] > 0 == sum(found.total[4:])


def test_edges_of_the_domain():
    nothing = torch.zeros(2, 0, dtype=torch.long)
    single = influence_by_distance(MessagePassingStack(2), ModelInput(torch.ones(1, 2), nothing))
    assert single.total == [2.0]
    assert single.influence_range == 0
    isolated = ModelInput(torch.ones(3, 2), nothing)
    found = influence_by_distance(MessagePassingStack(2), isolated, exact=False, num_samples=4)
    assert found.total == [2.0]
    assert found.total_error == [0.0]
    empty_slot = ModelInput(torch.ones(3, 2), nothing, batch=torch.tensor([0, 2, 2]), batch_size=4)
    for exact in (True, False):
        found = influence_by_distance(MessagePassingStack(2), empty_slot, exact=exact)
        assert found.total == [2.0]
    json.dumps(dataclasses.asdict(found), allow_nan=False)
    with pytest.raises(ValueError, match="'num_samples' to be at least 2"):
        influence_by_distance(MessagePassingStack(1), isolated, num_samples=1)


def test_confidence_uses_students_quantiles():
    stats = pytest.importorskip("scipy.stats")
    for count in (5, 8, 30):
        values = torch.randn(count, 2, dtype=torch.float64)
        expected = stats.t.ppf(0.975, count - 1) * values.std(0) / count**0.5
        assert torch.allclose(confidence(values), expected, rtol=0.02)
    assert torch.isinf(confidence(torch.ones(1, 3))).all()


@quick
@given(seeds, st.integers(1, 12), st.integers(0, 30))
def test_distances_equal_those_of_networkx(seed, num_nodes, num_edges):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    goals = torch.rand(3, num_nodes, generator=generator) < 0.3
    reverse = nx.DiGraph()
    reverse.add_nodes_from(range(num_nodes))
    reverse.add_edges_from(edge_index.flip(0).T.tolist())
    found = hop_distance(edge_index, num_nodes, goals)
    for row, goal in zip(found, goals, strict=True):
        sources = set(goal.nonzero().flatten().tolist())
        lengths = nx.multi_source_dijkstra_path_length(reverse, sources) if sources else {}
        assert row.tolist() == [lengths.get(node, -1) for node in range(num_nodes)]


def test_many_goals_are_handled_in_parts(monkeypatch):
    goals = torch.eye(9, dtype=torch.bool)
    expected = hop_distance(path_edges(9), 9, goals)
    assert torch.equal(expected, (torch.arange(9) - torch.arange(9)[:, None]).abs())
    monkeypatch.setattr("torch_grama.analysis.hops._CHUNK_NUMBERS", 20)
    assert torch.equal(hop_distance(path_edges(9), 9, goals), expected)


def test_edges_of_the_domain_of_distances():
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert hop_distance(nothing, 2, torch.tensor([True, False])).tolist() == [0, -1]
    assert hop_distance(nothing, 0, torch.zeros(0, dtype=torch.bool)).size() == (0,)
    with pytest.raises(ValueError, match=r"boolean of shape \[2\] or \[M, 2\] \(got torch.int64"):
        hop_distance(nothing, 2, torch.tensor([0, 1]))


class _Called(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, *rest):
        return self.model(x, edge_index)


def _pyg_total_influence(model, x, edge_index, hops):
    pyg = pytest.importorskip("torch_geometric.utils")
    if not hasattr(pyg, "total_influence"):
        pytest.skip("an older torch_geometric")
    data = Data(x=x, edge_index=edge_index)
    return pyg.total_influence(model, data, hops, normalize=False)


@pytest.mark.parametrize("num_nodes", [12, 90])  # one by one, and several at a time
def test_absolute_influence_is_that_of_pyg(num_nodes):
    torch.manual_seed(0)
    x, edge_index = torch.randn(num_nodes, 3), path_edges(num_nodes)
    model = GCN(3, 8, 2, 2).eval()
    found = influence_by_distance(
        _Called(model), ModelInput(x, edge_index), exact=True, norm="absolute"
    )
    total, breadth = _pyg_total_influence(model, x, edge_index, 3)
    assert found.total[:4] == pytest.approx(total.tolist(), rel=1e-5, abs=1e-5)
    assert found.influence_range == pytest.approx(breadth, rel=1e-4)


@pytest.mark.long
def test_absolute_influence_is_five_times_faster_than_that_of_pyg():
    torch.manual_seed(0)
    model = GCN(8, 32, 8, 3).eval()
    for num_nodes in (90, 1000):  # a small graph first: what is loaded once is nobody's time
        x, edge_index = torch.randn(num_nodes, 8), path_edges(num_nodes)
        start = time.process_time()
        graph = ModelInput(x, edge_index)
        influence_by_distance(_Called(model), graph, exact=True, norm="absolute")
        middle = time.process_time()
        _pyg_total_influence(model, x, edge_index, 9)
        end = time.process_time()
    assert end - middle > 5 * (middle - start)


def test_nodes_that_see_everything_are_not_taken_together():
    class Global(torch.nn.Module):
        def forward(self, x, edge_index, *rest):
            # node 70, and no other, sees the far end
            late = torch.arange(len(x))[:, None] == 70
            return x + late * x[:1].square()

    x = torch.rand(100, 2) + 0.5
    graph = ModelInput(x, path_edges(100))
    found = influence_by_distance(Global(), graph, exact=True)
    assert found.total[0] == pytest.approx(2)
    assert found.total[1:64] == [0.0] * 63
    assert found.beyond == pytest.approx(4 * float(x[0].square().sum()) / 100, rel=1e-4)


def test_the_influence_of_a_task_is_measured_alike():
    graphs = [ModelInput(torch.randn(n, 1), path_edges(n)) for n in (4, 6)]
    matrices = [torch.diag(torch.ones(n - 2), 2) for n in (4, 6)]  # v asks for v + 2
    for norm in ("square", "absolute"):
        found = influence_of_task(matrices, graphs, norm=norm)
        assert found.total[:3] == pytest.approx([0, 0, (2 / 4 + 4 / 6) / 2], rel=1e-4)
        assert found.exact
    assert influence_of_task(matrices, graphs).influence_range == pytest.approx(2)


def test_sampled_absolute_influence_has_a_stated_error():
    torch.manual_seed(1)
    graph = ModelInput(torch.randn(80, 3), path_edges(80))
    model = _Called(GCN(3, 8, 3, 2).eval())
    exact = influence_by_distance(model, graph, exact=True, norm="absolute")
    drawn = influence_by_distance(model, graph, exact=False, num_samples=40, norm="absolute")
    for value, error, true in zip(drawn.total, drawn.total_error, exact.total, strict=True):
        assert abs(value - true) <= 2 * error + 1e-12
    assert abs(drawn.influence_range - exact.influence_range) <= 2 * drawn.influence_range_error
