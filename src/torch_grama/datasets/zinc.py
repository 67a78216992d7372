"""ZINC-12k: constrained solubility of small molecules."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import Entry, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import load_pickle, read_npz, reading
from torch_grama.datasets.splits import PARTS, consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

NUM_ATOM_TYPES = 28
NUM_BOND_TYPES = 4
_VERSION = 1
_COLUMNS = ("x", "num_nodes", "edge_index", "edge_attr", "num_edges", "y")


def load_zinc(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads ZINC-12k.

    - ``archive``: the official pickles with the three index files;
    - ``graphs``: arrays rebuilt from the SMILES strings; labels within about 1e-4 of the official.
    """
    content = storage.prepared(entry, _VERSION, _build)
    rebuilt = content.signature.startswith("graphs:")
    notes = ("Targets were recomputed from SMILES strings: within 1e-4 of the official.",)
    return entry.task(
        content.graphs,
        content.folds,
        FeatureEncoding("categorical", 1, (NUM_ATOM_TYPES,)),
        FeatureEncoding("categorical", 1, (NUM_BOND_TYPES,)),
        notes=notes if rebuilt else (),
    )


def _build(source: Source, paths: list[Path]) -> CompactFile:
    path, *indices = paths
    if source.name == "graphs":
        graphs, counts = _from_arrays(path)
    else:
        graphs, counts = _from_archive(path, indices)
    for word, name, size in (("atom", "x", NUM_ATOM_TYPES), ("bond", "edge_attr", NUM_BOND_TYPES)):
        types = graphs.columns[name].values
        if types.size and not 0 <= int(types.min()) <= int(types.max()) < size:
            raise DatasetError(
                f"Expected the {word} types in '{path}' to be below {size} (got "
                f"{int(types.max())}); fetch the file again"
            )
    return CompactFile(graphs, (consecutive_fold(counts),))


def _from_arrays(path: Path) -> tuple[CompactGraphs, list[int]]:
    arrays = read_npz(path, [f"{part}_{name}" for part in PARTS for name in _COLUMNS])
    with reading(path, "molecules with their bonds"):
        x, num_nodes, edge_index, edge_attr, num_edges, y = (
            np.concatenate([arrays[f"{part}_{name}"] for part in PARTS], axis=-1)
            for name in _COLUMNS
        )
        columns = {
            "x": column("node", x.reshape(-1, 1), "int64"),
            "edge_attr": column("edge", edge_attr.reshape(-1, 1), "int64"),
            "y": column("graph", y.reshape(-1, 1).astype(np.float32)),
        }
        graphs = CompactGraphs(num_nodes, num_edges, edge_index, columns)
    return graphs, [len(arrays[f"{part}_num_nodes"]) for part in PARTS]


def _from_archive(path: Path, indices: list[Path]) -> tuple[CompactGraphs, list[int]]:
    """The chosen molecules of the three parts; a bond type in the dense matrix is an edge."""
    graphs: list[Data] = []
    counts: list[int] = []
    with reading(path, "the archive molecules.zip"), zipfile.ZipFile(path) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        for part, index in zip(PARTS, indices, strict=True):
            with reading(index, "a list of graph numbers with commas between them"):
                chosen = [int(word) for word in index.read_text().strip().split(",")]
            where = f"{path}/{part}.pickle"
            molecules = load_pickle(archive.read(names[f"{part}.pickle"]), where)
            with reading(where, "a list of molecules with atom_type, bond_type and a target"):
                if not isinstance(molecules, list):
                    raise TypeError(f"a {type(molecules).__name__}")
                graphs += [_graph(molecules[number]) for number in chosen]
            counts.append(len(chosen))
    return CompactGraphs.from_data(graphs), counts


def _graph(molecule: Mapping[str, Tensor]) -> Data:
    bonds = molecule["bond_type"].long()
    edge_index = bonds.nonzero().t().contiguous()
    return Data(
        x=molecule["atom_type"].long().reshape(-1, 1),
        edge_index=edge_index,
        edge_attr=bonds[edge_index[0], edge_index[1]].reshape(-1, 1),
        y=molecule["logP_SA_cycle_normalized"].float().reshape(1, 1),
    )
