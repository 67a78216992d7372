"""Damaged files: whatever is in them, a reader answers with data or with a DatasetError."""

import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets import DatasetError
from torch_grama.datasets.own_data import describe, load_path, write_csv_folder, write_json_lines

RING = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
EDGES = torch.cat([RING, RING.flip(0)], dim=1)


def graph(**changed: object) -> Data:
    data = Data(
        x=torch.arange(12.0).view(6, 2) / 7,
        edge_index=EDGES,
        edge_attr=torch.arange(12.0)[:, None],
        y=torch.tensor([0, 1, 0, 1, 0, 1]),
    )
    for name, value in changed.items():
        data[name] = value
    return data


def write_tables(folder: Path) -> Path:
    return write_csv_folder(graph(edge_weight=torch.ones(12)), folder / "tables")


def write_lines(folder: Path) -> Path:
    graphs = [graph(y=torch.tensor([number % 2])) for number in range(6)]
    return write_json_lines(graphs, folder / "graphs.jsonl", class_names=["no", "yes"])


def write_arrays(folder: Path, compressed: bool = False) -> Path:
    parts = np.array([[0, 0, 1, 1, 2, 2]])
    path = folder / "graph.npz"
    (np.savez_compressed if compressed else np.savez)(
        path,
        node_features=graph().x.numpy(),
        node_labels=graph().y.numpy(),
        edges=RING.T.numpy(),
        train_masks=parts == 0,
        val_masks=parts == 1,
        test_masks=parts == 2,
    )
    return path


def write_saved(folder: Path, legacy: bool = False) -> Path:
    path = folder / "graphs.pt"
    words = ["train", "train", "val", "test"]
    graphs = [graph(y=torch.tensor([n % 2]), split=word) for n, word in enumerate(words)]
    torch.save(graphs, path, _use_new_zipfile_serialization=not legacy)
    return path


FORMS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nodes.csv": (write_tables, "tables/nodes.csv"),
    "edges.csv": (write_tables, "tables/edges.csv"),
    "splits.json": (write_tables, "tables/splits.json"),
    "jsonl": (write_lines, "graphs.jsonl"),
    "npz": (write_arrays, "graph.npz"),
    "compressed npz": (lambda folder: write_arrays(folder, compressed=True), "graph.npz"),
    "pt": (write_saved, "graphs.pt"),
    "old pt": (lambda folder: write_saved(folder, legacy=True), "graphs.pt"),
}


def damaged(whole: bytes, generator: random.Random) -> Iterator[bytes]:
    for cut in sorted({generator.randrange(len(whole)) for _ in range(30)} | {0, len(whole) - 1}):
        yield whole[:cut]
    for _ in range(80):
        changed = bytearray(whole)
        for _ in range(generator.choice((1, 1, 2, 8))):
            changed[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        yield bytes(changed)
    for _ in range(15):
        start, stop = sorted(generator.randrange(len(whole)) for _ in range(2))
        yield whole[:start] + whole[stop:]
        yield whole[:stop] + whole[start:]
        yield whole[:start] + generator.randbytes(8) + whole[start:]


def survives(path: Path, damaged_file: Path, content: bytes) -> bool:
    """Loads a damaged file; true where it could still be read."""
    damaged_file.write_bytes(content)
    before = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
    try:
        data = load_path(path)
    except DatasetError as error:
        assert "\n" not in str(error)  # noqa: PT017
        after = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
        assert after == before
        return False
    describe(data)
    for fold in data.folds:
        assert fold.train.numel()
        assert fold.test.numel()
    return True


def forget_splits(folder: Path) -> None:
    for file in folder.rglob("*splits.json"):
        file.unlink()


@pytest.mark.parametrize("form", FORMS)
def test_damage_never_leads_to_another_error(tmp_path: Path, form: str) -> None:
    write, name = FORMS[form]
    path = write(tmp_path)
    load_path(path)  # it is good before it is damaged
    whole = (tmp_path / name).read_bytes()
    outcomes = set()
    for content in damaged(whole, random.Random(form)):
        forget_splits(tmp_path)
        outcomes.add(survives(path, tmp_path / name, content))
    assert False in outcomes


@pytest.mark.parametrize("name", ["data.pkl", "data/0", "data/1", "version", "byteorder"])
def test_damage_inside_the_zip_of_torch(tmp_path: Path, name: str) -> None:
    """A flipped bit breaks the checksum of the zip; here the checksum is right again."""
    path = write_saved(tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    [target] = [member for member in members if member.endswith(f"/{name}")]
    generator = random.Random(name)
    for content in damaged(members[target], generator):
        with zipfile.ZipFile(path, "w") as archive:
            for member, original in members.items():
                archive.writestr(member, content if member == target else original)
        survives(path, path, path.read_bytes())


@pytest.mark.parametrize("name", ["node_features", "node_labels", "edges", "train_masks"])
def test_damage_inside_the_zip_of_numpy(tmp_path: Path, name: str) -> None:
    path = write_arrays(tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    generator = random.Random(name)
    for content in damaged(members[f"{name}.npy"], generator):
        with zipfile.ZipFile(path, "w") as archive:
            for member, original in members.items():
                archive.writestr(member, content if member == f"{name}.npy" else original)
        survives(path, path, path.read_bytes())
