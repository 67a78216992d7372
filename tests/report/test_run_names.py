"""Runs of one page can be told apart by their names."""

import time

import pytest

from torch_grama.report.run_names import name_apart
from torch_grama.runs.run_files import RunFiles


def names(root, *places):
    runs = [RunFiles(root / place, (root / place).name) for place in places]
    return [run.name for run in name_apart(runs)]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["gcn/fold0", "grama/fold0"], ["gcn/fold0", "grama/fold0"]),
        (["gcn/fold0", "grama/fold0", "own"], ["gcn/fold0", "grama/fold0", "own"]),
        (["x/gcn/fold0", "y/gcn/fold0"], ["x/gcn/fold0", "y/gcn/fold0"]),
        (["gcn/fold0", "gcn/fold0"], ["fold0", "fold0"]),  # one run, named twice
    ],
)
def test_outer_folders_are_added_where_names_agree(tmp_path, places, expected):
    assert names(tmp_path, *places) == expected


def test_many_runs_take_no_time(tmp_path):
    start = time.perf_counter()
    found = names(tmp_path, *(f"model{index}/fold0" for index in range(1000)))
    assert len(set(found)) == 1000
    assert time.perf_counter() - start < 2
