import json
import re
from pathlib import Path

import pytest
from result_files import write_result

from torch_grama.report.comparison import choose_number
from torch_grama.report.held_results import (
    explain_old,
    gather,
    read_run,
    read_runtime,
)
from torch_grama.runs.run_folder import RunError

RUNTIME = Path(__file__).parents[2] / "src" / "torch_grama" / "results" / "runtime"


def test_runs_of_one_cell_are_gathered(tmp_path):
    for fold, test in enumerate((0.7, 0.8, 0.9)):
        write_result(tmp_path, fold=fold, test=test)
    write_result(tmp_path, model="gatedgcn")
    write_result(tmp_path, budget="smoke", test=0.1)
    numbers, faults = gather([tmp_path])
    assert faults == []
    number = choose_number(numbers, "hetero", "minesweeper", "gcn")
    assert (number.budget, len(number.runs)) == ("full", 3)
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


@pytest.mark.parametrize(
    ("config", "version", "count"),
    [
        ("{data: {fold: 1}, optimizer: {lr: 0.1}, seed: 5}", "0.2.0", 2),
        ("{data: {fold: 1}, optimizer: {lr: 0.2}, seed: 5}", "0.2.0", 1),
        ("{data: {fold: 1}, optimizer: {lr: 0.1}, seed: 5}", "0.1.0", 1),
    ],
)
def test_runs_of_two_folders_are_averaged_only_if_they_are_alike(tmp_path, config, version, count):
    for name, fold, own, made_by in (
        ("a", 0, "{data: {fold: 0}, optimizer: {lr: 0.1}}", "0.2.0"),
        ("b", 1, config, version),
    ):
        versions = {"torch_grama": made_by}
        path = write_result(tmp_path / name, model="grama-gcn", fold=fold, versions=versions)
        path.with_name("config.yaml").write_text(own)
    (number,), _ = gather([tmp_path / "a", tmp_path / "b"])
    assert [run.fold for run in number.runs] == [0, 1][:count]


def test_committed_files_lie_flat(tmp_path):
    path = write_result(tmp_path)
    flat = tmp_path / "hetero" / "full" / "minesweeper" / "gcn" / "fold4-seed0.json"
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


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_broken_files_are_named(tmp_path, text):
    path = write_result(tmp_path)
    path.write_text(text)
    numbers, faults = gather([tmp_path])
    assert numbers == []
    assert len(faults) == 1
    assert f"'{path}' is no result of a run" in faults[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "'val' is None"),
        ("0.9", "'val' is '0.9'"),
        (True, "'val' is True"),
        (float("nan"), "'val' to be a number"),
    ],
)
def test_a_value_that_is_no_number_is_refused(tmp_path, value, message):
    path = write_result(tmp_path)
    record = json.loads(path.read_text()) | {"val": value}
    path.write_text(json.dumps(record))
    with pytest.raises(RunError, match=re.escape(message)):
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


def write_times(path: Path, **row: object) -> Path:
    fields = {"scene": "depth", "model": "GRAMA(GCN)", "width": 256, "depth": 8}
    fields |= {"train_ms": 5, "infer_ms": 2}
    path.write_text(json.dumps({"hardware": "test bench", "rows": [{**fields, **row}]}))
    return path


def test_a_row_becomes_training_and_inference(tmp_path):
    numbers = read_runtime(write_times(tmp_path / "times.json"))
    assert {(n.data, n.metric): n.mean for n in numbers} == {
        ("training", "training_ms"): 5,
        ("inference", "inference_ms"): 2,
    }
    for number in numbers:
        assert (number.suite, number.model) == ("runtime", "grama-gcn-depth8")
        assert number.runs[0].hardware == number.budget == "test bench"


@pytest.mark.parametrize(
    "row", [{"scene": "width"}, {"model": "PyG GCN, as shipped"}, {"width": 64}]
)
def test_other_scenes_models_and_widths_are_left_out(tmp_path, row):
    assert read_runtime(write_times(tmp_path / "times.json", **row)) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hardware": "a", "rows": [{}]}', "\x00"])
def test_another_file_is_named(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(RunError, match=r"other\.json: not a file of measured times"):
        read_runtime(path)


def test_the_kept_times_are_read():
    models = {n.model for path in RUNTIME.glob("*.json") for n in read_runtime(path)}
    for row in ("gcn", "grama-gcn", "grama-gcn-naive", "grama-gatedgcn"):
        assert any(model.startswith(f"{row}-depth") for model in models)
