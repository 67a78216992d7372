import json

import pytest
from result_files import write_result

from torch_grama.report.held_results import (
    ResultFileError,
    choose_number,
    explain_old,
    gather,
    read_run,
)


def test_runs_of_one_cell_are_gathered(tmp_path):
    for fold, test in enumerate((0.7, 0.8, 0.9)):
        write_result(tmp_path, fold=fold, test=test)
    write_result(tmp_path, model="gatedgcn")
    write_result(tmp_path, budget="smoke", test=0.1)
    numbers, faults = gather([tmp_path])
    assert faults == []
    number = choose_number(numbers, "hetero", "minesweeper", "gcn")
    assert (number.budget, len(number.runs)) == ("paper", 3)
    assert number.mean == pytest.approx(80)
    assert number.deviation == pytest.approx(10)
    assert number.validation == pytest.approx(90)
    assert choose_number(numbers, "hetero", "minesweeper", "gcn", "smoke").mean == pytest.approx(10)
    assert choose_number(numbers, "hetero", "minesweeper", "gat") is None
    assert choose_number(numbers, "hetero", "minesweeper", "gcn", "short") is None


def test_a_run_in_two_folders_counts_once(tmp_path):
    write_result(tmp_path / "a", test=0.7)
    write_result(tmp_path / "b", test=0.8)
    write_result(tmp_path / "b", fold=1, test=0.9)
    numbers, _ = gather([tmp_path / "a", tmp_path / "b", tmp_path / "absent"])
    assert numbers[0].tests == pytest.approx([70, 90])


def test_committed_files_lie_flat(tmp_path):
    path = write_result(tmp_path)
    flat = tmp_path / "hetero" / "paper" / "minesweeper" / "gcn" / "fold4-seed0.json"
    flat.write_text(path.read_text().replace('"fold": 0', '"fold": 4'))
    (number,), _ = gather([tmp_path])
    assert [run.fold for run in number.runs] == [0, 4]


def test_other_files_of_a_run_are_passed_over(tmp_path):
    path = write_result(tmp_path)
    (path.parent / "analysis.json").write_text("not a result")
    (path.parents[1] / "fold1-seed0.failure.json").write_text('{"error": "of a run"}')
    (number,), faults = gather([tmp_path])
    assert len(number.runs) == 1
    assert faults == []


def test_a_run_without_test_value_has_no_mean(tmp_path):
    write_result(tmp_path, test=None)
    (number,), _ = gather([tmp_path])
    assert number.mean is None
    assert number.deviation is None
    assert number.validation == pytest.approx(90)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no result of a run"),
        ("[]", "is no result of a run"),
        ("{}", "is no result of a run"),
    ],
)
def test_broken_files_are_named(tmp_path, text, message):
    path = write_result(tmp_path)
    path.write_text(text)
    with pytest.raises(ResultFileError, match=message):
        read_run(path)
    numbers, faults = gather([tmp_path])
    assert numbers == []
    assert len(faults) == 1
    assert str(path) in faults[0]


@pytest.mark.parametrize("value", [None, "0.9", True, float("nan")])
def test_a_value_that_is_no_number_is_refused(tmp_path, value):
    path = write_result(tmp_path)
    record = json.loads(path.read_text()) | {"val": value}
    path.write_text(json.dumps(record))
    with pytest.raises(ResultFileError, match="'val' to be a number"):
        read_run(path)


@pytest.mark.parametrize(
    ("model", "version", "old"),
    [
        ("grama-gcn", "0.1.0", "0.1.0"),
        ("grama", "0.2.0", ""),
        ("grama", "0.10.1", ""),
        ("grama", "", ""),
        ("gcn", "0.1.0", ""),
    ],
)
def test_a_number_is_old_if_its_model_changed_since(tmp_path, model, version, old):
    write_result(tmp_path, model=model, versions={"torch_grama": version})
    write_result(tmp_path, model=model, seed=1, versions={"torch_grama": "0.2.0"})
    (number,), _ = gather([tmp_path])
    assert number.old_version == old
    assert explain_old([number]).startswith("† made by version 0.1.0" if old else "")
    assert bool(explain_old([number])) == bool(old)
