"""The file of coefficients: one line an epoch, whole after a resumption, never in the way."""

import json

import pytest
import torch
from sample_data import small_config, write_node_folder

from torch_grama.experiments import run_experiment
from torch_grama.experiments.finished_run import load_run
from torch_grama.experiments.run import CoefficientCallback, _keep_lines_before


def config_for(data, model="grama"):
    options = {"seq_len": 2, "num_blocks": 2, "gain": None} if model == "grama" else {}
    return small_config(data, model, 3, **options)


@pytest.fixture
def data(tmp_path):
    return write_node_folder(tmp_path / "data", num_nodes=20)


def read_lines(folder):
    return [json.loads(line) for line in (folder / "coefficients.jsonl").read_text().splitlines()]


def test_one_line_an_epoch_with_every_block(data, tmp_path):
    run_experiment(config_for(data), tmp_path / "run", report="quiet")
    lines = read_lines(tmp_path / "run")
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert all([block["block"] for block in line["blocks"]] == [0, 1] for line in lines)
    # coefficients that sum to one have a pole at one
    assert sum(lines[-1]["blocks"][0]["phi"]) == pytest.approx(1, abs=1e-3)
    assert lines[-1]["blocks"][0]["max_radius"] == pytest.approx(1, abs=1e-3)


def test_watching_changes_no_weight(data, tmp_path):
    for name, watched in (("with", True), ("without", False)):
        run_experiment(config_for(data), tmp_path / name, report="quiet", log_coefficients=watched)
    assert not (tmp_path / "without" / "coefficients.jsonl").exists()
    one, other = (load_run(tmp_path / name).task.state_dict() for name in ("with", "without"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_other_models_have_no_such_file(data, tmp_path):
    run_experiment(config_for(data, model="gcn"), tmp_path / "run", report="quiet")
    assert not (tmp_path / "run" / "coefficients.jsonl").exists()


def test_a_resumed_run_drops_what_it_runs_again(tmp_path):
    path = tmp_path / "coefficients.jsonl"
    lines = [{"epoch": epoch, "first_epoch": 1, "blocks": []} for epoch in range(1, 6)]
    whole = "".join(f"{json.dumps(line)}\n" for line in lines)
    path.write_text(whole + '{"epoch": 6, "blo')
    _keep_lines_before(path, 9)
    assert path.read_text() == whole
    _keep_lines_before(path, 2)
    assert [line["epoch"] for line in read_lines(tmp_path)] == [1, 2]
    path.write_text('{"epoch": 0, "blocks": []}\n{"epoch": 1, "blocks": []}\n')  # as of old
    _keep_lines_before(path, 1)
    assert read_lines(tmp_path) == [{"epoch": 1, "first_epoch": 1, "blocks": []}]
    _keep_lines_before(path, 0)
    assert path.read_text() == ""


@pytest.mark.parametrize(("max_epochs", "stride"), [(1, 1), (200, 1), (201, 2), (2000, 10)])
def test_a_long_run_leaves_epochs_out(tmp_path, max_epochs, stride):
    assert CoefficientCallback(tmp_path, max_epochs)._stride == stride
