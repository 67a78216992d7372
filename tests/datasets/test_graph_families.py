import networkx as nx
import numpy as np
import pytest

from torch_grama.datasets import graph_property as families


def _drawn(adjacency):
    assert adjacency.dtype == np.bool_
    assert np.array_equal(adjacency, adjacency.T)
    assert not adjacency.diagonal().any()
    return nx.from_numpy_array(adjacency)


def _random(seed=0):
    return np.random.RandomState(seed)


@pytest.mark.parametrize("size", [25, 29, 30, 34])
def test_fixed_families_have_all_their_nodes_and_edges(size):
    rows = {25: 5, 29: 1, 30: 5, 34: 2}[size]
    columns = size // rows
    edges = {
        families.line: size - 1,
        families.star: size - 1,
        families.grid: rows * (columns - 1) + columns * (rows - 1),
        families.caveman: rows * columns * (columns - 1) // 2,
        families.ladder: 3 * (size // 2) - 2 + size % 2,
    }
    for build, count in edges.items():
        graph = _drawn(build(size, _random()))
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (size, count), build.__name__


@pytest.mark.parametrize("build", [families.caterpillar, families.lobster, families.power_law_tree])
def test_trees_are_trees(build):
    random = _random()
    for size in range(25, 35):
        for _ in range(20):
            assert nx.is_tree(_drawn(build(size, random)))


def _stripped(graph):
    inner = graph.copy()
    inner.remove_nodes_from([node for node, degree in graph.degree() if degree <= 1])
    return inner


def test_caterpillars_and_lobsters_are_a_path_once_stripped():
    random = _random()
    for _ in range(50):
        spine = _stripped(_drawn(families.caterpillar(30, random)))
        assert not spine or max(degree for _, degree in spine.degree()) <= 2
        spine = _stripped(_stripped(_drawn(families.lobster(30, random))))
        assert not spine or max(degree for _, degree in spine.degree()) <= 2


def test_backbone_lengths_are_uniform():
    random = _random()
    # A caterpillar with backbone 1 is a star: 1 of 29 lengths, and length 2 only by chance.
    stars = sum(families.caterpillar(30, random).sum(axis=0).max() == 29 for _ in range(2900))
    assert 60 <= stars <= 145


def test_power_law_degrees_match_those_of_networkx():
    ours, theirs = [], []
    random = _random()
    for seed in range(60):
        ours.append(np.sort(families.power_law_tree(30, random).sum(axis=0))[-3:])
        tree = nx.random_powerlaw_tree(30, seed=seed, tries=10_000)
        theirs.append(sorted(degree for _, degree in tree.degree())[-3:])
    assert np.allclose(np.mean(ours, axis=0), np.mean(theirs, axis=0), rtol=0.2)


def test_a_tree_that_is_not_found(monkeypatch):
    monkeypatch.setattr(families, "_POWER_LAW_TRIES", 0)
    with pytest.raises(RuntimeError, match="0 steps"):
        families.power_law_tree(30, _random())


def test_attachment_grows_from_a_star_and_prefers_high_degrees():
    ours, theirs = [], []
    for seed in range(300):
        m = int(_random(seed).random_sample() * 29) + 1
        graph = _drawn(families.barabasi_albert(30, _random(seed)))
        assert nx.is_connected(graph)
        assert graph.number_of_edges() == m + m * (29 - m)
        ours.append(max(degree for _, degree in graph.degree()))
        twin = nx.barabasi_albert_graph(30, m, seed=seed)
        theirs.append(max(degree for _, degree in twin.degree()))
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.02)


def test_density_of_random_graphs_is_uniform():
    random = _random()
    densities = [families.erdos_renyi(30, random).sum() / (30 * 29) for _ in range(1000)]
    assert np.mean(densities) == pytest.approx(0.5, abs=0.03)
    assert np.var(densities) == pytest.approx(1 / 12, rel=0.15)


def test_noise_follows_the_triangular_law():
    random = _random()
    path = families.line(30, random)
    others = ~path & ~np.eye(30, dtype=bool)
    kept = appeared = 0.0
    rounds = 2000
    for _ in range(rounds):
        noisy = families.toggle_edges(path, random)
        _drawn(noisy)
        kept += noisy[path].mean() / rounds
        appeared += noisy[others].mean() / rounds
    assert kept == pytest.approx(1 - 2 * 0.1**2, abs=0.002)
    threshold = 0.1 * 29 / (435 - 29)
    assert appeared == pytest.approx(2 * threshold**2, rel=0.25)
    # No non-edges: the threshold is 0.9 + 0.1 = 1, and every edge stays.
    dense = ~np.eye(30, dtype=bool)
    assert np.array_equal(families.toggle_edges(dense, random), dense)


def test_families_are_drawn_with_their_probabilities(monkeypatch):
    drawn = []
    clique = ~np.eye(3, dtype=bool)
    recorded = {
        name: (probability, lambda size, random, name=name: drawn.append(name) or clique)
        for name, (probability, _) in families.FAMILIES.items()
    }
    monkeypatch.setattr(families, "FAMILIES", recorded)
    random = _random()
    for _ in range(6_000):
        families.draw_graph(3, random)
    assert sum(probability for probability, _ in recorded.values()) == pytest.approx(1)
    for name, (probability, _) in recorded.items():
        assert drawn.count(name) / len(drawn) == pytest.approx(probability, abs=0.02)


def test_isolated_nodes_are_refused(monkeypatch):
    stars = []
    star = families.star
    only = (1.0, lambda size, random: stars.append(1) or star(size, random))
    monkeypatch.setattr(families, "FAMILIES", {"star": only})
    random = _random()
    assert all(families.draw_graph(30, random).any(axis=0).all() for _ in range(100))
    # A leaf is lost with probability 0.02, so about 0.98**29 = 56 % of the stars survive.
    assert 140 <= len(stars) <= 230
