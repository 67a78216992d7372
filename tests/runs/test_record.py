"""JSON of any form: what was not asked for is missing."""

import pytest

from torch_grama.runs.safe_files import Record


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (True, None), ("1", None), (None, None), (float("inf"), None), (2.5, 2.5)],
)
def test_what_counts_as_a_number(value, number):
    assert Record({"a": value}).number("a") == number


def test_ragged_lists_are_no_matrix():
    assert Record({"a": [1, "a", None, 2.00001]}).row("a") == [1.0, None, None, 2.0]
    assert Record({"a": [[1, 2], [3]]}).matrix("a") == []
    assert Record({"a": [[[1]], [[1, 2]]]}).cube("a") == []
    assert Record({"a": [[[1]], [[2]]]}).cube("a") == [[[1.0]], [[2.0]]]


@pytest.mark.parametrize("value", [None, 1, "text", [1], {"b": 1}])
def test_another_form_is_missing(value):
    record = Record({"a": value})
    assert record.word("a", "none") == (value if value == "text" else "none")
    assert bool(record.part("a")) == (value == {"b": 1})
    assert record.parts("a") == []
    assert record.items("a") == (value if value == [1] else [])
    assert not Record([record])
