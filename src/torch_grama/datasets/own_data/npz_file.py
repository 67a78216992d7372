"""An ``.npz`` file in the layout of the heterophilous benchmark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.graph_parts import (
    check_edges,
    check_features,
    check_node_level,
    complete_edges,
    direction_note,
    splits_from_masks,
)
from torch_grama.datasets.own_data.labels import Labels, Where, labels_from_numbers, no_labels
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.parsed import ParsedGraphs
from torch_grama.datasets.raw_arrays import fingerprint
from torch_grama.datasets.splits import Split

_REQUIRED = ("node_features", "node_labels", "edges")
_MASKS = ("train_masks", "val_masks", "test_masks")

Arrays = dict[str, NDArray[np.generic]]


def read_npz_file(path: Path, options: Options) -> ParsedGraphs:
    r"""Reads one graph whose nodes carry the target.

    The arrays are ``node_features`` ``[N, F]``, ``node_labels`` ``[N]`` (class numbers, -1 for a
    node without label; other numbers are quantities) or ``[N, T]``, ``edges`` ``[E, 2]``, and
    optionally ``train_masks``, ``val_masks`` and ``test_masks`` ``[K, N]`` or ``[N]``. Pickled
    objects are not read.
    """
    check_node_level(path, options)
    arrays = _load(path)
    for name in _REQUIRED:
        if name not in arrays and (options.targets or name != "node_labels"):
            found = ", ".join(f"'{other}'" for other in arrays) or "nothing"
            raise DatasetError(f"'{path}' has no array '{name}', only {found}: add it.")
    features, raw_labels = arrays["node_features"], arrays.get("node_labels")
    count = len(features) if features.ndim else 0
    if not count:
        raise DatasetError(f"'{path}' has no nodes: 'node_features' needs one row a node.")
    if raw_labels is None or not options.targets:
        raw_labels = None
    elif not raw_labels.ndim or len(raw_labels) != count:
        raise DatasetError(
            f"'{path}' has {count} rows of 'node_features' but labels of the shape "
            f"{tuple(raw_labels.shape)}: store one label a node."
        )

    def where(node: int) -> str:
        return f"'{path}', node {node}"

    x = check_features(features, (), where, options)
    if raw_labels is None:
        labels = no_labels(count, options)
    else:
        labels = labels_from_numbers(raw_labels, where, options)
    pairs = check_edges(
        arrays["edges"], count, lambda edge: f"'{path}', row {edge} of 'edges'", f"'{path}'"
    )
    edges = complete_edges(pairs, count, options.directed)
    return ParsedGraphs(
        path=path,
        graphs=[Data(x=x, edge_index=torch.from_numpy(edges.index))],
        level="node",
        labels=labels,
        splits=_splits(path, arrays, labels, where) if options.targets else [],
        identity=fingerprint(["nodes", pairs, np.array(count)]),
        notes=(direction_note(f"'{path.name}'", edges.num_added, options.directed),),
    )


def _load(path: Path) -> Arrays:
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DatasetError(f"'{path}' holds one array: store several with numpy.savez.")
        with archive:
            arrays = {name: archive[name] for name in (*_REQUIRED, *_MASKS) if name in archive}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("a member is no array")
        return arrays
    except DatasetError:
        raise
    except Exception as error:  # numpy and zipfile raise nearly every type on garbage
        raise DatasetError(
            f"'{path}' is not a whole npz file of plain arrays ({type(error).__name__}: {error}): "
            f"store it again with numpy.savez."
        ) from error


def _splits(path: Path, arrays: Arrays, labels: Labels, where: Where) -> list[Split]:
    missing = [name for name in _MASKS if name not in arrays]
    if len(missing) == len(_MASKS):
        return []
    if missing:
        raise DatasetError(
            f"'{path}' has no array '{missing[0]}' beside the other masks: add it, or remove all "
            f"three to have a split made."
        )
    masks = [np.atleast_2d(arrays[name]) for name in _MASKS]
    return splits_from_masks(masks, labels, where, f"'{path}'")
