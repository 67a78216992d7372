"""Damaged files: whatever is in them, a reader answers with data or with a DatasetError."""

import random
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import LONGEST, Tally, counts, damage_bytes
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


def write_parquet(folder: Path) -> Path:
    pandas = pytest.importorskip("pandas")
    tables = write_tables(folder)
    for name in ("nodes", "edges"):
        pandas.read_csv(tables / f"{name}.csv").to_parquet(tables / f"{name}.parquet")
        (tables / f"{name}.csv").unlink()
    return tables


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
    "parquet": (write_parquet, "tables/nodes.parquet"),
    "jsonl": (write_lines, "graphs.jsonl"),
    "npz": (write_arrays, "graph.npz"),
    "compressed npz": (lambda folder: write_arrays(folder, compressed=True), "graph.npz"),
    "pt": (write_saved, "graphs.pt"),
    "old pt": (lambda folder: write_saved(folder, legacy=True), "graphs.pt"),
}


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


@counts(40, 700)
@pytest.mark.parametrize("form", FORMS)
def test_damage_never_leads_to_another_error(tmp_path: Path, form: str, tries: int) -> None:
    write, name = FORMS[form]
    path = write(tmp_path)
    load_path(path)  # it is good before it is damaged
    whole = (tmp_path / name).read_bytes()
    draw, outcomes, tally = random.Random(form), set(), Tally(f"damaged {form}")
    for _ in range(tries):
        forget_splits(tmp_path)
        with tally.one(form):
            outcomes.add(survives(path, tmp_path / name, damage_bytes(whole, draw)))
    tally.close()
    assert False in outcomes


@counts(20, 600)
@pytest.mark.parametrize(
    ("form", "name"),
    [
        *(("pt", f"/{name}") for name in ("data.pkl", "data/0", "data/1", "version", "byteorder")),
        *(("npz", f"{name}.npy") for name in ("node_features", "node_labels", "edges")),
        ("npz", "train_masks.npy"),
    ],
)
def test_damage_inside_an_archive(tmp_path: Path, form: str, name: str, tries: int) -> None:
    """A flipped bit breaks the checksum of the zip; here the checksum is right again."""
    path = FORMS[form][0](tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    [target] = [member for member in members if member.endswith(name)]
    draw, tally = random.Random(name), Tally(f"damaged {name} of {form}")
    for _ in range(tries):
        content = damage_bytes(members[target], draw)
        with zipfile.ZipFile(path, "w") as archive:
            for member, original in members.items():
                archive.writestr(member, content if member == target else original)
        with tally.one(name):
            survives(path, path, path.read_bytes())
    tally.close()


def expanded(**stored: object) -> Data:
    data = graph()
    data._store._mapping.update(stored)
    return data


def save_pt(folder: Path, stored: object) -> Path:
    torch.save(stored, folder / "bomb.pt")
    return folder / "bomb.pt"


def save_zeros(folder: Path) -> Path:
    np.savez_compressed(
        folder / "bomb.npz",
        node_features=np.zeros((2**24, 5), np.float32),
        node_labels=np.zeros(1),
        edges=np.zeros((1, 2), np.int64),
    )
    return folder / "bomb.npz"


def save_parquet(folder: Path, **columns: object) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    rows = len(next(iter(columns.values())))
    nodes = {"id": np.arange(rows), "label": np.arange(rows) % 2, **columns}
    for name, table in (("nodes", nodes), ("edges", {"source": [0, 1], "target": [1, 0]})):
        (folder / "bomb").mkdir(exist_ok=True)
        path = folder / "bomb" / f"{name}.parquet"
        parquet.write_table(pyarrow.table(table), path, compression="zstd", store_schema=False)
    return folder / "bomb"


def save_words(folder: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    once = pyarrow.DictionaryArray.from_arrays(np.zeros(2000, np.int32), ["x" * 10**6])
    return save_parquet(folder, x=once)


def save_text(folder: Path, lines: Iterable[str]) -> Path:
    (folder / "bomb.jsonl").write_text("\n".join(lines))
    return folder / "bomb.jsonl"


WIDE = torch.zeros(5000, 8)
COUNTED = '{"num_nodes": 16777215, "edges": [], "label": 1}'
BOMBS: dict[str, tuple[Callable[[Path], Path], bool]] = {
    "an expanded tensor": (
        lambda f: save_pt(f, expanded(x=torch.zeros(1, 8).expand(2**28, 8))), True
    ),
    "a count alone": (lambda f: save_pt(f, Data(edge_index=EDGES, num_nodes=2**30)), True),
    "one tensor in many graphs": (
        lambda f: save_pt(f, [Data(x=WIDE, edge_index=EDGES, y=WIDE[0, :1])] * 2500),
        True,
    ),
    "compressed zeros": (save_zeros, True),
    "counts in lines": (lambda f: save_text(f, [COUNTED] * 60), True),
    "a count in a line": (lambda f: save_text(f, [COUNTED] * 3), True),
    "empty lists": (
        lambda f: save_text(f, [f'{{"x": [{"[]," * 5_000_000}[]], "edges": [], "label": 1}}']), True
    ),
    "a long line": (lambda f: save_text(f, [" " * (2**26 + 1) + COUNTED]), True),
    "columns of zeros": (
        lambda f: save_parquet(f, **{f"x{n}": np.zeros(2**22) for n in range(10)}), True
    ),
    "a word again and again": (save_words, False),
    "14,000 columns": (
        lambda f: save_parquet(f, **{f"x{n}": np.arange(6.0) for n in range(14_000)}), False
    ),
    "many small numbers": (
        lambda f: save_text(f, [f'{{"x": [{"1," * 10**5}1], "edges": [], "label": {n}}}' for n in
                                (0, 1) * 3]), False
    ),
}  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read in /proc")
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_takes_little_memory(tmp_path: Path, bomb: str) -> None:
    write, is_refused = BOMBS[bomb]
    path = write(tmp_path)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before, begun = peak(), time.process_time()
    if is_refused:
        with pytest.raises(DatasetError) as caught:
            load_path(path)
        assert str(path) in str(caught.value)
    else:
        load_path(path)
    assert time.process_time() - begun < LONGEST
    stored = sum(file.stat().st_size for file in (path, *path.rglob("*")))
    assert peak() - before < 4 * stored + 2**30


def peak() -> int:
    [line] = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) * 1024


def test_more_than_the_machine_has_is_refused(tmp_path: Path, monkeypatch) -> None:
    for number, (write, name) in enumerate(FORMS.values()):
        (tmp_path / str(number)).mkdir()
        path = write(tmp_path / str(number))
        monkeypatch.setattr("torch_grama.datasets.raw_arrays.free_memory", lambda: 10)
        if not name.endswith("splits.json"):
            with pytest.raises(DatasetError, match="10 bytes are free"):
                load_path(path)
        monkeypatch.undo()
