import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.datasets import DatasetError
from torch_grama.datasets.splits import make_split, stored_split


def listed(split):
    return [part.tolist() for part in split.parts]


@given(
    counts=st.lists(st.integers(3, 40), min_size=1, max_size=6),
    seed=st.integers(0, 2**70),
    cut=st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8)),
)
def test_every_class_is_divided_alike(counts, seed, cut):
    fractions = tuple(part / sum(cut) for part in cut)
    classes = np.repeat(np.arange(len(counts)), counts)
    items = np.arange(len(classes)) * 3
    split = make_split(items, classes, fractions=fractions, seed=seed)

    parts = [part.numpy() for part in split.parts]
    assert np.array_equal(np.sort(np.concatenate(parts)), items)
    for part, fraction in zip(parts, fractions, strict=True):
        assert np.array_equal(part, np.sort(part))
        for label, count in enumerate(counts):
            found = int((classes[part // 3] == label).sum())
            assert found >= 1
            assert abs(found - fraction * count) < 2.0


def test_sizes_follow_the_fractions_of_the_whole():
    classes = np.arange(1000) % 7
    split = make_split(np.arange(1000), classes)
    assert [len(part) for part in split.parts] == [600, 200, 200]


def test_the_seed_alone_decides():
    items = np.arange(200)
    first, again, other = (make_split(items, seed=seed) for seed in (1, 1, 2))
    assert listed(first) == listed(again)
    assert first.train.tolist() != other.train.tolist()
    # Nodes with small numbers are no likelier to be trained on than others.
    assert 80 < first.train.double().mean() < 120


def test_the_order_of_the_items_does_not_matter():
    items = np.arange(60)
    classes = items % 3
    shuffle = np.random.default_rng(0).permutation(60)
    shuffled = make_split(items[shuffle], classes[shuffle])
    assert listed(make_split(items, classes)) == listed(shuffled)


def hashed(item, seed):
    word = ((item + 1) * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03) % 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


@pytest.mark.parametrize("seed", [0, 7, 2**64 + 5])
def test_the_order_is_that_of_the_documented_hash(seed):
    order = sorted(range(10), key=lambda item: hashed(item, seed))
    expected = [sorted(part) for part in (order[:6], order[6:8], order[8:])]
    assert listed(make_split(np.arange(10), seed=seed)) == expected


def test_a_class_that_is_too_small_is_named():
    classes = np.array([0, 0, 0, 1, 1])
    with pytest.raises(DatasetError, match=r"got 2 of class 'rare'.*`-o stratify=false`"):
        make_split(np.arange(5), classes, class_names=("common", "rare"))
    with pytest.raises(DatasetError, match="got 2 of class 1"):
        make_split(np.arange(5), classes)
    with pytest.raises(DatasetError, match=r"at least 3 graphs .*got 2"):
        make_split(np.arange(2), what="graphs")


@pytest.mark.parametrize(
    "fractions", [(0.5, 0.5), (0.5, 0.5, 0.0), (0.6, 0.3, 0.2), (2, -0.5, -0.5)]
)
def test_fractions_are_checked(fractions):
    with pytest.raises(ValueError, match="sum to 1"):
        make_split(np.arange(9), fractions=fractions)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "splits.json"


def ask(path, items="data", seed=0, targets="labels", num_items=20):
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


def test_a_division_is_kept_and_found_again(path):
    train, val, test = listed(ask(path))
    assert [file.name for file in path.parent.iterdir()] == ["splits.json"]
    table = json.loads(path.read_text())
    [division] = table["divisions"].values()
    division["train"], division["val"] = division["val"], division["train"]
    path.write_text(json.dumps(table))
    # what is stored counts, not what would be made
    assert listed(ask(path)) == [val, train, test]


def test_processes_do_not_forget_each_others_divisions(path):
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda seed: ask(path, seed=seed), range(12)))
    assert len(json.loads(path.read_text())["divisions"]) == 12
    assert ask(path, seed=3).train.tolist() == make_split(np.arange(20), seed=3).train.tolist()


def test_other_data_is_refused(path):
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
def test_a_broken_file_is_named(path, content, sentence):
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
def test_a_division_that_cannot_be_is_refused(path, change, sentence):
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


def test_a_folder_that_cannot_be_written_to_still_gives_a_division(tmp_path):
    path = tmp_path / "missing" / "splits.json"
    split, trouble = stored_split(
        path, "key", lambda: make_split(np.arange(20)), num_items=20, items="data", targets="labels"
    )
    assert split.train.tolist() == make_split(np.arange(20)).train.tolist()
    assert trouble is not None
    assert str(path) in trouble


def test_a_folder_in_place_of_the_file(path):
    path.mkdir()
    with pytest.raises(DatasetError, match="Cannot read"):
        ask(path)
