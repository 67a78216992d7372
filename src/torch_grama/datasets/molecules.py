"""Molecules with the features of the Open Graph Benchmark: ogbg-molhiv and the peptide sets."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import Entry, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import Array, load_pickle, read_npz, read_tensors, reading
from torch_grama.datasets.splits import PARTS, check_fold, consecutive_fold, index_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData

ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND_SIZES = (5, 6, 2)
ATOMS = FeatureEncoding("ogb_atom", len(ATOM_SIZES), ATOM_SIZES)
BONDS = FeatureEncoding("ogb_bond", len(BOND_SIZES), BOND_SIZES)


def pack_bonds(
    x: Array,
    num_nodes: Array,
    bonds: Array,
    bond_attr: Array,
    num_bonds: Array,
    y: Array,
    where: str,
) -> CompactGraphs:
    r"""Packs molecules whose bonds are listed once.

    A bond expands to :math:`u \to v, v \to u`, both with its features, as the Open Graph Benchmark
    lists them.
    """
    with reading(where, "molecules with their bonds"):
        columns = {
            "x": column("node", x, "int64"),
            "edge_attr": column("edge", np.repeat(bond_attr, 2, axis=0), "int64"),
            "y": column("graph", y),
        }
        edges = np.stack([bonds, bonds[::-1]], axis=2).reshape(2, -1)
        num_edges = 2 * np.asarray(num_bonds, dtype=np.int64)
        return check_molecules(CompactGraphs(num_nodes, num_edges, edges, columns), where)


def check_molecules(graphs: CompactGraphs, where: str) -> CompactGraphs:
    for name, key, sizes in (("atom", "x", ATOM_SIZES), ("bond", "edge_attr", BOND_SIZES)):
        table = graphs.columns[key].values
        with reading(where, f"molecules with {len(sizes)} {name} features below {sizes}"):
            if table.ndim != 2 or table.shape[1] != len(sizes):
                raise ValueError(f"{name} features of the shape {table.shape}")
            if len(table) and bool((table.max(axis=0) >= sizes).any() or (table.min() < 0)):
                raise ValueError(f"{name} features up to {table.max(axis=0).tolist()}")
    return graphs


def featurise(
    smiles: Sequence[str], y: Array, where: str, report: Report | None = None
) -> CompactGraphs:
    r"""Turns SMILES strings into graphs with the features of the Open Graph Benchmark, by ogb."""
    smiles2graph = _import_smiles2graph()
    graphs = []
    for number, text in enumerate(smiles):
        try:
            graph = smiles2graph(text)
        except (AttributeError, ValueError, RuntimeError) as error:
            raise DatasetError(
                f"Expected row {number} of '{where}' to hold a molecule (got '{text[:60]}'): "
                "check the file, or use the compact arrays"
            ) from error
        parts = {"x": "node_feat", "edge_index": "edge_index", "edge_attr": "edge_feat"}
        tensors = {name: torch.from_numpy(graph[key]) for name, key in parts.items()}
        graphs.append(Data(**tensors, y=torch.from_numpy(y[number : number + 1])))
        if report is not None and (number % 50 == 49 or number + 1 == len(smiles)):
            report("reading molecules", number + 1, len(smiles))
    return check_molecules(CompactGraphs.from_data(graphs), where)


def _import_smiles2graph() -> Callable[[str], dict[str, NDArray[np.int64]]]:
    """Imports ogb's reader without letting ogb ask the network for its own latest version."""
    hidden = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        from ogb.utils.mol import smiles2graph
    except ImportError as error:
        raise DatasetError(
            f"Reading SMILES takes rdkit and ogb ({error}): run `pip install "
            "'torch-grama[molecules]'`"
        ) from error
    finally:
        if hidden is None:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = hidden
    return cast("Callable[[str], dict[str, NDArray[np.int64]]]", smiles2graph)


_VERSION = 1
# the columns of each table, in the order in which the sources name their files
_TABLES = {
    "raw/node-feat": len(ATOM_SIZES),
    "raw/edge": 2,
    "raw/edge-feat": len(BOND_SIZES),
    **dict.fromkeys(("raw/num-node-list", "raw/num-edge-list", "raw/graph-label"), 1),
    **{f"split/scaffold/{part}": 1 for part in ("train", "valid", "test")},
}


def load_molhiv(entry: Entry, storage: Storage) -> GraphTaskData:
    """Loads ogbg-molhiv from the tables of the Open Graph Benchmark or from its archive."""
    content = storage.prepared(entry, _VERSION, lambda _, paths: _build(paths))
    return entry.task(content.graphs, content.folds, ATOMS, BONDS)


def _build(paths: list[Path]) -> CompactFile:
    if len(paths) > 1:
        files = dict(zip(_TABLES, paths, strict=True))
        return _pack(lambda name: files[name].read_bytes(), lambda name: str(files[name]))
    (archive,) = paths
    with reading(archive, "the archive of ogbg-molhiv"), zipfile.ZipFile(archive) as content:
        members = {
            "/".join(Path(n).parts[1:]).removesuffix(".csv.gz"): n for n in content.namelist()
        }
        return _pack(
            lambda name: content.read(members[name]), lambda name: f"{archive}/{name}.csv.gz"
        )


