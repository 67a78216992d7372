"""MalNet-Tiny: the type of a program from its function-call graph."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import Entry, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import reading
from torch_grama.datasets.splits import PARTS, consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData
from torch_grama.datasets.transforms import LocalDegreeProfile, apply_transforms

TYPES = ("addisplay", "adware", "benign", "downloader", "trojan")
_VERSION = 1
_HEADER_LINES = 5


def load_malnet(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads MalNet-Tiny, straight from its archive or from the unpacked folders.

    Nodes have no features of their own; the local degree profile takes their place. A graph has
    as many nodes as its largest number asks for, as in PyG: nodes without an edge stay.
    """
    content = storage.prepared(
        entry, _VERSION, lambda source, paths: _build(source, paths, storage.report)
    )
    plain = entry.task(
        content.graphs,
        content.folds,
        FeatureEncoding("none", 0),
        notes=(
            "Features are the local degree profile of the directed graph; nodes without an edge "
            "are kept, as in PyG.",
        ),
    )
    return apply_transforms(plain, [LocalDegreeProfile()], storage)


def _build(source: Source, paths: list[Path], report: Report) -> CompactFile:
    data, split = paths
    names = {part: _read_names(split, part) for part in PARTS}
    wanted = {name: number for number, name in enumerate(n for p in PARTS for n in names[p])}
    if len(wanted) != sum(len(part) for part in names.values()):
        raise DatasetError(f"Expected the lists in '{split}' to be disjoint; fetch it again")
    edges: list[NDArray[np.int32]] = [np.empty((2, 0), np.int32)] * len(wanted)
    seen = 0
    members = _archive_members if source.name == "archive" else _folder_members
    with reading(data, "the edge lists of MalNet-Tiny"):
        for name, content in members(data):
            if name in wanted:
                edges[wanted[name]] = _read_edges(content(), f"{data}/{name}.edgelist")
                seen += 1
                report("reading graphs", seen, len(wanted))
    if seen != len(wanted):
        raise DatasetError(
            f"Expected the {len(wanted)} graphs named in '{split}' in '{data}' (got {seen}); fetch "
            "both again"
        )
    labels = np.array([_label(name, split) for name in wanted])
    graphs = CompactGraphs(
        np.array([int(pairs.max()) + 1 for pairs in edges]),
        np.array([pairs.shape[1] for pairs in edges]),
        np.concatenate(edges, axis=1),
        {"y": column("graph", labels)},
    )
    return CompactFile(graphs, (consecutive_fold(len(names[part]) for part in PARTS),))


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


def _label(name: str, split: Path) -> int:
    word = PurePosixPath(name).parts[0]
    if word not in TYPES:
        raise DatasetError(f"Expected one of the types {TYPES} in '{split}' (got '{word}')")
    return TYPES.index(word)


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
