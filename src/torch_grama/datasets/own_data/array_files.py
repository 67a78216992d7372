"""Arrays of numpy in an ``.npz`` file, and graphs saved with ``torch.save``."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from torch_grama.datasets.errors import DatasetError, UnsafePickleError
from torch_grama.datasets.options import Options
from torch_grama.datasets.own_data.graph_parts import (
    CONSTANT_NOTE,
    NODE_BYTES,
    ParsedGraphs,
    check_alike,
    check_node_level,
    direction_note,
    make_graph,
    split_from_words,
    splits_from_masks,
)
from torch_grama.datasets.own_data.labels import Labels, Where, labels_from_numbers
from torch_grama.datasets.raw_arrays import Array, check_size, fingerprint, whole_file
from torch_grama.datasets.task_data import Fold, Level

_ARRAYS = ("node_features", "node_labels", "edges")
_NPZ_MASKS = ("train_masks", "val_masks", "test_masks")
_MASKS = ("train_mask", "val_mask", "test_mask")
# what an array takes, under its old and its new name; there is no code in it
_MAKE_ARRAY = np.ndarray(0).__reduce__()[0]
_NUMPY_NAMES: list[Any] = [
    *(np.ndarray, np.dtype, *{type(np.dtype(code)) for code in "?bhilBHILefd"}),
    (_MAKE_ARRAY, "numpy.core.multiarray._reconstruct"),
    (_MAKE_ARRAY, "numpy._core.multiarray._reconstruct"),
]
_KNOWN = {"x", "edge_index", "edge_attr", "edge_weight", "y", "num_nodes"}


def read_npz_file(path: Path, options: Options) -> ParsedGraphs:
    r"""Reads one graph whose nodes carry the target, in the layout of the heterophilous benchmark.

    The arrays are ``node_features`` ``[N, F]``, ``node_labels`` ``[N]`` (class numbers, -1 for a
    node without label; other numbers are quantities) or ``[N, T]``, ``edges`` ``[E, 2]``, and
    optionally ``train_masks``, ``val_masks`` and ``test_masks`` ``[K, N]`` or ``[N]``. Pickled
    objects are not read.
    """
    check_node_level(f"'{path}'", options)
    arrays = _load_npz(path)
    for name in _ARRAYS:
        if name not in arrays and (options.targets or name != "node_labels"):
            found = ", ".join(f"'{other}'" for other in arrays) or "nothing"
            raise DatasetError(f"'{path}' has no array '{name}', only {found}: add it.")
    x = arrays["node_features"]
    count = len(x) if x.ndim else 0
    if not count:
        raise DatasetError(f"'{path}' has no nodes: 'node_features' needs one row per node.")

    def where(node: int) -> str:
        return f"'{path}', node {node}"

    edges = arrays["edges"], "row {} of 'edges'"
    data, listed = make_graph(f"'{path}'", x, count, edges, options)
    labels, splits = None, []
    if options.targets:
        shape = tuple(arrays["node_labels"].shape)
        if shape[:1] != (count,):
            raise DatasetError(
                f"'{path}' has {count} rows of 'node_features' but labels of the shape {shape}: "
                f"store one label per node."
            )
        labels = labels_from_numbers(arrays["node_labels"], where, options)
        missing = [name for name in _NPZ_MASKS if name not in arrays]
        if 0 < len(missing) < 3:
            raise DatasetError(
                f"'{path}' has no array '{missing[0]}' beside the other masks: add it, or remove "
                f"all three to have a split made."
            )
        if not missing:
            masks = [np.atleast_2d(arrays[name]) for name in _NPZ_MASKS]
            splits = splits_from_masks(masks, labels, where, f"'{path}'")
    return ParsedGraphs(
        path=path,
        graphs=[data],
        level="node",
        labels=labels,
        splits=splits,
        identity=fingerprint(["nodes", listed, np.array(count)]),
        notes=(
            direction_note(f"'{path.name}'", data.num_edges - listed.shape[1], options.directed),
        ),
    )


def _load_npz(path: Path) -> dict[str, Array]:
    check_size(path)
    with whole_file(path, "npz file of plain arrays", "store it again with numpy.savez"):
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile) or archive.zip is None:
            raise DatasetError(f"'{path}' holds one array: store several with numpy.savez.")
        with archive:
            check_size(path, sum(member.file_size for member in archive.zip.infolist()))
            arrays = {name: archive[name] for name in (*_ARRAYS, *_NPZ_MASKS) if name in archive}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("a member is no array")
    return arrays


def read_torch_file(path: Path, options: Options) -> ParsedGraphs:
    r"""Reads a :class:`~torch_geometric.data.Data`, or a list of them.

    Read are ``x``, ``edge_index`` (as it is: both directions of an undirected edge must be there),
    ``edge_attr``, ``edge_weight`` and ``y``; for one graph also ``train_mask``, ``val_mask`` and
    ``test_mask`` (``[N]`` or ``[N, K]``), for many also ``split`` (train, val or test). Targets
    belong to the nodes where ``y`` has a row per node, to the graphs otherwise. The file is loaded
    with ``weights_only=True``: nothing in it is run.
    """
    stored = [_attributes(path, item) for item in load_graphs(path)]
    check_size(path, sum(map(_nbytes, stored)))

    def where(graph: int) -> str:
        return f"'{path}'" if len(stored) == 1 else f"'{path}', graph {graph}"

    graphs = [_graph(found, where(number), options) for number, found in enumerate(stored)]
    for odd in (n for n, found in enumerate(stored) if ("x" in found) != ("x" in stored[0])):
        raise DatasetError(
            f"{where(odd)} differs from {where(0)} in 'x': give features to all graphs or to none."
        )
    check_alike(graphs, where)
    counts = [graph.num_nodes or 0 for graph in graphs]
    level, labels, place = _read_targets(stored, counts, where, options)
    notes = ["The edges were taken as they are stored."]
    by_mask = level == "node" and len(graphs) == 1
    stated = _MASKS if by_mask else ("split",)
    unknown = sorted({name for found in stored for name in found} - _KNOWN.union(stated))
    if unknown:
        notes.append(f"Attributes that were not read: {', '.join(unknown)}.")
    if "x" not in stored[0]:
        notes.append(CONSTANT_NOTE)
    splits: list[Fold] = []
    if labels is not None and any(name in found for found in stored for name in stated):
        if by_mask:
            masks = [np.atleast_2d(_array(stored[0], name, f"'{path}'").T) for name in _MASKS]
            splits = splits_from_masks(masks, labels, place, f"'{path}'")
        else:
            words = [found.get("split") for found in stored]
            whole = np.ones(len(graphs), dtype=bool)  # each of their nodes has a label
            labelled = labels.labelled if level == "graph" else whole
            splits = [split_from_words(words, labelled, where, f"'{path}'")]
    return ParsedGraphs(
        path=path,
        graphs=graphs,
        level=level,
        labels=labels,
        splits=splits,
        identity=fingerprint(
            ["graphs", np.array(counts), *(graph["edge_index"].numpy() for graph in graphs)]
        ),
        notes=tuple(notes),
    )


def load_graphs(path: Path) -> Sequence[Data]:
    r"""Loads a graph, or a list of them, as saved with :func:`torch.save`; nothing in it is run."""
    loaded = _load_torch(path)
    if isinstance(loaded, Data):
        return [loaded]
    if isinstance(loaded, list | tuple) and all(isinstance(item, Data) for item in loaded):
        if loaded:
            return loaded
        raise DatasetError(f"'{path}' holds an empty list: save at least one graph.")
    inside = ""
    if isinstance(loaded, tuple) and any(isinstance(item, Data | dict) for item in loaded):
        inside = ", probably the processed file of a data set: save list(dataset) instead"
    raise DatasetError(
        f"'{path}' holds a {type(loaded).__name__}{inside}: save a torch_geometric Data or a list "
        f"of them."
    )


def _load_torch(path: Path) -> object:
    # Leaving the block takes its names away again, so those that PyG has allowed for its own
    # caches must not be among them.
    check_size(path)
    allowed = torch.serialization.get_safe_globals()
    needed = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, *_NUMPY_NAMES]
    with whole_file(path, "file of torch.save", "save it again"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                check_size(path, sum(member.file_size for member in archive.infolist()))
        try:
            with torch.serialization.safe_globals([n for n in needed if n not in allowed]):
                return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            named = re.search(r"(?:GLOBAL|class) (\S+)", str(error))
            if named is None:
                raise
            raise UnsafePickleError(
                f"'{path}' is refused because it holds '{named[1]}', which graphs do not need: "
                f"save a torch_geometric Data, or a list of them, with tensors only."
            ) from error


def _attributes(path: Path, item: object) -> Mapping[str, object]:
    """The stored attributes, without running code on a state that came from the file."""
    store = getattr(item, "__dict__", {}).get("_store")
    mapping = getattr(store, "__dict__", {}).get("_mapping")
    if not isinstance(store, GlobalStorage) or not isinstance(mapping, dict):
        raise DatasetError(f"'{path}' holds a graph of unknown make: save it again.")
    return {str(name): value for name, value in mapping.items() if value is not None}


def _nbytes(found: Mapping[str, object]) -> int:
    """Bytes that a graph becomes, however few of them are stored."""
    count = 0 if "x" in found else found.get("num_nodes")
    tensors = [value for value in found.values() if isinstance(value, Tensor)]
    return sum(value.numel() * value.element_size() for value in tensors) + (
        NODE_BYTES * count if type(count) is int and 0 < count < 2**31 else 0
    )


def _array(found: Mapping[str, object], name: str, where: str) -> Array:
    value = found.get(name)
    if (
        not isinstance(value, Tensor)
        or value.layout != torch.strided
        or value.device.type != "cpu"
        or value.is_quantized
        or value.is_complex()
    ):
        raise DatasetError(
            f"{where} has no '{name}' that is a dense tensor of numbers (it is "
            f"{'missing' if value is None else type(value).__name__}): save it as one."
        )
    value = value.detach()
    array: Array = (value.double() if value.is_floating_point() else value).numpy()
    return array


def _graph(found: Mapping[str, object], where: str, options: Options) -> Data:
    edge_index = _array(found, "edge_index", where)
    wanted = [name for name in ("x", "edge_attr", "edge_weight") if name in found]
    arrays = {name: _array(found, name, where) for name in wanted}
    x = arrays.pop("x", None)
    count = found.get("num_nodes") if x is None else len(x) if x.ndim else 0
    if type(count) is not int:
        raise DatasetError(f"{where} has neither 'x' nor 'num_nodes': save one of them.")
    if not 0 < count < 2**31:
        raise DatasetError(f"{where} has {count} nodes: every graph needs at least one.")
    edges = edge_index.T, "column {} of 'edge_index'"
    return make_graph(where, x, count, edges, replace(options, directed=True), **arrays)[0]


def _read_targets(
    stored: Sequence[Mapping[str, object]], counts: Sequence[int], where: Where, options: Options
) -> tuple[Level, Labels | None, Where]:
    """The attribute ``y`` of all graphs: whose it is, what it says, and where each item lies."""
    single = len(counts) == 1
    level: Level = options.level or ("node" if single else "graph")
    if not options.targets:
        return level, None, where
    given = [number for number, found in enumerate(stored) if "y" in found]
    arrays = {number: _array(stored[number], "y", where(number)) for number in given}
    if not arrays:
        raise DatasetError(f"{where(0)} has no 'y': store the targets there.")
    misfits = {number for number, y in arrays.items() if y.shape[:1] != (counts[number],)}
    if options.level is None and not misfits and max(counts) > 1:
        level = "node"
    if level == "graph":
        rows = _one_row_each(arrays, len(counts), where)
        return "graph", labels_from_numbers(rows, where, options), where
    for odd in sorted(misfits | set(range(len(stored))) - set(arrays)):
        raise DatasetError(
            f"{where(odd)} has no row of 'y' for each of its {counts[odd]} nodes: store one row a "
            f"node, or ask for level 'graph'."
        )
    starts = np.concatenate([[0], np.cumsum(counts)])

    def node_place(item: int) -> str:
        graph = int(np.searchsorted(starts, item, side="right")) - 1
        return f"{where(graph)}, node {item - starts[graph]}"

    _check_alike(arrays, where)
    labels = labels_from_numbers(np.concatenate(list(arrays.values())), node_place, options)
    if not single:  # whole graphs are split, so each of their nodes is learnt from
        for item in np.flatnonzero(~labels.labelled)[:1]:
            raise DatasetError(
                f"{node_place(int(item))} has no label: label every node where there are several "
                f"graphs."
            )
    return "node", labels, node_place


def _one_row_each(arrays: Mapping[int, Array], num_graphs: int, where: Where) -> Array:
    """One row per graph; those without target get -1 among whole numbers, NaN among others."""
    rows = {}
    for number, array in arrays.items():
        if array.ndim > 2 or (array.ndim == 2 and len(array) != 1) or not array.size:
            raise DatasetError(
                f"{where(number)} has 'y' of the shape {tuple(array.shape)}, which is no target of "
                f"a graph: store a number or one row, or ask for level 'node'."
            )
        rows[number] = array.reshape(1, -1)
    _check_alike(rows, where)
    joined = np.concatenate(list(rows.values()))
    whole = joined.dtype.kind in "biu" and joined.shape[1] == 1
    missing = np.int64(-1) if whole else np.float64(np.nan)
    table = np.full((num_graphs, joined.shape[1]), missing)
    table[list(rows)] = joined
    return table


def _check_alike(rows: Mapping[int, Array], where: Where) -> None:
    first = min(rows)
    for number, row in rows.items():
        if (row.shape[1:], row.dtype.kind) != (rows[first].shape[1:], rows[first].dtype.kind):
            raise DatasetError(
                f"{where(number)} has 'y' of {row.dtype} with {row.shape[1:]} columns where "
                f"{where(first)} has {rows[first].dtype} with {rows[first].shape[1:]}: store the "
                f"same kind of target in all graphs."
            )
