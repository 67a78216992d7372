"""ZINC-12k: constrained solubility of small molecules."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import MAE, DataFile, Entry, Published, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import Array, load_pickle, read_npz, reading
from torch_grama.datasets.splits import PARTS, consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

NUM_ATOM_TYPES = 28
NUM_BOND_TYPES = 4
_VERSION = 1
_COLUMNS = ("x", "num_nodes", "edge_index", "edge_attr", "num_edges", "y")
_INDEX_URL = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data"
_INDEX_MD5 = {
    "train": ("01eed0544f469a524f17515b66c426e8", 65_110),
    "val": ("61005d8762bdf35ce44ef7bbfdb88b91", 5_541),
    "test": ("276bafce6cc83d11cc5c928cb9afded5", 4_782),
}
_INDEX = tuple(
    DataFile(
        f"zinc12k/{part}.index",
        (f"{_INDEX_URL}/molecules/{part}.index",),
        md5=_INDEX_MD5[part][0],
        size=_INDEX_MD5[part][1],
    )
    for part in PARTS
)
_ARCHIVE = DataFile(
    "zinc12k/molecules.zip", ("https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1",)
)


def load_zinc(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads ZINC-12k.

    - ``archive``: the official pickles with the three index files;
    - ``graphs``: arrays rebuilt from the SMILES strings; labels within about 1e-4 of the official.
    """
    content = storage.prepared(entry, _VERSION, lambda source, paths: _build(source, paths))
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
    if source.name == "graphs":
        path = paths[0]
        arrays = read_npz(path, [f"{part}_{name}" for part in PARTS for name in _COLUMNS])
        parts = [{name: arrays[f"{part}_{name}"] for name in _COLUMNS} for part in PARTS]
    else:
        path = paths[0]
        with reading(path, "the archive molecules.zip"), zipfile.ZipFile(path) as content:
            names = {Path(name).name: name for name in content.namelist()}
            parts = []
            for part, index in zip(PARTS, paths[1:], strict=True):
                member = content.read(names[f"{part}.pickle"])
                molecules = _read_pickle(member, f"{path}/{part}.pickle")
                parts.append(_choose(molecules, _read_index(index), f"{path}/{part}.pickle"))
    return _pack(parts, str(path))


def _pack(parts: list[dict[str, Array]], where: str) -> CompactFile:
    whole = {
        name: np.concatenate([part[name] for part in parts], axis=1 if name == "edge_index" else 0)
        for name in _COLUMNS
    }
    x, bonds = whole["x"].reshape(-1, 1), whole["edge_attr"].reshape(-1, 1)
    for word, table, size in (("atom", x, NUM_ATOM_TYPES), ("bond", bonds, NUM_BOND_TYPES)):
        if table.size and not 0 <= int(table.min()) <= int(table.max()) < size:
            raise DatasetError(
                f"Expected the {word} types in '{where}' to be below {size} (got "
                f"{int(table.max())}); fetch the file again"
            )
    columns = {
        "x": column("node", x, "int64"),
        "edge_attr": column("edge", bonds, "int64"),
        "y": column("graph", whole["y"].reshape(-1, 1).astype(np.float32)),
    }
    with reading(where, "molecules with their bonds"):
        graphs = CompactGraphs(whole["num_nodes"], whole["num_edges"], whole["edge_index"], columns)
    return CompactFile(graphs, (consecutive_fold(len(part["num_nodes"]) for part in parts),))


def _read_index(path: Path) -> NDArray[np.int64]:
    with reading(path, "a list of graph numbers with commas between them"):
        return np.array([int(word) for word in path.read_text().strip().split(",")])


def _choose(
    molecules: list[Mapping[str, Tensor]], chosen: NDArray[np.int64], where: str
) -> dict[str, Array]:
    """The chosen molecules of one part; a bond type in the dense matrix is an edge."""
    rows: dict[str, list[Array]] = {name: [] for name in _COLUMNS}
    with reading(where, "a list of molecules with atom_type, bond_type and a target"):
        for number in chosen.tolist():
            molecule = molecules[number]
            dense = molecule["bond_type"].numpy()
            edges = np.stack(np.nonzero(dense))
            rows["x"].append(molecule["atom_type"].numpy().reshape(-1))
            rows["num_nodes"].append(np.array([len(dense)]))
            rows["edge_index"].append(edges)
            rows["edge_attr"].append(dense[edges[0], edges[1]])
            rows["num_edges"].append(np.array([edges.shape[1]]))
            rows["y"].append(molecule["logP_SA_cycle_normalized"].numpy().reshape(-1))
        return {
            name: np.concatenate(pieces, axis=1 if name == "edge_index" else 0)
            for name, pieces in rows.items()
        }


def _read_pickle(content: bytes, where: str) -> list[Mapping[str, Tensor]]:
    molecules = load_pickle(content, where)
    with reading(where, "a pickled list of molecules"):
        if not isinstance(molecules, list):
            raise TypeError(f"a {type(molecules).__name__}")
        return molecules


ENTRIES = (
    Entry(
        name="zinc",
        family="molecules",
        summary="constrained solubility of 12,000 small molecules",
        level="graph",
        kind="regression",
        metric=MAE,
        num_outputs=1,
        loader=load_zinc,
        published=Published(
            num_graphs=12_000,
            mean_nodes=23.2,
            mean_edges=49.8,
            num_features=1,
            split=(10_000, 1_000, 1_000),
            source="Benchmarking Graph Neural Networks",
        ),
        sources=(
            Source("archive", (_ARCHIVE, *_INDEX)),
            Source("graphs", (DataFile("zinc12k/zinc12k_graphs.npz"),)),
        ),
        disk_bytes=367_000_000,
        parameter_budget=500_000,
        origin="https://github.com/graphdeeplearning/benchmarking-gnns",
        licence="MIT (benchmark repository)",
        citation="Dwivedi, Joshi, Luu, Laurent, Bengio, Bresson: Benchmarking Graph Neural "
        "Networks, 2020; Irwin et al.: ZINC, 2012",
    ),
)
