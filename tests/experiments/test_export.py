"""Exported models give the numbers of the run."""

import shutil
from pathlib import Path

import pytest
import torch
from sample_data import write_node_folder

import torch_grama
from torch_grama.experiments import (
    ConfigError,
    RunError,
    describe_run,
    export_run,
    finished_run,
    load_exported,
    load_run,
    make_config,
    run_experiment,
)
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.finished_run import example_inputs


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    data = write_node_folder(folder / "data", weights=True)
    settings = {
        "data": {"name": str(data), "rwse": 3, "root": str(folder / "cache")},
        "trainer": {"max_epochs": 2, "accelerator": "cpu"},
        "model": {"hidden_channels": 8, "num_layers": 2},
    }
    run_experiment(make_config(settings), folder / "run", report="json")
    return folder / "run"


def inputs_of(run: Path, num_nodes: int = 9) -> dict[str, torch.Tensor]:
    """A graph of another size than the one a program is traced on."""
    facts = DataFacts.load(run / "data.json")
    generator = torch.Generator().manual_seed(1)
    small = example_inputs(facts)
    assert set(small) == {"x", "edge_index", "edge_weight", "pe"}
    return {
        "x": torch.randn(num_nodes, small["x"].size(1), generator=generator),
        "edge_index": torch.randint(num_nodes, (2, 20), generator=generator),
        "edge_weight": torch.rand(20, generator=generator),
        "pe": torch.rand(num_nodes, 3, generator=generator),
    }


def test_safetensors_give_the_same_numbers(run, tmp_path):
    names = [path.name for path in export_run(run, "safetensors", tmp_path / "out")]
    assert names == ["model.safetensors", "config.yaml", "data.json", "README.md"]
    assert "- outputs, in order: left, right\n" in (tmp_path / "out" / "README.md").read_text()
    inputs = inputs_of(run)
    with torch.no_grad():
        expected = load_run(run).task.model(**inputs)
        assert torch.equal(load_exported(tmp_path / "out")(**inputs), expected)


@pytest.mark.slow
def test_a_run_is_loaded_without_seeding_the_caller(run):
    before = torch.get_rng_state()
    load_run(run)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_program_gives_the_same_numbers_without_the_model(run):
    path, _, card = export_run(run, "pt2")
    inputs = inputs_of(run)
    with torch.no_grad():
        expected = load_run(run).task.model(**inputs)
        program = torch.export.load(path).module()
        torch.testing.assert_close(program(**inputs), expected)
    assert "one graph at a time" in card.read_text()


@pytest.mark.parametrize("format", ["pt2", "safetensors"])
def test_a_full_disk_leaves_no_half_export(run, tmp_path, monkeypatch, format):
    def fail(*args):
        raise OSError(28, "No space left on device")

    small = torch.export.export(torch.nn.ReLU(), (torch.zeros(1),))
    monkeypatch.setattr(finished_run, "_trace", lambda *given: small)  # takes seconds
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        export_run(run, format, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == []


def test_the_card_says_what_the_model_is(run, tmp_path):
    *_, card = export_run(run, "safetensors", tmp_path / "out")
    text = card.read_text()
    for part in (
        "`grama`",
        "left, right",
        "height, colour=blue",
        "- height: number, ",
        "- colour: words blue, red, one feature",
        "grama predict FOLDER",
        "accuracy: validation",
        "Eliasof",
    ):
        assert part in text


def test_mistakes_are_named(run, tmp_path):
    with pytest.raises(ValueError, match="Expected 'format' to be one of 'pt2'"):
        export_run(run, "pt")
    with pytest.raises(RunError, match="holds a run: choose another folder"):
        export_run(run, "safetensors", run)
    export_run(run, "safetensors", tmp_path / "out")
    weights = tmp_path / "out" / "model.safetensors"
    whole = weights.read_bytes()
    for damaged in (b"short", whole[:-1] + bytes([whole[-1] ^ 1])):
        weights.write_bytes(damaged)
        with pytest.raises(RunError, match=r"cannot be loaded .* export the run again"):
            load_exported(tmp_path / "out")
    weights.write_bytes(whole)
    config = tmp_path / "out" / "config.yaml"
    config.write_text(config.read_text().replace("act: relu", "act: tanh"))
    with pytest.raises(RunError, match=r"were changed \(model.act from .relu"):
        load_exported(tmp_path / "out")
    (run / "checkpoints" / "best.ckpt").rename(tmp_path / "best.ckpt")
    try:
        with pytest.raises(RunError, match="has no weights yet"):
            export_run(run)
    finally:
        (tmp_path / "best.ckpt").rename(run / "checkpoints" / "best.ckpt")


def test_a_run_of_version_0_1_is_refused_in_a_sentence(run, tmp_path):
    config = (run / "config.yaml").read_text()
    old = tmp_path / "old"
    shutil.copytree(run, old)
    version = f"torch_grama: {torch_grama.__version__}"
    assert version in config
    text = config.replace(version, "torch_grama: 0.1.0").replace("constraint:", "normalization:")
    (old / "config.yaml").write_text(text)
    sentence = "made by version 0.1.0, whose model 'grama' was another: train it again, or install"
    for use in (load_run, load_exported):
        with pytest.raises(RunError, match=sentence):
            use(old)
    assert describe_run(old)["state"] == "finished"  # its files can be read all the same
    (old / "config.yaml").write_text(text.replace("name: grama", "name: gcn"))
    with pytest.raises(ConfigError, match="no setting"):  # of another model
        load_run(old)
