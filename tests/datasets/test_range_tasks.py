"""Barbells and range tasks: targets written out, sizes exact, the same from a seed."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_dense_adj, to_networkx

from torch_grama.datasets.audit import known_influence
from torch_grama.datasets.catalogue import find
from torch_grama.datasets.describe import compare
from torch_grama.datasets.ising import couplings, local_fields
from torch_grama.datasets.range_tasks import (
    REACHES,
    TOPOLOGIES,
    VARIANTS,
    best_filter_error,
    generate_barbell,
    generate_range,
    reach_weights,
    task_influence,
)
from torch_grama.datasets.storage import Storage


def test_a_barbell_asks_for_the_mean_of_the_other_clique():
    graph = generate_barbell(5, counts=(1, 1, 1))[0]
    expected = nx.barbell_graph(5, 0)
    assert set(to_networkx(graph, to_undirected=True).edges) == set(expected.edges)
    x, y = graph.x.flatten(), graph.y.flatten()
    assert (x[:5] <= 0).all()
    assert (x[5:] >= 0).all()
    assert float(x.abs().max()) <= 2 * 15**0.5
    assert np.allclose(y[:5], x[5:].mean())
    assert np.allclose(y[5:], x[:5].mean())


@pytest.mark.parametrize("size", [10, 50])
def test_whoever_knows_the_intervals_alone_pays_one(size):
    y = generate_barbell(size, counts=(900, 0, 0)).columns["y"].values.reshape(900, 2, size)
    middle = np.array([1, -1])[:, None] * (3 * size) ** 0.5
    assert float(((y - middle) ** 2).mean()) == pytest.approx(1, rel=0.1)


def regress(columns, y):
    basis = np.stack([column.ravel() for column in columns], axis=1)
    rest = y.ravel() - basis @ np.linalg.lstsq(basis, y.ravel(), rcond=None)[0]
    return float(rest @ rest) / (rest.size - basis.shape[1])


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("topology", ["line", "grid", "ba"])
def test_the_best_filter_has_the_error_of_a_regression(reach, topology):
    graphs = generate_range(reach, topology, 4, counts=(3, 0, 0))
    joined = np.stack([to_dense_adj(graph.edge_index)[0].bool().numpy() for graph in graphs])
    # as many draws as nodes, with a covariance of exactly one
    x = len(joined[0]) ** 0.5 * np.linalg.qr(np.random.RandomState(0).randn(*joined[0].shape))[0]
    step, states = reach_weights(joined, "power", 1), [np.broadcast_to(x, joined.shape)]
    for _ in range(4):
        states.append(step @ states[-1])
    error = regress(states, reach_weights(joined, reach, 4) @ x)
    assert best_filter_error(joined, reach, 4, "copy") == pytest.approx(error, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("reach", REACHES)
def test_the_best_filter_of_squares_has_the_error_of_a_regression(reach):
    graphs = generate_range(reach, "line", 4, counts=(400, 0, 0))
    x, y = (graphs.columns[name].values.astype(float).reshape(400, -1) for name in "xy")
    joined = to_dense_adj(graphs[0].edge_index).bool().numpy()
    step = reach_weights(joined, "power", 1)[0]
    # what other nodes do not decide is known
    place = np.broadcast_to(np.eye(100)[:, None], (100, 400, 100))
    columns, sums = [*place, *(place * x**2)], (x, x**2)
    for _ in range(4):
        sums = tuple(values @ step for values in sums)
        columns += [x * sums[0], sums[1]]
    # few nodes make the error of a shell: it varies from sample to sample
    error = regress(columns, y)
    assert best_filter_error(joined, reach, 4, "square") == pytest.approx(error, rel=0.15, abs=1e-9)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_range_targets_are_the_sums_of_the_formula(reach, topology, variant):
    graph = generate_range(reach, topology, 3, variant, counts=(2, 0, 0))[1]
    drawn = to_networkx(graph, to_undirected=True)
    x = graph.x.flatten().double().numpy()
    loops = nx.to_numpy_array(drawn, nodelist=range(len(x))) + np.eye(len(x))
    scale = np.diag(loops.sum(axis=1) ** -0.5)
    power = np.linalg.matrix_power(scale @ loops @ scale, 3)
    for node in range(0, len(x), 7):
        hops = nx.single_source_shortest_path_length(drawn, node)
        inside = [j for j, d in hops.items() if (d == 3 if reach == "shell" else d <= 3)]
        weight = power[node] if reach == "power" else np.zeros(len(x))
        if reach != "power" and inside:
            weight[inside] = 1 / len(inside)
        pair = x if variant == "copy" else (x[node] - x) ** 2
        assert float(graph.y[node]) == pytest.approx(float(weight @ pair), abs=1e-5)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_few_nodes_have_nothing_at_ten_hops(topology):
    graphs = generate_range("shell", topology, 10, counts=(40, 0, 0))
    assert float((graphs.columns["y"].values == 0).mean()) < 0.02
    drawn = to_networkx(graphs[0], to_undirected=True)
    if topology in ("er", "ba"):
        assert nx.is_connected(drawn)
        assert nx.is_tree(drawn) == (topology == "ba")
    assert nx.number_of_selfloops(drawn) == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_influence_of_a_task_is_its_derivative(variant):
    x = np.random.RandomState(0).standard_normal((1, 8))
    ring = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))[None]
    ring = (ring == 1) | (ring == 7)
    weights = reach_weights(ring, "shell", 2)[0]

    def targets(values):
        pairs = values if variant == "copy" else (values[:, None] - values) ** 2
        return (weights * pairs).sum(axis=1)

    step = 1e-5 * np.eye(8)
    slope = np.stack([targets(x[0] + h) - targets(x[0] - h) for h in step], axis=1) / 2e-5
    found = task_influence(ring, x, "shell", 2, variant)[0]
    assert np.allclose(found, np.abs(slope), atol=1e-6)


@pytest.mark.parametrize("name", ["barbell-10", "range-ball-line-2", "range-power-line-10-copy"])
def test_statistics_and_seeds(name, tmp_path):
    entry = find(name)
    first, again = (entry.load(Storage(tmp_path)) for _ in range(2))
    other = entry.load(Storage(tmp_path), seed=7)
    assert first.graphs.fingerprint() == again.graphs.fingerprint()
    assert first.graphs.fingerprint() != other.graphs.fingerprint()
    assert not [row for row in compare(first, entry.published) if row.agrees is False]
    assert first.metric.name == "mse"


def test_known_influence_says_how_far_a_task_asks():
    graph = generate_range("shell", "line", 4, "copy", counts=(1, 0, 0))[0]
    found = known_influence("range-shell-line-4-copy")(graph.x, graph.edge_index)
    assert torch.allclose(found @ graph.x.double(), graph.y.double(), atol=1e-5)
    apart = (torch.arange(100)[:, None] - torch.arange(100)).abs()
    assert set(apart[found > 0].tolist()) == {4}
    graph = generate_barbell(5, counts=(1, 0, 0))[0]
    found = known_influence("barbell-5")(graph.x, graph.edge_index)
    assert torch.allclose(found @ graph.x.double(), graph.y.double(), atol=1e-5)
    assert known_influence("cora") is None


def test_known_influence_of_spins():
    spins = np.where(np.random.RandomState(0).random_sample((1, 16, 16)) < 0.5, -1.0, 1.0)
    found = known_influence("ising-16-hard")(torch.from_numpy(spins.reshape(-1, 1)), None).numpy()
    moved = spins.copy()
    moved[0, 3, 4] += 1e-4
    slope = np.subtract(*(local_fields(s, couplings(16, 0.6)) for s in (moved, spins))) / 1e-4
    assert np.allclose(np.abs(slope).reshape(-1), found[:, 3 * 16 + 4], atol=1e-3)
