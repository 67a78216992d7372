"""A result survives its file, and a broken file is named."""

import json
import math

import pytest

from torch_grama.experiments.run import describe_environment, find_revision
from torch_grama.runs.result import Result, deviation, to_json
from torch_grama.runs.run_folder import RunError

RESULT = Result(
    data="cora",
    model="grama",
    metric="accuracy",
    higher_is_better=True,
    val=0.9,
    test=0.875,
    best_epoch=12,
    epochs=40,
    seed=1,
    fold=3,
    parameters=1234,
    seconds=5.5,
    losses={"val": 0.25},
    versions={"torch": "2"},
    hardware={"cores": "2"},
    revision="abc",
)


def test_round_trip(tmp_path):
    path = tmp_path / "result.json"
    RESULT.save(path)
    assert Result.load(path) == RESULT
    content = json.loads(path.read_text())
    assert content["test"] == 0.875
    content["unknown in this version"] = 1
    path.write_text(json.dumps(content))
    assert Result.load(path) == RESULT


def test_a_result_of_old_is_read_with_epochs_from_one(tmp_path):
    path = tmp_path / "result.json"
    content = RESULT.to_dict() | {"best_epoch": 11}
    del content["first_epoch"]
    path.write_text(json.dumps(content))
    assert Result.load(path) == RESULT


def test_a_number_that_is_none_is_valid_json(tmp_path):
    path = tmp_path / "result.json"
    Result(**RESULT.to_dict() | {"val": math.nan, "test": None}).save(path)
    assert "NaN" not in path.read_text()
    loaded = Result.load(path)
    assert math.isnan(loaded.val)
    assert loaded.test is None


def test_missing_and_broken_files_are_named(tmp_path):
    path = tmp_path / "result.json"
    with pytest.raises(RunError, match="the run is not finished"):
        Result.load(path)
    for content in ("{", "[]", '{"data": "x"}', "[" * 100_000):
        path.write_text(content)
        with pytest.raises(RunError, match="is no result of a run"):
            Result.load(path)


def test_the_environment_names_versions_and_machine(tmp_path):
    found = describe_environment()
    assert {"torch", "torch_grama", "python", "torch_geometric"} <= set(found["versions"])
    assert int(found["hardware"]["cores"]) >= 1
    # a package inside somebody else's repository does not belong to it
    (tmp_path / ".git").mkdir()
    package = tmp_path / "lib" / "site-packages" / "torch_grama"
    package.mkdir(parents=True)
    assert find_revision(package) is None
    assert find_revision(tmp_path / "src" / "torch_grama") is None


def test_json_has_no_bare_nan():
    text = to_json({"a": [math.nan, (1.5, -math.inf)], "b": {"c": math.inf}})
    assert json.loads(text, parse_constant=lambda word: pytest.fail(word)) == {
        "a": ["nan", [1.5, "-inf"]],
        "b": {"c": "inf"},
    }


def test_the_deviation_of_what_is_no_number_is_none():
    assert deviation([1.0]) is None
    assert deviation([1.0, 3.0]) == pytest.approx(2**0.5)
    assert math.isnan(deviation([1.0, math.nan]))
