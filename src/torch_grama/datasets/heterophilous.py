"""The five heterophilous graphs with their ten official masks."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from torch_grama.datasets.entry import Entry
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import read_npz, reading
from torch_grama.datasets.splits import PARTS, mask_folds
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData


def load_heterophilous(entry: Entry, storage: Storage) -> GraphTaskData:
    """Loads one of the five graphs; an edge is listed once and taken in both directions."""
    _, (path,) = storage.obtain(entry)
    masks = [f"{part}_masks" for part in PARTS]
    arrays = read_npz(path, ("node_features", "node_labels", "edges", *masks))
    with reading(path, "an .npz file of the heterophilous benchmark"):
        x = torch.from_numpy(arrays["node_features"]).float()
        y = torch.from_numpy(arrays["node_labels"]).long()
        edges = torch.from_numpy(arrays["edges"]).long()
        if x.dim() != 2 or y.shape != (len(x),) or edges.dim() != 2 or edges.size(1) != 2:
            shapes = (tuple(array.shape) for array in (x, y, edges))
            raise ValueError("features of shape {}, labels of {}, edges of {}".format(*shapes))
        if not 0 <= int(edges.min()) <= int(edges.max()) < len(x):
            raise ValueError(f"an edge to node {int(edges.max())} of {len(x)}")
        folds = mask_folds([arrays[name] for name in masks], len(x), str(path))
    if not bool(torch.isfinite(x).all()):
        raise DatasetError(f"Expected finite features in '{path}' (got others); fetch it again")
    if not 0 <= int(y.min()) <= int(y.max()) < entry.num_outputs:
        raise DatasetError(
            f"Expected labels from 0 to {entry.num_outputs - 1} in '{path}' (got {int(y.min())} "
            f"to {int(y.max())}); fetch it again"
        )
    edge_index = to_undirected(edges.t().contiguous(), num_nodes=len(x))
    graph = Data(x=x, edge_index=edge_index, y=y)
    return entry.task([graph], folds, FeatureEncoding("float", x.size(1)))