def _pack(read: Callable[[str], bytes], where: Callable[[str], str]) -> CompactFile:
    tables = {}
    for name, width in _TABLES.items():
        with reading(where(name), f"a gzipped table of {width} columns of whole numbers"):
            text = gzip.decompress(read(name))
            table = np.empty((0, width), dtype=np.int64)
            if text.strip():
                table = np.loadtxt(io.BytesIO(text), dtype=np.int64, delimiter=",", ndmin=2)
            if table.shape[1] != width:
                raise ValueError(f"{table.shape[1]} columns")
            if name == "raw/graph-label" and set(table.flat) - {0, 1}:
                raise ValueError("labels other than 0 or 1")
            tables[name] = table if width > 1 else table[:, 0]
    x, bonds, bond_attr, num_nodes, num_bonds, labels, *parts = tables.values()
    graphs = pack_bonds(x, num_nodes, bonds.T, bond_attr, num_bonds, labels, where("raw/edge"))
    fold = check_fold(index_fold(*parts), len(graphs), where("split/scaffold/train"))
    return CompactFile(graphs, (fold,))


FUNCTIONS = (
    *("antifungal", "cell-cell communication", "anticancer", "drug delivery vehicle"),
    *("antimicrobial", "antiviral", "antihypertensive", "antibacterial", "antiparasitic", "toxic"),
)
STRUCTURES = (
    *(f"Inertia_{of}_{axis}" for of in ("mass", "valence") for axis in "abc"),
    *("length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit"),
)


def load_peptides(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads a peptide set from whichever source is at hand.

    - ``graphs``: compact arrays of the molecules and the split file; takes neither rdkit nor ogb;
    - ``csv``: the published SMILES and the split file; takes rdkit and ogb, a minute once;
    - ``archive``: the graphs as published for PyG, already split.
    """
    is_func = entry.name == "peptides-func"
    content = storage.prepared(
        entry, _VERSION, lambda source, paths: _build_peptides(source, paths, storage, is_func)
    )
    notes = () if is_func else ("Targets are z-scored over the whole data set, as published.",)
    return entry.task(content.graphs, content.folds, ATOMS, BONDS, notes=notes)


def read_split(path: Path) -> Fold:
    content = load_pickle(path)
    with reading(path, "a dictionary with the graph numbers of 'train', 'val' and 'test'"):
        if not isinstance(content, dict):
            raise TypeError(f"a {type(content).__name__}")
        return index_fold(*(np.asarray(content[part]).reshape(-1) for part in PARTS))


def _build_peptides(
    source: Source, paths: list[Path], storage: Storage, is_func: bool
) -> CompactFile:
    if source.name == "archive":
        return _peptides_from_archive(paths[0])
    fold = read_split(paths[1])
    if source.name == "graphs" and is_func:
        graphs = _peptides_from_arrays(paths[0])
    elif source.name == "graphs":
        graphs = _with_structures(paths[0], paths[2], paths[3])
    else:
        smiles, y = _read_csv(paths[0], is_func)
        graphs = featurise(smiles, y, str(paths[0]), storage.report)
    return CompactFile(graphs, (check_fold(fold, len(graphs), str(paths[1])),))


def _peptides_from_arrays(path: Path) -> CompactGraphs:
    arrays = read_npz(path, ("x", "num_nodes", "bonds", "bond_attr", "num_bonds", "y"))
    y = arrays["y"].astype(np.float32)
    with reading(path, f"molecules with {len(FUNCTIONS)} labels"):
        if y.ndim != 2 or y.shape[1] != len(FUNCTIONS):
            raise ValueError(f"labels of the shape {y.shape}")
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
    graphs = _peptides_from_arrays(func_graphs)
    with reading(func_graphs, f"a graph for each of the {len(y)} rows of '{struct_csv}'"):
        if len(graphs) != len(y):
            raise ValueError(f"{len(graphs)} graphs")
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
            values = json.loads(row["labels"]) if is_func else [row[name] for name in STRUCTURES]
            rows.append([float(value) for value in values])
        y = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
        width = len(FUNCTIONS) if is_func else len(STRUCTURES)
        if y.shape[1] != width or not bool(np.isfinite(y).all()):
            raise ValueError(f"targets of shape {y.shape}, or values that are not finite")
        if not is_func:
            y = (y - y.mean(axis=0)) / y.std(axis=0, ddof=1)
        return smiles, y.astype(np.float32)


def _peptides_from_archive(path: Path) -> CompactFile:
    """The archive for PyG: three files of tuples (x, edge_attr, edge_index, y)."""
    graphs: list[Data] = []
    counts: list[int] = []
    with reading(path, "an archive with train.pt, val.pt and test.pt"), zipfile.ZipFile(path) as z:
        names = {Path(name).name: name for name in z.namelist()}
        for part in PARTS:
            stored = read_tensors(z.read(names[f"{part}.pt"]), f"{path}/{part}.pt")
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
