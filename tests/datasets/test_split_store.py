import json
import threading
from pathlib import Path

import numpy as np
import pytest

from torch_grama.datasets import DatasetError
from torch_grama.datasets.splits import Split, fingerprint, make_split, stored_split


def ask(
    path: Path, items: str = "data", seed: int = 0, targets: str = "labels", num_items: int = 20
) -> Split:
    split, trouble = stored_split(
        path,
        f"seed {seed}",
        lambda: make_split(np.arange(num_items), seed=seed),
        num_items=num_items,
        items=items,
        targets=targets,
    )
    assert trouble is None
    return split


def test_a_division_is_kept_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    first = ask(path)
    assert [file.name for file in tmp_path.iterdir()] == ["splits.json"]
    table = json.loads(path.read_text())
    [division] = table["divisions"].values()
    division["train"], division["val"] = division["val"], division["train"]
    path.write_text(json.dumps(table))
    again = ask(path)  # what is stored counts, not what would be made
    assert again.train.tolist() == first.val.tolist()
    assert again.val.tolist() == first.train.tolist()
    assert again.test.tolist() == first.test.tolist()


def test_keys_lie_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    kept = [ask(path, seed=seed).train.tolist() for seed in range(4)]
    assert len(json.loads(path.read_text())["divisions"]) == 4
    assert [ask(path, seed=seed).train.tolist() for seed in range(4)] == kept


def test_processes_do_not_forget_each_others_divisions(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    threads = [threading.Thread(target=ask, args=(path, "data", seed)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(path.read_text())["divisions"]) == 12


def test_other_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    ask(path)
    before = path.read_bytes()
    with pytest.raises(DatasetError, match=r"splits\.json' holds splits of other data.*delete"):
        ask(path, items="changed")
    with pytest.raises(DatasetError, match=r"the labels have changed.*delete"):
        ask(path, targets="changed")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no file of splits"),
        (b"{", "no file of splits"),
        (b"\xff\xfe", "no file of splits"),
        (b"[" * 100_000, "no file of splits"),
        (b"[]", "format 1"),
        (b'{"format": 2}', "format 1"),
        (b'{"format": 1, "items": "data"}', "'divisions' is missing"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "splits.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=sentence):
        ask(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"train": [0, 20]}, "'train'.*valid indices"),
        ({"val": [-1]}, "'val'.*valid indices"),
        ({"test": []}, "'test'.*valid indices"),
        ({"test": None}, "'test'.*valid indices"),
        ({"test": [1.0]}, "'test'.*valid indices"),
        ({"test": [True]}, "'test'.*valid indices"),
        ({"train": [1], "val": [2], "test": [1]}, "overlap"),
    ],
)
def test_a_division_that_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    path = tmp_path / "splits.json"
    ask(path)
    table = json.loads(path.read_text())
    [key] = table["divisions"]
    table["divisions"][key].update(change)
    path.write_text(json.dumps(table))
    with pytest.raises(DatasetError, match=sentence):
        ask(path)
    table["divisions"][key] = 7
    path.write_text(json.dumps(table))
    with pytest.raises(DatasetError, match="'train'"):
        ask(path)


def test_a_folder_that_cannot_be_written_to_still_gives_a_division(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "splits.json"
    split, trouble = stored_split(
        path,
        "key",
        lambda: make_split(np.arange(20)),
        num_items=20,
        items="data",
        targets="labels",
    )
    assert split.train.tolist() == make_split(np.arange(20)).train.tolist()
    assert trouble is not None
    assert str(path) in trouble


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "splits.json").mkdir()
    with pytest.raises(DatasetError, match="Cannot read"):
        ask(tmp_path / "splits.json")


def test_fingerprints_tell_data_apart() -> None:
    same = fingerprint(["nodes", np.arange(4)])
    assert same == fingerprint(["nodes", np.arange(8)[:4]])
    assert same == fingerprint(["nodes", np.arange(4).astype(">i8")])
    others = [
        ["node", np.arange(4)],
        ["nodes", np.arange(5)],
        ["nodes", np.arange(4).reshape(2, 2)],
        ["nodes", np.arange(4).astype(np.int32)],
        ["nodes", np.arange(4).astype(float)],
        [np.arange(4), "nodes"],
        ["nodes"],
    ]
    assert len({same, *(fingerprint(other) for other in others)}) == len(others) + 1
