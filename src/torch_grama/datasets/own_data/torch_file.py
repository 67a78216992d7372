"""A graph or a list of graphs saved with ``torch.save``."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from torch_grama.datasets.errors import DatasetError, UnsafePickleError
from torch_grama.datasets.own_data.dense_tensor import as_array
from torch_grama.datasets.own_data.edges import check_edges
from torch_grama.datasets.own_data.features import check_alike, check_features
from torch_grama.datasets.own_data.labels import Where
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.parsed import ParsedGraphs
from torch_grama.datasets.own_data.stated_splits import (
    parts_from_words,
    split_from_parts,
    splits_from_masks,
)
from torch_grama.datasets.own_data.torch_targets import read_targets
from torch_grama.datasets.split_store import fingerprint
from torch_grama.datasets.splits import Split

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

    Args:
        path (Path): The file.
        options (Options): What the user said.

    Returns:
        The graphs.

    Raises:
        UnsafePickleError: The file holds something other than graphs and tensors.
        DatasetError: The file is broken, or an attribute does not fit the others.
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
        splits_path=path.with_name(f"{path.name}.splits.json"),
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
