"""Edges as users list them, turned into the edges of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.labels import Where


@dataclass(frozen=True)
class Edges:
    r"""The directed entries of a graph.

    Attributes:
        index: Source and target of each entry ``[2, E]``.
        rows: The listed edge behind each entry ``[E]``; features and weights are taken from it.
        num_added: How many entries were added as the reverse of a listed edge.
    """

    index: NDArray[np.int64]
    rows: NDArray[np.int64]
    num_added: int


def check_edges(
    pairs: NDArray[np.generic], num_nodes: int, where: Where, source: str
) -> NDArray[np.int64]:
    r"""Turns pairs of node numbers into sources and targets.

    Args:
        pairs (ndarray): One pair an edge ``[M, 2]``; may be empty in any shape.
        num_nodes (int): Number of nodes.
        where (callable): Says where an edge lies.
        source (str): What lists them, for an error.

    Returns:
        Sources and targets ``[2, M]``.

    Raises:
        DatasetError: There is something else than pairs, or a node that does not exist.
    """
    if not pairs.size:
        return np.zeros((2, 0), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DatasetError(
            f"{source} lists edges as {pairs.dtype} of the shape {tuple(pairs.shape)}: store a "
            f"pair of node numbers an edge."
        )
    numbers = pairs.astype(np.int64)
    for edge, end in np.argwhere((numbers < 0) | (numbers >= num_nodes))[:1]:
        raise DatasetError(
            f"{where(int(edge))} names the node {pairs[edge, end]}, but the nodes are 0 to "
            f"{num_nodes - 1}: correct or remove the edge."
        )
    return np.ascontiguousarray(numbers.T)


def complete_edges(listed: NDArray[np.int64], num_nodes: int, directed: bool) -> Edges:
    r"""Adds to every listed edge its reverse, unless the reverse is listed as well.

    So a list that names each undirected edge once and a list that names it in both directions
    give the same graph. Entries keep the order of the list, followed by the added ones.

    Args:
        listed (ndarray): Source and target of the listed edges ``[2, M]``.
        num_nodes (int): Number of nodes.
        directed (bool): Whether to take the list as it is.

    Returns:
        The entries.
    """
    rows = np.arange(listed.shape[1], dtype=np.int64)
    if directed:
        return Edges(listed, rows, 0)
    source, target = listed
    forward = source * num_nodes + target
    backward = target * num_nodes + source
    missing = np.flatnonzero(~contains(forward, backward))
    index = np.concatenate([listed, listed[::-1, missing]], axis=1)
    return Edges(index, np.concatenate([rows, missing]), len(missing))


def contains(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    r"""Says for each wanted key whether it is among the keys.

    Args:
        keys (ndarray): The keys, in any order.
        wanted (ndarray): Those to look for.
    """
    found = np.zeros(len(wanted), dtype=bool)
    if len(keys):
        ordered = np.sort(keys)
        order = np.argsort(wanted)  # a search in ascending order stays in the cache
        position = np.searchsorted(ordered, wanted[order]).clip(max=len(ordered) - 1)
        found[order] = ordered[position] == wanted[order]
    return found


def direction_note(source: str, num_added: int, directed: bool) -> str:
    r"""Says how the edges were taken.

    Args:
        source (str): What lists them.
        num_added (int): How many entries were added as the reverse of a listed edge.
        directed (bool): Whether the list was taken as it is.
    """
    if directed:
        return f"The edges of {source} were taken as directed."
    if num_added:
        return (
            f"The edges of {source} were taken as undirected: the reverse of {num_added:,} of them "
            f"was added."
        )
    return f"Every edge of {source} is listed in both directions and was taken as it is."
