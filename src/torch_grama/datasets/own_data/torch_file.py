"""A graph or a list of graphs saved with ``torch.save``."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from torch_grama.datasets.errors import DatasetError, UnsafePickleError
from torch_grama.datasets.own_data.graph_parts import (
    check_alike,
    check_edges,
    check_features,
    parts_from_words,
    split_from_parts,
    splits_from_masks,
)
from torch_grama.datasets.own_data.labels import Labels, Where, labels_from_numbers, no_labels
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.parsed import ParsedGraphs
from torch_grama.datasets.raw_arrays import fingerprint
from torch_grama.datasets.splits import Split
from torch_grama.datasets.task_data import Level

_MASKS = ("train_mask", "val_mask", "test_mask")
_KNOWN = {"x", "edge_index", "edge_attr", "edge_weight", "y", "split", "num_nodes", *_MASKS}

Attributes = Mapping[str, object]


def read_torch_file(path: Path, options: Options) -> ParsedGraphs:
    r"""Reads a :class:`~torch_geometric.data.Data`, or a list of them.

    Read are ``x``, ``edge_index`` (as it is: both directions of an undirected edge must be there),
    ``edge_attr``, ``edge_weight`` and ``y``; for one graph also ``train_mask``, ``val_mask`` and
    ``test_mask`` (``[N]`` or ``[N, K]``), for many also ``split`` (train, val or test). Targets
    belong to the nodes where ``y`` has a row a node, to the graphs otherwise. The file is loaded
    with ``weights_only=True``: nothing in it is run.
    """
    attributes = [_attributes(path, item) for item in _items(path, _load(path))]

    def where(graph: int) -> str:
        return f"'{path}'" if len(attributes) == 1 else f"'{path}', graph {graph}"

    graphs = [_graph(found, where(number), options) for number, found in enumerate(attributes)]
    check_alike(graphs, where)
    counts = [graph.num_nodes or 0 for graph in graphs]
    level, labels, place = read_targets(
        [found.get("y") for found in attributes], counts, where, options
    )
    unknown = sorted({name for found in attributes for name in found} - _KNOWN)
    notes = ["The edges were taken as they are stored."]
    if unknown:
        notes.append(f"Attributes that were not read: {', '.join(unknown)}.")
    if graphs[0].get("x") is None:
        notes.append("The nodes have no features: each got the constant 1.")
        for graph, count in zip(graphs, counts, strict=True):
            graph.x = torch.ones(count, 1)
    splits: list[Split] = []
    if not options.targets:
        pass
    elif level == "node" and len(graphs) == 1:
        masks = [attributes[0].get(name) for name in _MASKS]
        if any(mask is not None for mask in masks):
            splits = splits_from_masks(_masks(path, masks), labels, place, f"'{path}'")
    elif level == "graph" and any("split" in found for found in attributes):
        words = [_word(found.get("split", ""), where(n)) for n, found in enumerate(attributes)]
        splits = [split_from_parts(parts_from_words(words, where), labels, where, f"'{path}'")]
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


def _load(path: Path) -> object:
    # Leaving the block takes its names away again, so those that PyG has allowed for its own
    # caches must not be among them.
    allowed = torch.serialization.get_safe_globals()
    needed = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    try:
        with torch.serialization.safe_globals([name for name in needed if name not in allowed]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error)) or re.search(r"class (\S+)", str(error))
        if named is None:
            raise _broken(path, error) from error
        raise UnsafePickleError(
            f"'{path}' is refused because it holds '{named[1]}', which graphs do not need: save a "
            f"torch_geometric Data, or a list of them, with tensors only."
        ) from error
    except Exception as error:  # torch raises nearly every type on garbage
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> DatasetError:
    reason = str(error).splitlines()[0][:200] if str(error) else "no reason given"
    return DatasetError(
        f"'{path}' is not a whole file of torch.save ({type(error).__name__}: {reason}): save it "
        f"again."
    )


def _items(path: Path, loaded: object) -> Sequence[object]:
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


def _attributes(path: Path, item: object) -> Attributes:
    """The stored attributes, without running code on a state that came from the file."""
    store = getattr(item, "__dict__", {}).get("_store")
    mapping = getattr(store, "__dict__", {}).get("_mapping")
    if not isinstance(store, GlobalStorage) or not isinstance(mapping, dict):
        raise DatasetError(f"'{path}' holds a graph of unknown make: save it again.")
    return {str(name): value for name, value in mapping.items() if value is not None}


def _graph(found: Attributes, where: str, options: Options) -> Data:
    edge_index = as_array(found.get("edge_index"), where, "edge_index")
    count = _count_nodes(found, where)
    ends = check_edges(
        edge_index.T, count, lambda edge: f"{where}, column {edge} of 'edge_index'", where
    )
    num_edges = ends.shape[1]
    data = Data(edge_index=torch.from_numpy(ends), num_nodes=count)
    for name, what, rows in (("x", "node", count), ("edge_attr", "edge", num_edges)):
        if name in found:
            values = as_array(found[name], where, name)
            if not values.ndim or len(values) != rows:
                raise _misfit(where, name, values, rows)
            place = _place(where, what)
            data[name] = check_features(values, (), place, options)
    if "x" in found:
        del data.num_nodes
    if "edge_weight" in found:
        weight = as_array(found["edge_weight"], where, "edge_weight")
        if weight.shape != (num_edges,):
            raise _misfit(where, "edge_weight", weight, num_edges)
        data.edge_weight = check_features(weight, (), _place(where, "edge"), Options())[:, 0]
    return data


def _place(where: str, what: str) -> Where:
    return lambda row: f"{where}, {what} {row}"


def _count_nodes(found: Attributes, where: str) -> int:
    if "x" in found:
        values = as_array(found["x"], where, "x")
        count = len(values) if values.ndim else 0
    else:
        stated = found.get("num_nodes")
        if type(stated) is not int:
            raise DatasetError(f"{where} has neither 'x' nor 'num_nodes': save one of them.")
        count = stated
    if not 0 < count < 2**31:
        raise DatasetError(f"{where} has {count} nodes: every graph needs at least one.")
    return count


def _masks(path: Path, masks: Sequence[object]) -> list[NDArray[np.generic]]:
    arrays = []
    for name, mask in zip(_MASKS, masks, strict=True):
        array = as_array(mask, f"'{path}'", name)
        arrays.append(np.atleast_2d(array.T))
    return arrays


def _word(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise DatasetError(f"{where} has a 'split' that is no word: write train, val or test.")
    return value


def _misfit(where: str, name: str, values: NDArray[np.generic], rows: int) -> DatasetError:
    return DatasetError(
        f"{where} has '{name}' of the shape {tuple(values.shape)} where {rows} rows are needed: "
        f"correct it."
    )


def read_targets(
    stored: Sequence[object], counts: Sequence[int], where: Where, options: Options
) -> tuple[Level, Labels, Where]:
    r"""Reads the attribute ``y`` of all graphs."""
    if not options.targets:
        level = options.level or _guess(False, counts)
        return level, no_labels(sum(counts) if level == "node" else len(counts), options), where
    arrays = [
        None if y is None else as_array(y, where(number), "y") for number, y in enumerate(stored)
    ]
    present = [number for number, array in enumerate(arrays) if array is not None]
    if not present:
        raise DatasetError(f"{where(0)} has no 'y': store the targets there.")
    per_node = all(
        array is None or (array.ndim > 0 and len(array) == count)
        for array, count in zip(arrays, counts, strict=True)
    )
    level = options.level or _guess(per_node, counts)
    if level == "node":
        if not per_node or len(present) < len(arrays):
            odd = next(
                number
                for number, (array, count) in enumerate(zip(arrays, counts, strict=True))
                if array is None or not array.ndim or len(array) != count
            )
            raise DatasetError(
                f"{where(odd)} has no row of 'y' for each of its {counts[odd]} nodes: store one "
                f"row a node, or ask for level 'graph'."
            )
        rows = [array for array in arrays if array is not None]
        starts = np.concatenate([[0], np.cumsum(counts)])

        def node_place(item: int) -> str:
            graph = int(np.searchsorted(starts, item, side="right")) - 1
            return f"{where(graph)}, node {item - starts[graph]}"

        _check_alike(rows, present, where)
        labels = labels_from_numbers(np.concatenate(rows), node_place, options)
        if len(counts) > 1:  # whole graphs are split, so each of their nodes is learnt from
            for item in np.flatnonzero(~labels.labelled)[:1]:
                raise DatasetError(
                    f"{node_place(int(item))} has no label: label every node where there are "
                    f"several graphs."
                )
        return "node", labels, node_place
    return "graph", labels_from_numbers(_one_row_each(arrays, where), where, options), where


def _guess(per_node: bool, counts: Sequence[int]) -> Level:
    if len(counts) == 1:
        return "node"
    return "node" if per_node and max(counts) > 1 else "graph"


def _one_row_each(
    arrays: Sequence[NDArray[np.generic] | None], where: Where
) -> NDArray[np.generic]:
    rows, numbers = [], []
    for number, array in enumerate(arrays):
        if array is None:
            continue
        row = array.reshape(1, -1)
        if array.ndim > 2 or (array.ndim == 2 and len(array) != 1) or not row.shape[1]:
            raise DatasetError(
                f"{where(number)} has 'y' of the shape {tuple(array.shape)}, which is no target of "
                f"a graph: store a number or one row, or ask for level 'node'."
            )
        rows.append(row)
        numbers.append(number)
    _check_alike(rows, numbers, where)
    joined = np.concatenate(rows)
    integers = joined.dtype.kind in "biu"
    scalar = joined.shape[1] == 1
    table = np.full((len(arrays), joined.shape[1]), np.nan)
    if integers and scalar:
        whole = np.full((len(arrays), 1), -1, dtype=np.int64)
        whole[numbers] = joined
        return whole
    table[numbers] = joined
    return table


def _check_alike(rows: Sequence[NDArray[np.generic]], numbers: Sequence[int], where: Where) -> None:
    for row, number in zip(rows, numbers, strict=True):
        if row.shape[1:] != rows[0].shape[1:] or row.dtype.kind != rows[0].dtype.kind:
            raise DatasetError(
                f"{where(number)} has 'y' of {row.dtype} with {row.shape[1:]} columns where "
                f"{where(numbers[0])} has {rows[0].dtype} with {rows[0].shape[1:]}: store the same "
                f"kind of target in all graphs."
            )


def as_array(value: object, where: str, name: str) -> NDArray[np.generic]:
    r"""Returns the numbers of a dense tensor."""
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
    array: NDArray[np.generic] = (value.double() if value.is_floating_point() else value).numpy()
    return array
