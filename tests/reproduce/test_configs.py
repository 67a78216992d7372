"""Every number that is kept has a file of settings that repeats it."""

from pathlib import Path

import pytest

from torch_grama.cli import main
from torch_grama.experiments.config import RunConfig
from torch_grama.experiments.settings import check_settings, read_file
from torch_grama.reproduce.suite import CONFIGS, RESULTS, find_config

KEPT = sorted(RESULTS.glob("*/*/*/*/config.yaml"))
# Which run of the row, and where and how it is computed: of no effect on its numbers.
NOT_OF_THE_ROW = {
    *("data.fold", "data.root", "seed", "test", "trainer.accelerator", "trainer.capture"),
    *("trainer.devices", "trainer.num_workers", "trainer.save_every"),
}
# GRAMA's settings of version 0.1, by which all rows were made: what they are called now ...
RENAMED = {
    "model.normalization": "model.constraint",
    "model.checkpoint_blocks": "model.recompute",
    "model.initial_poles": "model.poles",
}
# ... those that had one value and are gone ...
GONE = {
    "model.carry_edge_state": True,
    "model.embedding_layers": 1,
    "model.heads": 1,
    "model.initial_residuals": "difference",
}
# ... and the backbones that are options now.
BACKBONES = {
    "gcn-root": ("gcn", {"root": True}),
    "gatedgcn-plain": ("gatedgcn", {"norm": None}),
    "gatedgcn-sum": ("gatedgcn", {"norm": None, "normalize_gates": False}),
    "gin-multi": ("gin", {"aggregation": "multi", "norm": None}),
    "gps-pre": ("gps", {"pre_norm": True}),
    "gps-sum": ("gps", {"local": "gin"}),
    "gps-sum-pre": ("gps", {"local": "gin", "pre_norm": True}),
    "gps-multi-pre": ("gps", {"local": "gin", "aggregation": "multi", "pre_norm": True}),
}


def config_of(result: Path) -> Path:
    suite, _, data, model = result.parent.parts[-4:]
    return CONFIGS / suite / f"{data}-{model}.yaml"


def settings_of(result: Path) -> dict[str, object]:
    """What a row was made with, in the words of this version."""
    used = {k: v for k, v in read_file(result).items() if k not in NOT_OF_THE_ROW}
    if used.get("model.normalization") is None:
        return used
    for name, value in GONE.items():
        assert used.pop(name) == value
    used = {RENAMED.get(name, name): value for name, value in used.items()}
    backbone, options = BACKBONES.get(used["model.backbone"], (used["model.backbone"], {}))
    used |= {"model.backbone": backbone, "model.backbone_options": options}
    if used["model.gain"] == "auto":
        # a series has the length of its lags, which are 4
        length = used["model.seq_len"] or used["model.num_layers"] or 4
        recurrences = used["model.num_recurrences"] or length
        used["model.gain"] = 1 / (recurrences * (used["model.num_blocks"] or 1))
    return used


@pytest.mark.no_cover
@pytest.mark.parametrize("result", KEPT, ids=lambda path: "/".join(path.parent.parts[-4:]))
def test_a_file_states_what_its_result_was_made_with(result):
    stated = read_file(config_of(result))
    for name, value in settings_of(result).items():
        if name == "model.gain":
            value = pytest.approx(value, abs=1e-6)
        if name == "model.backbone_options":
            # that of the model reached a backbone nowhere before version 0.2
            own = {k: v for k, v in (stated[name] or {}).items() if k != "dropout"}
            assert own == (value or {})
        else:
            assert stated[name] == value, name
    config = RunConfig.from_settings(check_settings(("in the file", stated)))
    assert (config.data.fold, config.seed) == (0, 0)


def test_there_is_no_file_without_a_result():
    rows = {path for path in CONFIGS.glob("*/*-*.yaml") if path.parent.name != "spaces"}
    assert rows == {config_of(result) for result in KEPT}


@pytest.mark.usefixtures("small_transfer")
def test_a_row_is_trained_from_its_file_alone(tmp_path, capsys):
    row = "transfer/transfer-line-3-gcn"
    few = ["--trainer.max_epochs", "2", "--trainer.batch_size", "512", "--quiet"]
    assert main(["train", "--config", row, "--run", str(tmp_path / "run"), *few]) == 0
    assert "transfer-line-3, fold 0" in capsys.readouterr().out
    trained = read_file(tmp_path / "run" / "config.yaml")
    changed = {"trainer.max_epochs", "trainer.batch_size"}
    for name, value in read_file(find_config(row)).items():
        assert trained[name] == value or name in changed, name


def test_a_file_is_found_by_path_and_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = CONFIGS / "hetero" / "minesweeper-gcn.yaml"
    for name in ("hetero/minesweeper-gcn", "configs/hetero/minesweeper-gcn.yaml", str(own)):
        assert find_config(name) == own
    assert find_config("absent.yaml") == Path("absent.yaml")
    Path("hetero").mkdir()
    Path("hetero/minesweeper-gcn").touch()
    assert find_config("hetero/minesweeper-gcn") == Path("hetero/minesweeper-gcn")
