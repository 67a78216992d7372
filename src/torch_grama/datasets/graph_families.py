"""Random graphs of ten families, as the multitask benchmark of PNA mixes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Adjacency: TypeAlias = NDArray[np.bool_]
Random: TypeAlias = np.random.RandomState

_POWER_LAW_EXPONENT = 3
_POWER_LAW_TRIES = 10_000


def erdos_renyi(num_nodes: int, random: Random) -> Adjacency:
    r"""Every pair is an edge with one probability, itself :math:`U[0, 1)`."""
    probability = random.random_sample()
    draws = random.random_sample((num_nodes, num_nodes))
    return _mirror(np.triu(draws < probability, k=1))


def barabasi_albert(num_nodes: int, random: Random) -> Adjacency:
    r"""Preferential attachment of :math:`m = \lfloor u (N - 1) \rfloor + 1` edges per node.

    The growth starts from a star of :math:`m + 1` nodes.
    """
    m = int(random.random_sample() * (num_nodes - 1)) + 1
    adjacency = np.zeros((num_nodes, num_nodes), dtype=bool)
    adjacency[0, 1 : m + 1] = True
    degree = np.zeros(num_nodes)
    degree[0], degree[1 : m + 1] = m, 1
    for new in range(m + 1, num_nodes):
        # m distinct nodes, drawn one after another in proportion to their degree: the m smallest
        # of independent exponential times with the degrees as rates.
        times = -np.log1p(-random.random_sample(new)) / degree[:new]
        chosen = np.argsort(times, kind="stable")[:m]
        adjacency[chosen, new] = True
        degree[chosen] += 1
        degree[new] = m
    return _mirror(adjacency)


def grid(num_nodes: int, random: Random) -> Adjacency:
    r"""A grid as square as the number of nodes allows; a path for a prime."""
    rows = _largest_divisor(num_nodes)
    return _from_networkx(nx.grid_2d_graph(rows, num_nodes // rows))


def caveman(num_nodes: int, random: Random) -> Adjacency:
    r"""Separate cliques, as many as the rows of the grid."""
    cliques = _largest_divisor(num_nodes)
    return _from_networkx(nx.caveman_graph(cliques, num_nodes // cliques))


def power_law_tree(num_nodes: int, random: Random) -> Adjacency:
    r"""A tree whose degrees follow a power law with exponent 3.

    Degrees are rounded Pareto draws; single ones are drawn again until they sum to
    :math:`2 (N - 1)`. The nodes of degree above 1 form a path, in ascending order, and carry the
    leaves, as in networkx.
    """
    degrees = _pareto(num_nodes, num_nodes, random)
    fresh = _pareto(_POWER_LAW_TRIES, num_nodes, random)
    places = random.randint(0, num_nodes, size=_POWER_LAW_TRIES)
    total = int(degrees.sum())
    for place, degree in zip(places.tolist(), fresh.tolist(), strict=True):
        if total == 2 * (num_nodes - 1):
            break
        total += degree - int(degrees[place])
        degrees[place] = degree
    else:
        raise RuntimeError(f"Found no degrees of a tree in {_POWER_LAW_TRIES} steps")
    inner = np.sort(degrees[degrees > 1])
    # Nodes 0 .. k + 1 are the path, its ends being leaves; the other leaves follow.
    adjacency = line(num_nodes, random)
    adjacency[len(inner) + 1 :, len(inner) + 2 :] = False
    adjacency[len(inner) + 2 :, len(inner) + 1 :] = False
    parents = np.repeat(np.arange(1, len(inner) + 1), inner - 2)
    leaves = len(inner) + 2 + np.arange(len(parents))
    adjacency[parents, leaves] = adjacency[leaves, parents] = True
    return adjacency


def ladder(num_nodes: int, random: Random) -> Adjacency:
    r"""Two rails joined by rungs; an odd node is tied to the first."""
    graph = nx.ladder_graph(num_nodes // 2)
    if num_nodes % 2:
        graph.add_edge(0, num_nodes - 1)
    return _from_networkx(graph)


def line(num_nodes: int, random: Random) -> Adjacency:
    r"""A path."""
    return _from_networkx(nx.path_graph(num_nodes))


def star(num_nodes: int, random: Random) -> Adjacency:
    r"""One centre, all others its leaves."""
    return _from_networkx(nx.star_graph(num_nodes - 1))


def caterpillar(num_nodes: int, random: Random) -> Adjacency:
    r"""A path of :math:`B \sim U\{1, \dots, N - 1\}` nodes, the others hanging on it."""
    backbone = int(random.randint(1, num_nodes))
    return _hang(num_nodes, backbone, num_nodes, random)


def lobster(num_nodes: int, random: Random) -> Adjacency:
    r"""A caterpillar of :math:`F \sim U\{B + 1, \dots, N\}` nodes, the others on its leaves."""
    backbone = int(random.randint(1, num_nodes))
    first_ring = int(random.randint(backbone + 1, num_nodes + 1))
    return _hang(num_nodes, backbone, first_ring, random)


FAMILIES: dict[str, tuple[float, Callable[[int, Random], Adjacency]]] = {
    "erdos-renyi": (0.20, erdos_renyi),
    "barabasi-albert": (0.20, barabasi_albert),
    "grid": (0.05, grid),
    "caveman": (0.05, caveman),
    "tree": (0.15, power_law_tree),
    "ladder": (0.05, ladder),
    "line": (0.05, line),
    "star": (0.05, star),
    "caterpillar": (0.10, caterpillar),
    "lobster": (0.10, lobster),
}
"""The families with their probabilities."""


def draw_family(random: Random) -> str:
    r"""Draws the name of a family with its probability."""
    bounds = np.cumsum([probability for probability, _ in FAMILIES.values()])
    place = int(np.searchsorted(bounds, random.random_sample(), side="right"))
    return list(FAMILIES)[min(place, len(FAMILIES) - 1)]


def draw_graph(family: str, num_nodes: int, random: Random) -> Adjacency | None:
    r"""Draws a graph of a family: node order shuffled, edges toggled by noise."""
    adjacency = FAMILIES[family][1](num_nodes, random)
    order = random.permutation(num_nodes)
    noisy = toggle_edges(adjacency[np.ix_(order, order)], random)
    return noisy if bool(noisy.any(axis=0).all()) else None


def toggle_edges(adjacency: Adjacency, random: Random) -> Adjacency:
    r"""Removes some edges and adds others.

    With :math:`e` edges and :math:`r` non-edges, an edge stays if a draw is below :math:`0.9`
    (:math:`0.9 + 0.1 (e - r) / e` where :math:`e > r`) and a non-edge becomes one below
    :math:`0.1\, e / r` (:math:`0.1`). The draws are :math:`U + U^\top` with
    :math:`U \sim U[0, 0.5)`, hence triangular: a threshold :math:`t \le 0.5` is passed with
    probability :math:`2 t^2`, a larger one with :math:`1 - 2 (1 - t)^2`.
    """
    num_nodes = len(adjacency)
    edges = int(adjacency.sum()) // 2
    others = num_nodes * (num_nodes - 1) // 2 - edges
    if edges <= others:
        stay, appear = 0.9, 0.1 * edges / others
    else:
        stay, appear = 0.9 + 0.1 * (edges - others) / edges, 0.1
    half = random.random_sample((num_nodes, num_nodes)) * 0.5
    draws = half + half.T
    result = np.where(adjacency, draws < stay, draws < appear)
    np.fill_diagonal(result, False)
    return result


def _hang(num_nodes: int, backbone: int, first_ring: int, random: Random) -> Adjacency:
    """Nodes up to ``first_ring`` hang on the backbone path, the rest on those."""
    adjacency = np.zeros((num_nodes, num_nodes), dtype=bool)
    path = np.arange(backbone - 1)
    adjacency[path, path + 1] = True
    inner = np.arange(backbone, first_ring)
    adjacency[random.randint(0, backbone, size=len(inner)), inner] = True
    outer = np.arange(first_ring, num_nodes)
    if len(outer):
        adjacency[random.randint(backbone, first_ring, size=len(outer)), outer] = True
    return _mirror(adjacency)


def _pareto(count: int, largest: int, random: Random) -> NDArray[np.int64]:
    draws = (1.0 - random.random_sample(count)) ** (-1.0 / (_POWER_LAW_EXPONENT - 1))
    return np.minimum(np.rint(draws), largest).astype(np.int64)


def _largest_divisor(number: int) -> int:
    """The largest divisor not above the square root."""
    return max(d for d in range(1, int(number**0.5) + 1) if number % d == 0)


def _from_networkx(graph: nx.Graph) -> Adjacency:
    return np.asarray(nx.to_numpy_array(graph, dtype=bool))


def _mirror(upper: Adjacency) -> Adjacency:
    return upper | upper.T
