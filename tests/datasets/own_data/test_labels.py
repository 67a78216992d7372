import numpy as np
import pytest
import torch

from torch_grama.datasets import DatasetError
from torch_grama.datasets.options import Options
from torch_grama.datasets.own_data.labels import (
    labels_from_numbers,
    labels_from_tags,
    labels_from_text,
)


def place(item):
    return f"item {item}"


def kind_of(cells, **options):
    return labels_from_text(cells, place, Options(**options)).kind


def test_when_integers_are_classes():
    assert kind_of(["7", "7", "9", "9"]) == "classification"  # each twice
    assert kind_of(["0", "1", "2"]) == "classification"  # counted from 0
    assert kind_of(["7", "8", "9"]) == "regression"  # each once
    assert kind_of(["1", "-1"] * 2) == "classification"
    assert kind_of([str(n % 50) for n in range(500)]) == "classification"
    assert kind_of([str(n % 51) for n in range(500)]) == "regression"
    assert kind_of([str(10**18), str(10**18)] * 2) == "regression"


def test_when_texts_are_classes():
    assert kind_of(["a", "1", "2"]) == "classification"
    with pytest.raises(DatasetError, match="60 different texts for 60 items"):
        kind_of([f"name {n}" for n in range(60)])
    assert kind_of([f"name {n}" for n in range(60)], kind="classification") == "classification"
    assert kind_of(["1.5", "2.5"], kind="classification") == "classification"
    assert kind_of([f"name {n}" for n in range(60)] * 2) == "classification"


def test_classes_are_numbered_by_value():
    labels = labels_from_text(["10", "9", "10", "9", ""], place, Options())
    assert labels.class_names == ("9", "10")
    assert labels.y.tolist() == [1, 0, 1, 0, -1]
    assert labels.labelled.tolist() == [True] * 4 + [False]


def test_a_quantity_keeps_its_gaps():
    labels = labels_from_text(["1.5", "", "-2e3"], place, Options())
    assert labels.y[[0, 2]].tolist() == [[1.5], [-2000.0]]
    assert bool(labels.y[1].isnan())
    assert labels.y.dtype == torch.float32
    assert labels.num_outputs == 1


def test_numbers_of_all_types():
    expected = dict.fromkeys((np.int8, np.uint16, np.int64, bool), ("classification", 2))
    expected |= dict.fromkeys((np.float16, np.float64), ("regression", 1))
    for dtype, found in expected.items():
        labels = labels_from_numbers(np.array([0, 1, 1], dtype=dtype), place, Options())
        assert (labels.kind, labels.num_outputs) == found


def test_class_numbers_given_as_quantities():
    labels = labels_from_numbers(
        np.array([0.0, 1.0, np.nan]), place, Options(kind="classification")
    )
    assert labels.y.tolist() == [0, 1, -1]
    with pytest.raises(DatasetError, match=r"item 1 has the label 0\.5"):
        labels_from_numbers(np.array([0.0, 0.5]), place, Options(kind="classification"))


def test_flags_need_a_name_each():
    flags = np.array([[0, 1], [1, 1]])
    assert labels_from_numbers(flags, place, Options(classes=("a", "b"))).class_names == ("a", "b")
    with pytest.raises(DatasetError, match="got 1 names for 2 flags"):
        labels_from_numbers(flags, place, Options(classes=("a",)))
    with pytest.raises(DatasetError, match=r"item 1 has the flags \[1, 2\]"):
        labels_from_numbers(np.array([[0, 1], [1, 2]]), place, Options(kind="multilabel"))


def test_a_class_without_items_is_possible():
    labels = labels_from_numbers(np.array([0, 2, 2]), place, Options())
    assert labels.num_outputs == 3
    with pytest.raises(DatasetError, match="no label"):
        labels_from_numbers(np.array([np.nan, np.nan]), place, Options())


def test_names_of_flags():
    labels = labels_from_tags([["b"], None, ["a", "b"]], place, Options())
    assert labels.class_names == ("a", "b")
    assert labels.y[[0, 2]].tolist() == [[0, 1], [1, 1]]
    assert bool(labels.y[1].isnan().all())
    many = Options(classes=tuple("abcdefghij"))
    with pytest.raises(DatasetError, match=r"item 0 has the label 'z', .*'h', \.\.\.: correct"):
        labels_from_tags([["z"]], place, many)
