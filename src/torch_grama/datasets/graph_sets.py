"""Tasks on many published graphs: programs (MalNet-Tiny), superpixels, and molecules (ZINC-12k)."""

from __future__ import annotations

import io
import itertools
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import NO_FEATURES, Entry, Source
from torch_grama.datasets.raw_arrays import load_pickle, read_npz, read_tensors, reading
from torch_grama.datasets.splits import PARTS, consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData
from torch_grama.datasets.transforms import LocalDegreeProfile, apply_transforms

_VERSION = 1
_HEADER_LINES = 5


def load_malnet(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads MalNet-Tiny, straight from its archive or from the unpacked folders.

    Nodes have no features of their own; the local degree profile takes their place. A graph has
    as many nodes as its largest number asks for, as in PyG: nodes without an edge stay.
    """
    content = storage.prepared(
        entry, _VERSION, lambda source, paths: _build_malnet(entry, source, paths, storage.report)
    )
    plain = entry.task(
        content.graphs,
        content.folds,
        NO_FEATURES,
        notes=(
            "Features are the local degree profile of the directed graph; nodes without an edge "
            "are kept, as in PyG.",
        ),
    )
    return apply_transforms(plain, [LocalDegreeProfile()], storage)


def _build_malnet(entry: Entry, source: Source, paths: list[Path], report: Report) -> CompactFile:
    data, split = paths
    names = [_read_names(split, part) for part in PARTS]
    wanted = {name: number for number, name in enumerate(itertools.chain(*names))}
    words = [PurePosixPath(name).parts[0] for name in wanted]
    with reading(split, "disjoint lists of graphs of the five types"):
        if len(wanted) != sum(map(len, names)):
            raise ValueError("lists that are not disjoint")
        if unknown := set(words) - set(entry.class_names):
            raise ValueError(f"the type '{min(unknown)}'")
    edges: list[NDArray[np.int32]] = [np.empty((2, 0), np.int32)] * len(wanted)
    seen = 0
    members = _archive_members if source.name == "archive" else _folder_members
    with reading(data, f"edge lists of the {len(wanted)} graphs named in '{split}'"):
        for name, content in members(data):
            if name in wanted:
                edges[wanted[name]] = _read_edges(content(), f"{data}/{name}.edgelist")
                seen += 1
                report("reading graphs", seen, len(wanted))
        if seen != len(wanted):
            raise ValueError(f"{seen} graphs")
    graphs = CompactGraphs(
        np.array([int(pairs.max()) + 1 for pairs in edges]),
        np.array([pairs.shape[1] for pairs in edges]),
        np.concatenate(edges, axis=1),
        {"y": column("graph", np.array([entry.class_names.index(word) for word in words]))},
    )
    return CompactFile(graphs, (consecutive_fold(map(len, names)),))


def _read_names(split: Path, part: str) -> list[str]:
    """The graphs of one part, as ``type/family/hash``."""
    with reading(split, f"the split of MalNet-Tiny by type, with {part}.txt"):
        if split.is_dir():
            text = (split / f"{part}.txt").read_text()
        else:
            with zipfile.ZipFile(split) as archive:
                (member,) = (n for n in archive.namelist() if n.endswith(f"type/{part}.txt"))
                text = archive.read(member).decode()
        return text.split()


def _archive_members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Names and contents of the edge lists in a tar file, which is never unpacked."""
    with tarfile.open(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            if member.isfile() and name.suffix == ".edgelist":
                stream = archive.extractfile(member)
                if stream is not None:
                    yield "/".join(name.with_suffix("").parts[-3:]), stream.read


def _folder_members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for file in sorted(path.rglob("*.edgelist")):
        yield "/".join(file.with_suffix("").parts[-3:]), file.read_bytes


def _read_edges(content: bytes, where: str) -> NDArray[np.int32]:
    """Pairs of node numbers after a header of five lines."""
    with reading(where, "a list of edges after five header lines"):
        lines = content.split(b"\n", _HEADER_LINES)
        if len(lines) <= _HEADER_LINES or not lines[_HEADER_LINES].strip():
            raise ValueError("no edges")
        body = io.BytesIO(lines[_HEADER_LINES])
        pairs = np.loadtxt(body, dtype=np.int64, comments=None, ndmin=2)
        if pairs.shape[1] != 2 or pairs.min() < 0 or pairs.max() >= np.iinfo(np.int32).max:
            raise ValueError(f"{pairs.shape[1]} columns, numbers {pairs.min()} to {pairs.max()}")
        return pairs.astype(np.int32).T


def load_superpixels(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads a superpixel set from the files of PyG's ``GNNBenchmarkDataset``.

    Features are the mean colour followed by the two coordinates; an edge has its stored distance.
    """
    content = storage.prepared(entry, _VERSION, lambda _, paths: _build_superpixels(paths[0]))
    return entry.task(
        content.graphs,
        content.folds,
        FeatureEncoding("float", content.graphs.columns["x"].values.shape[1]),
        FeatureEncoding("float", content.graphs.columns["edge_attr"].values.shape[1]),
        notes=("Coordinates are appended to the colour, as in GraphGPS.",),
    )


def _build_superpixels(path: Path) -> CompactFile:
    if path.suffix == ".zip":
        with reading(path, "an archive with one file of tensors"), zipfile.ZipFile(path) as z:
            (member,) = (name for name in z.namelist() if name.endswith(".pt"))
            content = read_tensors(z.read(member), f"{path}/{member}")
    else:
        content = read_tensors(path)
    with reading(path, "three lists of graphs with x, pos, edge_index, edge_attr and y"):
        if not isinstance(content, list | tuple):
            raise TypeError(f"a {type(content).__name__}")
        train, val, test = content
        graphs = CompactGraphs.from_data(map(_superpixel_graph, (*train, *val, *test)))
    return CompactFile(graphs, (consecutive_fold(map(len, content)),))


def _superpixel_graph(stored: Mapping[str, Tensor]) -> Data:
    x = stored["x"]
    return Data(
        x=torch.cat([x.reshape(len(x), -1), stored["pos"]], dim=1).float(),
        edge_index=stored["edge_index"],
        edge_attr=stored["edge_attr"].reshape(-1, 1).float(),
        y=torch.as_tensor(stored["y"]).reshape(1).long(),
    )


NUM_ATOM_TYPES = 28
NUM_BOND_TYPES = 4
_ARRAYS = ("x", "num_nodes", "edge_index", "edge_attr", "num_edges", "y")


def load_zinc(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads ZINC-12k.

    - ``archive``: the official pickles with the three index files;
    - ``graphs``: arrays rebuilt from the SMILES strings; labels within about 1e-4 of the official.
    """
    content = storage.prepared(entry, _VERSION, _build_zinc)
    rebuilt = content.signature.startswith("graphs:")
    notes = ("Targets were recomputed from SMILES strings: within 1e-4 of the official.",)
    return entry.task(
        content.graphs,
        content.folds,
        FeatureEncoding("categorical", 1, (NUM_ATOM_TYPES,)),
        FeatureEncoding("categorical", 1, (NUM_BOND_TYPES,)),
        notes=notes if rebuilt else (),
    )


def _build_zinc(source: Source, paths: list[Path]) -> CompactFile:
    path, *indices = paths
    is_rebuilt = source.name == "graphs"
    graphs, counts = _from_arrays(path) if is_rebuilt else _from_archive(path, indices)
    with reading(path, f"molecules of {NUM_ATOM_TYPES} atom and {NUM_BOND_TYPES} bond types"):
        for name, size in (("x", NUM_ATOM_TYPES), ("edge_attr", NUM_BOND_TYPES)):
            types = graphs.columns[name].values
            if types.size and not 0 <= int(types.min()) <= int(types.max()) < size:
                raise ValueError(f"types up to {int(types.max())} in '{name}'")
    return CompactFile(graphs, (consecutive_fold(counts),))


def _from_arrays(path: Path) -> tuple[CompactGraphs, list[int]]:
    arrays = read_npz(path, [f"{part}_{name}" for part in PARTS for name in _ARRAYS])
    with reading(path, "molecules with their bonds"):
        x, num_nodes, edge_index, edge_attr, num_edges, y = (
            np.concatenate([arrays[f"{part}_{name}"] for part in PARTS], axis=-1)
            for name in _ARRAYS
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
                graphs += [_molecule(molecules[number]) for number in chosen]
            counts.append(len(chosen))
    return CompactGraphs.from_data(graphs), counts


def _molecule(molecule: Mapping[str, Tensor]) -> Data:
    bonds = molecule["bond_type"].long()
    edge_index = bonds.nonzero().t().contiguous()
    return Data(
        x=molecule["atom_type"].long().reshape(-1, 1),
        edge_index=edge_index,
        edge_attr=bonds[edge_index[0], edge_index[1]].reshape(-1, 1),
        y=molecule["logP_SA_cycle_normalized"].float().reshape(1, 1),
    )
