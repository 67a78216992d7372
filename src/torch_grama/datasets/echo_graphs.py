"""Random graphs of six kinds with a set diameter, as the ECHO benchmark describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

Pairs = NDArray[np.int64]  # [2, E], every edge once
Random = np.random.RandomState
Distances = NDArray[np.int64]  # [N, N]

_SHORTCUT_CHANCE = 0.2
_SHORTCUTS = (2, 7)  # hops that a shortcut of a line spans: 2 to 6
_REMOVED_SHARE = 0.2
_GRID_ROWS = (3, 7)


def line(diameter: int, random: Random) -> Pairs:
    r"""A path in which a node has, with a chance of 20 %, one more edge, 2 to 6 hops back.

    The path grows node by node until its diameter is the one asked for; a new node lengthens it by
    one at most, so no value is jumped over.
    """
    most = 12 * diameter
    distance = np.zeros((most, most), dtype=np.int16)
    edges: list[tuple[int, int]] = []
    for new in range(1, most):
        old = distance[:new, :new]
        to_new = old[new - 1] + 1
        edges.append((new - 1, new))
        span = int(random.randint(*_SHORTCUTS))
        if random.random_sample() < _SHORTCUT_CHANCE and span <= new:
            edges.append((new - span, new))
            to_new = np.minimum(to_new, old[new - span] + 1)
            np.minimum(old, to_new[:, None] + to_new, out=old)
        distance[new, :new] = distance[:new, new] = to_new
        if int(to_new.max()) == diameter and int(distance[: new + 1, : new + 1].max()) == diameter:
            return np.array(edges).T
    raise RuntimeError(f"Found no line of diameter {diameter} in {most} steps")


def ladder(diameter: int, random: Random) -> Pairs:
    r"""Two rails of as many nodes as the diameter says, joined by rungs."""
    first = np.arange(diameter)
    rails = [np.stack([start + first[:-1], start + first[1:]]) for start in (0, diameter)]
    return np.concatenate([*rails, np.stack([first, first + diameter])], axis=1)


def grid(diameter: int, random: Random) -> Pairs:
    r"""A grid of 3 to 6 rows without 20 % of its edges; of the pieces, the largest.

    What is removed decides the diameter, so it is only near the one asked for.
    """
    rows = int(random.randint(*_GRID_ROWS))
    columns = diameter + 2 - rows - int(random.randint(0, 1 + diameter // 5))
    place = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()])
    pairs = np.concatenate([across, np.stack([place[:-1].ravel(), place[1:].ravel()])], axis=1)
    removed = random.permutation(pairs.shape[1])[: round(_REMOVED_SHARE * pairs.shape[1])]
    pairs = np.delete(pairs, removed, axis=1)
    _, piece = connected_components(_matrix(pairs, place.size), directed=False)
    inside = piece == np.bincount(piece).argmax()
    return np.asarray((np.cumsum(inside) - 1)[pairs[:, inside[pairs[0]]]])


def tree(diameter: int, random: Random) -> Pairs:
    r"""A tree by preferential attachment (degrees with exponent 3) around a longest path."""
    return _hang(diameter, random, deepest=diameter, by_degree=True)


def caterpillar(diameter: int, random: Random) -> Pairs:
    r"""A path with leaves."""
    return _hang(diameter, random, deepest=1)


def lobster(diameter: int, random: Random) -> Pairs:
    r"""A path with branches of one or two nodes."""
    return _hang(diameter, random, deepest=2)


KINDS: dict[str, Callable[[int, Random], Pairs]] = {
    "line": line,
    "ladder": ladder,
    "grid": grid,
    "tree": tree,
    "caterpillar": caterpillar,
    "lobster": lobster,
}
"""The kinds of graphs; all but the grid have the very diameter that is asked for."""


def draw_graphs(
    kind: str, diameters: range, copies: int, random: Random
) -> Iterator[tuple[Pairs, Distances]]:
    r"""Draws the same number of graphs of each diameter, one diameter after another.

    Nodes come in random order. A graph whose diameter is not the one asked for goes to those of
    its own diameter, if there are not enough of them yet.
    """
    found: dict[int, list[tuple[Pairs, Distances]]] = {diameter: [] for diameter in diameters}
    for diameter, graphs in found.items():
        while len(graphs) < copies:
            pairs = KINDS[kind](diameter, random)
            size = int(pairs.max()) + 1
            pairs = random.permutation(size)[pairs]
            hops = distances(pairs, size)
            place = found.get(int(hops.max()))
            if place is not None and len(place) < copies:
                place.append((pairs, hops))
        yield from graphs


def distances(pairs: Pairs, size: int) -> Distances:
    r"""Hops between all nodes of a connected graph."""
    hops = shortest_path(_matrix(pairs, size), method="D", directed=False, unweighted=True)
    return np.asarray(hops, dtype=np.int64)


def _matrix(pairs: Pairs, size: int) -> csr_array:
    return csr_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(size, size))


def _hang(diameter: int, random: Random, deepest: int, by_degree: bool = False) -> Pairs:
    """Hangs half to twice as many nodes on a path, none of which makes a longer one."""
    path = np.arange(diameter + 1)
    extra = int(random.randint(diameter // 2, 2 * diameter + 1))
    size = diameter + 1 + extra
    # how many more nodes may hang below each node
    room = np.zeros(size, dtype=np.int64)
    room[: diameter + 1] = np.minimum(np.minimum(path, diameter - path), deepest)
    degree = np.full(size, 1, dtype=np.int64)
    degree[1:diameter] = 2
    parents = np.empty(extra, dtype=np.int64)
    for number in range(extra):
        new = diameter + 1 + number
        weight = (degree[:new] if by_degree else 1) * (room[:new] > 0)
        ends = np.cumsum(weight)
        parent = int(np.searchsorted(ends, random.randint(0, int(ends[-1])), side="right"))
        parents[number] = parent
        room[new] = room[parent] - 1
        degree[parent] += 1
    return np.concatenate(
        [
            np.stack([path[:-1], path[1:]]),
            np.stack([parents, diameter + 1 + np.arange(extra)]),
        ],
        axis=1,
    )
