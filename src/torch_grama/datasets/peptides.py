"""Peptides-func and Peptides-struct of the Long Range Graph Benchmark."""

from __future__ import annotations

import csv
import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import Entry, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.molecules import ATOMS, BONDS, check_molecules, featurise, pack_bonds
from torch_grama.datasets.raw_arrays import load_pickle, read_npz, read_tensors, reading
from torch_grama.datasets.splits import PARTS, check_fold, consecutive_fold, index_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import Fold, GraphTaskData

FUNCTIONS = (
    *("antifungal", "cell-cell communication", "anticancer", "drug delivery vehicle"),
    *("antimicrobial", "antiviral", "antihypertensive", "antibacterial", "antiparasitic", "toxic"),
)
STRUCTURES = (
    *(f"Inertia_{of}_{axis}" for of in ("mass", "valence") for axis in "abc"),
    *("length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit"),
)
_VERSION = 1


def load_peptides(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads a peptide set from whichever source is at hand.

    - ``graphs``: compact arrays of the molecules and the split file; takes neither rdkit nor ogb;
    - ``csv``: the published SMILES and the split file; takes rdkit and ogb, a minute once;
    - ``archive``: the graphs as published for PyG, already split.
    """
    is_func = entry.name == "peptides-func"
    content = storage.prepared(
        entry, _VERSION, lambda source, paths: _build(source, paths, storage, is_func)
    )
    notes = () if is_func else ("Targets are z-scored over the whole data set, as published.",)
    return entry.task(content.graphs, content.folds, ATOMS, BONDS, notes=notes)


def read_split(path: Path) -> Fold:
    r"""Reads the split pickle: a dictionary of graph numbers."""
    content = load_pickle(path)
    with reading(path, "a dictionary with the graph numbers of 'train', 'val' and 'test'"):
        if not isinstance(content, dict):
            raise TypeError(f"a {type(content).__name__}")
        return index_fold(*(np.asarray(content[part]).reshape(-1) for part in PARTS))


def _build(source: Source, paths: list[Path], storage: Storage, is_func: bool) -> CompactFile:
    if source.name == "archive":
        return _from_archive(paths[0])
    fold = read_split(paths[1])
    if source.name == "graphs" and is_func:
        graphs = _from_arrays(paths[0])
    elif source.name == "graphs":
        graphs = _with_structures(paths[0], paths[2], paths[3])
    else:
        smiles, y = _read_csv(paths[0], is_func)
        graphs = featurise(smiles, y, str(paths[0]), storage.report)
    return CompactFile(graphs, (check_fold(fold, len(graphs), str(paths[1])),))


def _from_arrays(path: Path) -> CompactGraphs:
    arrays = read_npz(path, ("x", "num_nodes", "bonds", "bond_attr", "num_bonds", "y"))
    y = arrays["y"].astype(np.float32)
    if y.ndim != 2 or y.shape[1] != len(FUNCTIONS):
        raise DatasetError(f"Expected {len(FUNCTIONS)} labels in '{path}' (got shape {y.shape})")
    return pack_bonds(**{**arrays, "y": y}, where=str(path))


def _with_structures(struct_csv: Path, func_csv: Path, func_graphs: Path) -> CompactGraphs:
    """The molecules of Peptides-func with the targets of Peptides-struct, row by row."""
    smiles, y = _read_csv(struct_csv, is_func=False)
    known, _ = _read_csv(func_csv, is_func=True)
    if smiles != known:
        raise DatasetError(
            f"Expected '{struct_csv}' and '{func_csv}' to list the same molecules in the same "
            "order; install rdkit and ogb (`pip install 'torch-grama[molecules]'`), move "
            f"'{func_graphs}' away and load again"
        )
    graphs = _from_arrays(func_graphs)
    if len(graphs) != len(y):
        raise DatasetError(
            f"Expected one graph in '{func_graphs}' for each of the {len(y)} rows of "
            f"'{struct_csv}' (got {len(graphs)}); fetch the files again"
        )
    return graphs.with_columns({**graphs.columns, "y": column("graph", y)})


def _read_csv(path: Path, is_func: bool) -> tuple[list[str], NDArray[np.float32]]:
    """SMILES and targets; structural targets are z-scored over all rows."""
    smiles: list[str] = []
    rows: list[list[float]] = []
    expected = "a gzipped CSV file with the columns smiles and " + (
        "labels" if is_func else ", ".join(STRUCTURES)
    )
    with reading(path, expected), gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            smiles.append(row["smiles"])
            if is_func:
                rows.append([float(value) for value in json.loads(row["labels"])])
            else:
                rows.append([float(row[name]) for name in STRUCTURES])
        y = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
        width = len(FUNCTIONS) if is_func else len(STRUCTURES)
        if y.shape[1] != width or not bool(np.isfinite(y).all()):
            raise ValueError(f"targets of shape {y.shape}, or values that are not finite")
        if not is_func:
            y = (y - y.mean(axis=0)) / y.std(axis=0, ddof=1)
        return smiles, y.astype(np.float32)


def _from_archive(path: Path) -> CompactFile:
    """The archive for PyG: three files of tuples (x, edge_attr, edge_index, y)."""
    graphs: list[Data] = []
    counts: list[int] = []
    with reading(path, "an archive with train.pt, val.pt and test.pt"), zipfile.ZipFile(path) as z:
        names = {Path(name).name: name for name in z.namelist()}
        for part in PARTS:
            with z.open(names[f"{part}.pt"]) as stream:
                stored = read_tensors(stream, f"{path}/{part}.pt")
            if not isinstance(stored, list):
                raise TypeError(f"a {type(stored).__name__} in {part}.pt")
            graphs += [
                Data(x=x, edge_index=edge_index, edge_attr=edge_attr, y=y.float())
                for x, edge_attr, edge_index, y in stored
            ]
            counts.append(len(stored))
        packed = check_molecules(CompactGraphs.from_data(graphs), str(path))
        edges, attr = packed.edges, packed.columns["edge_attr"].values
        if not np.array_equal(edges[:, ::2], edges[::-1, 1::2]):
            raise ValueError("bonds whose two directions do not follow one another")
        if not np.array_equal(attr[::2], attr[1::2]):
            raise ValueError("bonds whose two directions differ in their features")
        return CompactFile(packed, (consecutive_fold(counts),))
