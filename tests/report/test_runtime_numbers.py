import json
from pathlib import Path

import pytest

from torch_grama.report.held_results import ResultFileError
from torch_grama.report.runtime_numbers import read_runtime

RESULTS = Path(__file__).parents[2] / "results" / "runtime"


def write(path: Path, **row: object) -> Path:
    fields = {"scene": "depth", "model": "GRAMA(GCN)", "width": 256, "depth": 8}
    fields |= {"train_ms": 5, "infer_ms": 2}
    path.write_text(json.dumps({"hardware": "test bench", "rows": [{**fields, **row}]}))
    return path


def test_a_row_becomes_training_and_inference(tmp_path):
    numbers = read_runtime(write(tmp_path / "times.json"))
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
    assert read_runtime(write(tmp_path / "times.json", **row)) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hardware": "a", "rows": [{}]}', "\x00"])
def test_another_file_is_named(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultFileError, match=r"other\.json: not a file of measured times"):
        read_runtime(path)


def test_the_kept_times_are_read():
    models = {n.model for path in RESULTS.glob("*.json") for n in read_runtime(path)}
    for row in ("gcn", "grama-gcn", "grama-gcn-naive", "grama-gatedgcn"):
        assert any(model.startswith(f"{row}-depth") for model in models)
