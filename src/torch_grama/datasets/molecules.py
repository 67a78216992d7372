"""Molecules with the features of the Open Graph Benchmark, and ogbg-molhiv."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import Entry
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import Array, read_table, reading
from torch_grama.datasets.splits import check_fold, index_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

if TYPE_CHECKING:
    from torch_grama.datasets.storage import Report

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
    r"""Refuses features that are not those of the Open Graph Benchmark."""
    for name, key, sizes in (("atom", "x", ATOM_SIZES), ("bond", "edge_attr", BOND_SIZES)):
        table = graphs.columns[key].values
        if table.ndim != 2 or table.shape[1] != len(sizes):
            raise DatasetError(
                f"Expected {len(sizes)} {name} features in '{where}' (got shape {table.shape}); "
                "fetch the file again"
            )
        if len(table) and bool((table.max(axis=0) >= sizes).any() or (table.min() < 0)):
            raise DatasetError(
                f"Expected the {name} features in '{where}' to be below {sizes} (got "
                f"{table.max(axis=0).tolist()}); fetch the file again"
            )
    return graphs


def featurise(
    smiles: Sequence[str], y: Array, where: str, report: Report | None = None
) -> CompactGraphs:
    r"""Turns SMILES strings into graphs with the features of the Open Graph Benchmark.

    Takes rdkit and ogb.
    """
    smiles2graph = _import_smiles2graph()
    atoms, bonds, bond_attr, num_nodes, num_bonds = [], [], [], [], []
    for number, text in enumerate(smiles):
        try:
            graph = smiles2graph(text)
        except (AttributeError, ValueError, RuntimeError) as error:
            raise DatasetError(
                f"Expected row {number} of '{where}' to hold a molecule (got '{text[:60]}'): "
                "check the file, or use the compact arrays"
            ) from error
        atoms.append(graph["node_feat"].astype(np.uint8))
        # Both directions are interleaved; one of them is kept.
        bonds.append(graph["edge_index"][:, ::2])
        bond_attr.append(graph["edge_feat"][::2].astype(np.uint8))
        num_nodes.append(len(atoms[-1]))
        num_bonds.append(bonds[-1].shape[1])
        if report is not None and (number % 50 == 49 or number + 1 == len(smiles)):
            report("reading molecules", number + 1, len(smiles))
    return pack_bonds(
        np.concatenate(atoms),
        np.array(num_nodes),
        np.concatenate(bonds, axis=1),
        np.concatenate(bond_attr),
        np.array(num_bonds),
        y,
        where,
    )


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
_SPLIT_WORDS = ("train", "valid", "test")
_TABLES = {
    "raw/node-feat.csv.gz": len(ATOM_SIZES),
    "raw/edge.csv.gz": 2,
    "raw/edge-feat.csv.gz": len(BOND_SIZES),
    "raw/num-node-list.csv.gz": 1,
    "raw/num-edge-list.csv.gz": 1,
    "raw/graph-label.csv.gz": 1,
    **{f"split/scaffold/{part}.csv.gz": 1 for part in _SPLIT_WORDS},
}


def load_molhiv(entry: Entry, storage: Storage) -> GraphTaskData:
    """Loads ogbg-molhiv from the tables of the Open Graph Benchmark or from its archive."""
    content = storage.prepared(entry, _VERSION, lambda _, paths: _build(paths))
    return entry.task(content.graphs, content.folds, ATOMS, BONDS)


def _build(paths: list[Path]) -> CompactFile:
    if len(paths) > 1:
        files = dict(zip(_TABLES, paths, strict=True))
        return _pack(lambda name: files[name].read_bytes(), lambda name: str(files[name]))
    archive = paths[0]
    with reading(archive, "the archive of ogbg-molhiv"), zipfile.ZipFile(archive) as content:
        members = {"/".join(Path(n).parts[1:]): n for n in content.namelist()}
        return _pack(lambda name: content.read(members[name]), lambda name: f"{archive}/{name}")


def _pack(read: Callable[[str], bytes], where: Callable[[str], str]) -> CompactFile:
    tables = {name: read_table(read(name), width, where(name)) for name, width in _TABLES.items()}
    labels = tables["raw/graph-label.csv.gz"]
    if set(np.unique(labels)) - {0, 1}:
        raise DatasetError(
            f"Expected the labels in '{where('raw/graph-label.csv.gz')}' to be 0 or 1 (got "
            f"{sorted(np.unique(labels).tolist())[:5]}); fetch the file again"
        )
    graphs = pack_bonds(
        tables["raw/node-feat.csv.gz"],
        tables["raw/num-node-list.csv.gz"].reshape(-1),
        tables["raw/edge.csv.gz"].T,
        tables["raw/edge-feat.csv.gz"],
        tables["raw/num-edge-list.csv.gz"].reshape(-1),
        labels.reshape(-1),
        where("raw/edge.csv.gz"),
    )
    fold = index_fold(
        *(tables[f"split/scaffold/{part}.csv.gz"].reshape(-1) for part in _SPLIT_WORDS)
    )
    return CompactFile(
        graphs, (check_fold(fold, len(graphs), where("split/scaffold/train.csv.gz")),)
    )
