"""ogbg-molhiv: does a molecule inhibit HIV replication? Scaffold split."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from torch_grama.datasets.compact_file import CompactFile
from torch_grama.datasets.entry import ROC_AUC, DataFile, Entry, Published, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.folds import index_fold
from torch_grama.datasets.molecules import ATOM_SIZES, ATOMS, BOND_SIZES, BONDS, pack_bonds
from torch_grama.datasets.raw_arrays import read_table, reading
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import GraphTaskData

_VERSION = 1
_TABLES = {
    "raw/node-feat.csv.gz": len(ATOM_SIZES),
    "raw/edge.csv.gz": 2,
    "raw/edge-feat.csv.gz": len(BOND_SIZES),
    "raw/num-node-list.csv.gz": 1,
    "raw/num-edge-list.csv.gz": 1,
    "raw/graph-label.csv.gz": 1,
    "split/scaffold/train.csv.gz": 1,
    "split/scaffold/valid.csv.gz": 1,
    "split/scaffold/test.csv.gz": 1,
}


def load_molhiv(entry: Entry, storage: Storage) -> GraphTaskData:
    """Loads ogbg-molhiv from the tables of the Open Graph Benchmark or from its archive."""
    content = storage.prepared(entry, _VERSION, lambda _, paths: _build(paths))
    fold = index_fold(content.extras, len(content.graphs), f"{entry.name} split")
    return entry.task(content.graphs, [fold], ATOMS, BONDS)


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
    split = {
        part: tables[f"split/scaffold/{word}.csv.gz"].reshape(-1)
        for part, word in (("train", "train"), ("val", "valid"), ("test", "test"))
    }
    index_fold(split, len(graphs), where("split/scaffold/train.csv.gz"))
    return CompactFile(graphs, extras=split)


ENTRIES = (
    Entry(
        name="ogbg-molhiv",
        family="molecules",
        summary="does a molecule inhibit HIV replication?",
        level="graph",
        kind="classification",
        metric=ROC_AUC,
        num_outputs=2,
        loader=load_molhiv,
        published=Published(
            num_graphs=41_127,
            num_nodes=1_049_163,
            num_edges=2_259_376,
            mean_nodes=25.5,
            num_features=9,
            num_outputs=2,
            num_folds=1,
            split=(32_901, 4_113, 4_113),
            source="Open Graph Benchmark",
        ),
        sources=(
            Source("tables", tuple(DataFile(f"ogbg_molhiv/{name}") for name in _TABLES)),
            Source(
                "archive",
                (
                    DataFile(
                        "ogbg_molhiv/hiv.zip",
                        (
                            "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/"
                            "hiv.zip",
                        ),
                    ),
                ),
            ),
        ),
        disk_bytes=4_000_000,
        class_names=("inactive", "active"),
        origin="https://ogb.stanford.edu/docs/graphprop/",
        licence="MIT",
        citation="Hu, Fey, Zitnik, Dong, Ren, Liu, Catasta, Leskovec: Open Graph Benchmark, 2020; "
        "Wu et al.: MoleculeNet, 2018",
    ),
)
