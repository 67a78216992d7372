import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_networkx

from torch_grama.datasets import load
from torch_grama.datasets.graph_transfer import TOPOLOGIES, generate_transfer


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("distance", [2, 3, 5, 10, 50])
def test_target_lies_at_the_stated_distance(topology, distance):
    for variant in ("paper", "carry"):
        graph = generate_transfer(topology, distance, variant, counts=(1, 1, 1))[0]
        target = graph.num_nodes - 1 if topology == "line" else distance
        drawn = to_networkx(graph, to_undirected=True)
        assert nx.shortest_path_length(drawn, 0, target) == distance
        assert nx.is_connected(drawn)
        assert not graph.has_self_loops()
        assert graph.is_undirected()
        assert graph.is_coalesced()
        assert graph.num_nodes == (distance + 1 if topology == "line" else 2 * distance)


def test_crossed_ring_of_the_protocol():
    expected = {3: "01 12 23 34 45 05 14 25", 5: "01 12 23 34 45 56 67 78 89 09 18 27 36 29 38 47"}
    for distance, words in expected.items():
        graph = generate_transfer("crossed-ring", distance, counts=(1, 0, 0))[0]
        pairs = {f"{min(u, v)}{max(u, v)}" for u, v in graph.edge_index.t().tolist()}
        assert pairs == set(words.split())
    for distance in (3, 5, 10, 50):
        graph = generate_transfer("crossed-ring", distance, counts=(1, 0, 0))[0]
        assert graph.num_edges == 2 * (4 * distance - 4)
        legacy = generate_transfer("crossed-ring", distance, "legacy", counts=(1, 0, 0))[0]
        assert legacy.num_edges == 8 * distance - 4
        assert legacy.coalesce().num_edges == graph.num_edges


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_paper_labels_are_the_inputs_swapped(topology):
    graphs = generate_transfer(topology, 10, counts=(20, 5, 5))
    for graph in graphs:
        target = graph.num_nodes - 1 if topology == "line" else 10
        assert graph.x[0] == 1
        assert graph.x[target] == 0
        swapped = graph.x.clone()
        swapped[[0, target]] = swapped[[target, 0]]
        assert torch.equal(graph.y, swapped)
        free = np.delete(graph.x.numpy(), [0, target])
        assert free.min() >= 0
        assert free.max() < 0.5
        assert graph.x.dtype == graph.y.dtype == torch.float32


@pytest.mark.parametrize(
    ("topology", "distance", "published"),
    [("line", 3, 0.15104), ("line", 50, 0.03218), ("ring", 10, 0.04938), ("ring", 50, 0.02664)],
)
def test_best_constant_scores_as_in_the_protocol(topology, distance, published):
    graphs = generate_transfer(topology, distance)
    labels = torch.cat([graph.y for graph in graphs])
    assert float(labels.var(correction=0)) == pytest.approx(published, rel=0.02)


def test_legacy_is_the_public_generator():
    graphs = generate_transfer("line", 5, "legacy", counts=(2, 2, 2))
    assert graphs[0].num_nodes == 5
    assert int((graphs[0].edge_index[0] == graphs[0].edge_index[1]).sum()) == 5
    torch.manual_seed(1234)
    first, second = torch.rand(5, 1), torch.rand(5, 1)
    assert torch.equal(graphs[0].x[1:-1], first[1:-1])
    assert torch.equal(graphs[1].x[1:-1], second[1:-1])
    assert torch.equal(graphs[2].x, graphs[4].x)
    assert not torch.equal(graphs[0].x, graphs[4].x)
    assert graphs[0].y[[0, -1]].flatten().tolist() == [0, 1]


class TestCarry:
    def test_the_source_value_must_appear_at_the_target(self):
        for graph in generate_transfer("ring", 7, "carry", counts=(30, 5, 5)):
            assert graph.label_mask.nonzero().flatten().tolist() == [7]
            assert graph.y[7] == graph.x[0, 0]
            rest = torch.arange(14) != 7
            assert torch.equal(graph.y[rest], graph.x[rest, :1])
            assert graph.x[:, 1].nonzero().flatten().tolist() == [0]
            assert graph.x[:, 2].nonzero().flatten().tolist() == [7]

    def test_cannot_be_solved_locally(self):
        graphs = generate_transfer("line", 10, "carry")
        inputs = np.stack([g.x[g.label_mask][0].numpy() for g in graphs])
        labels = np.stack([g.y[g.label_mask][0].item() for g in graphs])
        assert labels.min() >= 0
        assert labels.max() < 1
        assert np.mean((labels - 0.5) ** 2) == pytest.approx(1 / 12, rel=0.05)
        assert set(inputs[:, 1]) == {0}
        assert set(inputs[:, 2]) == {1}
        # The best polynomial of the target's own value gains nothing over the constant.
        value = inputs[:, 0].astype(np.float64)
        train, test = slice(0, 1000), slice(1000, None)
        fitted = np.polyval(np.polyfit(value[train], labels[train], 3), value[test])
        assert np.mean((labels[test] - fitted) ** 2) > 0.95 * labels[test].var()
        values = np.stack([g.x[:, 0].numpy() for g in graphs])  # nor do the nodes on the way
        correlations = np.corrcoef(np.column_stack([labels, values]).T)[0, 1:]
        assert correlations[0] == pytest.approx(1.0)
        assert np.abs(correlations[1:]).max() < 0.1


def test_parts_are_disjoint_and_follow_the_seed():
    graphs = generate_transfer("ring", 5)
    assert len(graphs) == 1200
    rows = np.stack([g.x.flatten().numpy() for g in graphs])
    assert len(np.unique(rows, axis=0)) == 1200
    assert graphs.fingerprint() != generate_transfer("ring", 5, seed=1).fingerprint()


def test_loading(tmp_path):
    task = load("transfer-ring-5-carry", tmp_path, seed=3)
    facts = (task.level, task.kind, task.metric.name, task.num_outputs)
    assert facts == ("node", "regression", "mse", 1)
    assert task.node_encoding.num_columns == 3
    assert [len(part) for part in task.folds[0].parts] == [1000, 100, 100]
    assert sorted(torch.cat(task.folds[0].parts).tolist()) == list(range(1200))
    assert "seed=3" in task.source
    assert any("label_mask" in note for note in task.notes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("star", 5), "topology"), (("line", 5, "mail"), "variant"), (("line", 1), "distance")],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate_transfer(*arguments)
