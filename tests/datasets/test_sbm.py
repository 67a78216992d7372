import numpy as np
import pytest
import torch

from torch_grama.datasets import CATALOGUE, load, sbm
from torch_grama.datasets.sbm import generate_cluster, generate_pattern


@pytest.fixture(scope="module")
def pattern():
    return generate_pattern(counts=(400, 100, 100))


@pytest.fixture(scope="module")
def cluster():
    return generate_cluster(counts=(300, 50, 50))


def _density(graphs, same):
    """Share of edges among the pairs (a, b) for which ``same(y_a, y_b)`` holds."""
    edges = pairs = 0
    for graph in graphs[::4]:
        y = graph.y.numpy()
        wanted = same(y[:, None], y[None, :]) & ~np.eye(len(y), dtype=bool)
        dense = np.zeros((len(y), len(y)), dtype=bool)
        dense[tuple(graph.edge_index.numpy())] = True
        assert np.array_equal(dense, dense.T)
        assert not dense.diagonal().any()
        edges += int((dense & wanted).sum())
        pairs += int(wanted.sum())
    return edges / pairs


def test_cluster_has_the_stated_parameters(cluster):
    assert _density(cluster, lambda a, b: a == b) == pytest.approx(0.55, abs=0.01)
    assert _density(cluster, lambda a, b: a != b) == pytest.approx(0.25, abs=0.01)
    for graph in cluster:
        sizes = torch.bincount(graph.y)
        assert len(sizes) == 6
        assert sizes.min() >= 5
        assert sizes.max() <= 34
        known = graph.x.flatten().nonzero().flatten()
        assert sorted(graph.x[known].flatten().tolist()) == [1, 2, 3, 4, 5, 6]
        assert torch.equal(graph.x[known].flatten() - 1, graph.y[known])


def test_pattern_has_the_stated_parameters(pattern):
    assert _density(pattern, lambda a, b: (a == 1) & (b == 1)) == pytest.approx(0.5, abs=0.02)
    assert _density(pattern, lambda a, b: (a == 1) != (b == 1)) == pytest.approx(0.5, abs=0.01)
    # Communities of 5 x U{5..34}: 2178 ordered pairs inside against 7605 between.
    expected = (2178 * 0.5 + 7605 * 0.35) / (2178 + 7605)
    assert _density(pattern, lambda a, b: (a == 0) & (b == 0)) == pytest.approx(expected, abs=0.01)
    assert np.bincount(pattern.columns["x"].values.flatten()).argmax() in (0, 1, 2)
    assert pattern.columns["x"].values.max() == 2


def test_a_pattern_is_the_same_wherever_it_appears(pattern):
    def hidden(number):
        graph = pattern[number]
        inside = graph.subgraph(graph.y == 1)
        return inside.num_nodes, inside.num_edges, tuple(sorted(inside.x.flatten().tolist()))

    # Four training graphs, one validation and one test graph for each pattern.
    for index in (0, 57, 99):
        copies = {hidden(4 * index + k) for k in range(4)}
        copies |= {hidden(400 + index), hidden(500 + index)}
        assert len(copies) == 1
    assert hidden(0) != hidden(4)


def test_sizes_agree_with_the_published_averages(pattern, cluster):
    for graphs, name in ((pattern, "sbm-pattern"), (cluster, "sbm-cluster")):
        published = CATALOGUE[name].published
        assert graphs.num_nodes.mean() == pytest.approx(published.mean_nodes, rel=0.05)
        assert graphs.num_edges.mean() == pytest.approx(published.mean_edges, rel=0.08)


def test_counts_must_fit_the_patterns():
    with pytest.raises(ValueError, match="multiples of 100"):
        generate_pattern(counts=(10, 0, 0))


def test_loading(tmp_path, monkeypatch):
    monkeypatch.setattr(sbm, "CLUSTER_COUNTS", (6, 2, 2))
    task = load("sbm-cluster", tmp_path, seed=2)
    assert (task.level, task.kind, task.num_outputs) == ("node", "classification", 6)
    assert task.node_encoding.sizes == (7,)
    assert [len(part) for part in task.folds[0].parts] == [6, 2, 2]
    assert "not the official files" in task.notes[0]
    assert task.graphs[0].x.dtype == task.graphs[0].y.dtype == torch.long
    assert (tmp_path / "compact" / "sbm-cluster-seed2-v1.npz").is_file()
