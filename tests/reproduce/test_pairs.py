import json
import statistics
from dataclasses import replace
from functools import partial

import pytest
import yaml

from torch_grama.cli import main
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.run import run_experiment
from torch_grama.experiments.settings import make_config
from torch_grama.report.held_results import scale_of
from torch_grama.reproduce import pairs, reproduction
from torch_grama.reproduce.pairs import (
    MOST_APART,
    PairedRow,
    check_request,
    choose_best,
    complete_point,
    draw_settings,
    match_rows,
    plan_search,
    suite_of,
)
from torch_grama.reproduce.reproduction import resolve_row
from torch_grama.reproduce.suite import (
    SuiteData,
    SuiteError,
    Tuning,
    find_configs,
    find_suite,
    read_suite,
)
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunError, RunFolder

pytestmark = pytest.mark.usefixtures("small_transfer")

SUITE = {
    "title": "Two pairs",
    "repeat": "seed",
    "data": [
        {
            "name": "transfer-ring-3",
            "metric": "mse",
            "pairs": [["gcn", "grama-gcn"], ["gps-gcn", "grama-gps"]],
            "parameters": 20000,
            "set": {"trainer": {"max_epochs": 1, "batch_size": 512}, "optimizer.name": "adam"},
            "tune": {
                "draws": 2,
                "repeats": 1,
                "set": {"trainer": {"gradient_clip": 0.5}},
                "space": {"optimizer.lr": [0.001, 0.01], "model.norm": [None, "batch_norm"]},
                "backbone": {"model.num_layers": [2, 3]},
                "grama": {"model.seq_len": [2], "model.num_blocks": [1, 2]},
            },
        }
    ],
    "rows": {
        "gps-gcn": {"model.heads": 2},
        "grama-gps": {"model.backbone_options": {"heads": 2}},
    },
    "budgets": {"smoke": {"runs": 2}},
}


@pytest.fixture
def configs(tmp_path):
    folder = tmp_path / "configs" / "two"
    folder.mkdir(parents=True)
    (folder / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    return tmp_path / "configs"


@pytest.fixture
def rows(configs, tmp_path):
    return match_rows(read_suite(configs / "two"), "smoke", tmp_path / "runs")


def test_both_sides_are_tried_with_the_same_settings_but_for_what_is_their_own():
    space = {"optimizer.lr": (1, 2, 3), "model.dropout": (0.1, 0.2)}
    tuning = Tuning(5, 1, space, ({"model.num_layers": (2, 4)}, {"model.seq_len": (2, 4, 8)}))
    sides = [draw_settings(tuning, side) for side in (0, 1)]
    shared = [[{name: point[name] for name in space} for point in side] for side in sides]
    assert shared[0] == shared[1]
    assert len({tuple(point.values()) for point in shared[0]}) == 5
    assert all("model.num_layers" in point for point in sides[0])
    assert all(point["model.seq_len"] in (2, 4, 8) for point in sides[1])
    # a row may draw by itself, which leaves the others as they are
    own = replace(tuning, rows={"gcnii": {"model.num_layers": (8,), "model.alpha": (0.5,)}})
    assert draw_settings(own, 0, "gcn") == sides[0]
    alone = draw_settings(own, 0, "gcnii")
    assert alone == [{**p, "model.num_layers": 8, "model.alpha": 0.5} for p in sides[0]]
    # what a row draws in place of a shared setting is tried once too
    other = {"optimizer.lr": (7, 8), "model.dropout": (0.3,), "model.num_layers": (2, 4, 6)}
    drawn = draw_settings(replace(tuning, rows={"gcnii": other}), 0, "gcnii")
    assert len({tuple(point.items()) for point in drawn}) == 5
    # a space with fewer points than draws is tried whole
    small = Tuning(9, 1, {"optimizer.lr": (1, 2)}, ({}, {}))
    assert {point["optimizer.lr"] for point in draw_settings(small, 0)} == {1, 2}
    # with nothing in common, each side still draws by itself
    depths = Tuning(3, 1, {}, ({"model.num_layers": (1, 2, 3)}, {}))
    assert {point["model.num_layers"] for point in draw_settings(depths, 0)} == {1, 2, 3}
    assert draw_settings(depths, 1) == [{}]


def test_candidates_have_the_parameters_of_the_pair(rows, tmp_path):
    assert [row.row for row in rows] == ["gcn", "grama-gcn", "gps-gcn", "grama-gps"]
    for row in rows:
        assert len(row.candidates) == 2
        config = make_config(row.candidates[-1])
        result = run_experiment(config, tmp_path / row.row, report="quiet", test=False)
        assert result.parameters == pytest.approx(20000, rel=MOST_APART)
        assert result.epochs == 1


def test_a_pair_may_have_another_size_than_its_column(configs, tmp_path):
    content = yaml.safe_load((configs / "two" / "suite.yaml").read_text())
    content["data"][0]["pairs"][0].append(9000)
    (configs / "two" / "suite.yaml").write_text(yaml.safe_dump(content))
    for row in match_rows(read_suite(configs / "two"), "smoke", tmp_path):
        size = 9000 if row.row in ("gcn", "grama-gcn") else 20000
        config = make_config(row.candidates[0])
        result = run_experiment(config, tmp_path / row.row, report="quiet", test=False)
        assert result.parameters == pytest.approx(size, rel=MOST_APART)


def test_a_row_with_a_configuration_of_its_own_is_run_with_that_alone(configs, tmp_path, rows):
    content = yaml.safe_load((configs / "two" / "suite.yaml").read_text())
    content["data"][0]["grama"] = {"optimizer.lr": 0.7}
    (configs / "two" / "suite.yaml").write_text(yaml.safe_dump(content))
    own = {**rows[1].candidates[0], "optimizer.lr": 0.5, "model.hidden_channels": 7}
    (configs / "two" / "transfer-ring-3-grama-gcn.yaml").write_text(yaml.safe_dump(own))
    row = match_rows(read_suite(configs / "two"), "smoke", tmp_path, ["grama-gcn"])[0]
    assert plan_search(row) == []
    chosen = yaml.safe_load(choose_best(row).read_text())
    assert (chosen["optimizer.lr"], chosen["model.hidden_channels"]) == (0.5, 7)


def test_settings_that_a_model_does_not_have_cost_it_no_try(configs, tmp_path, capsys):
    content = yaml.safe_load((configs / "two" / "suite.yaml").read_text())
    content["data"][0]["tune"]["draws"] = 4
    (configs / "two" / "suite.yaml").write_text(yaml.safe_dump(content))
    rows = match_rows(read_suite(configs / "two"), "smoke", tmp_path)
    different = {row.row: {json.dumps(point) for point in row.candidates} for row in rows}
    assert not any("model.norm" in point for point in different["gps-gcn"])
    assert {row: len(points) for row, points in different.items()} == dict.fromkeys(different, 4)
    # where a space ends, fewer are tried, which is said
    command = ["reproduce", "two", "--configs", str(configs), "--runs", str(tmp_path), "--plan"]
    assert main(command) == 0
    assert "settings are tried" not in capsys.readouterr().err
    content["data"][0]["tune"]["draws"] = 5
    (configs / "two" / "suite.yaml").write_text(yaml.safe_dump(content))
    assert main(command) == 0
    assert "gps-gcn: 4 settings are tried, not 5; there are no more" in capsys.readouterr().err


def test_both_sides_of_each_pair_of_the_package_are_tried_with_as_many_settings():
    suite = find_suite("pairs", find_configs(None))
    for column in suite.data:
        for pair in column.pairs:
            counts = []
            for side, row in enumerate(pair):
                settings = {**resolve_row(suite, column, row, {}), **column.sides[side]}
                stated = suite.rows.get(f"{column.label}/{row}", {})
                complete = partial(complete_point, settings, stated)
                points = draw_settings(column.tuning, side, row, complete)
                counts.append(len(points))
            # one where a published recipe is taken as it is
            assert counts in ([column.tuning.draws] * 2, [1, 1]), (column.label, pair)


def test_what_the_file_states_for_a_cell_is_not_drawn(configs, tmp_path):
    content = yaml.safe_load((configs / "two" / "suite.yaml").read_text())
    stated = {"model.seq_len": 3, "optimizer.lr": 0.5}
    content["rows"]["transfer-ring-3/grama-gcn"] = stated
    (configs / "two" / "suite.yaml").write_text(yaml.safe_dump(content))
    backbone, grama = match_rows(read_suite(configs / "two"), "smoke", tmp_path)[:2]
    assert all(stated.items() <= settings.items() for settings in grama.candidates)
    assert {settings["optimizer.lr"] for settings in backbone.candidates} <= {0.001, 0.01}


def test_a_size_that_no_width_has_is_refused(configs, tmp_path):
    content = yaml.safe_load((configs / "two" / "suite.yaml").read_text())
    content["data"][0]["parameters"] = 7
    (configs / "two" / "suite.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ValueError, match="has 7 parameters, within 5%"):
        match_rows(read_suite(configs / "two"), "smoke", tmp_path)


def test_tuning_never_reads_the_test_part(rows):
    searches = [run for row in rows for run in plan_search(row)]
    assert len(searches) == 4 * 2
    assert all(run.settings["test"] is False for run in searches)
    assert len({run.folder for run in searches}) == len(searches)


def test_the_search_may_be_shorter_than_the_runs(rows):
    assert all(run.settings["trainer.gradient_clip"] == 0.5 for run in plan_search(rows[0]))
    assert not any("trainer.gradient_clip" in settings for settings in rows[0].candidates)


def _row(place, repeats=2):
    tuning = Tuning(2, repeats, {"optimizer.lr": (1, 2)}, ({}, {}))
    column = SuiteData("ring", "transfer-ring-3", "mse", tuning=tuning)
    candidates = [{"model.name": "gcn", "optimizer.lr": rate} for rate in (0.1, 0.2)]
    return PairedRow(column, "gcn", place, candidates, [(0, 0), (0, 1), (0, 2)])


def _write(row, number, fold_seed, val, test, higher=False):
    fold, seed = fold_seed
    folder = RunFolder(row.place / "search" / str(number) / f"fold{fold}-seed{seed}")
    folder.path.mkdir(parents=True)
    folder.config.touch()
    Result("ring", "gcn", "mse", higher, val, test, 1, 1, seed, fold, 3, 1.0).save(folder.result)


@pytest.mark.parametrize("higher", [False, True])
def test_the_best_mean_at_validation_is_chosen_whatever_the_test_says(tmp_path, higher):
    row = _row(tmp_path)
    for number, values in enumerate([(0.1, 0.5), (0.2, 0.3)]):
        for seed, val in enumerate(values):
            _write(row, number, (0, seed), val, 100.0 * number, higher)
    chosen = yaml.safe_load(choose_best(row).read_text())
    assert chosen["optimizer.lr"] == (0.1 if higher else 0.2)
    # chosen once and for all
    (tmp_path / "search" / "0" / "fold0-seed0" / "result.json").unlink()
    assert yaml.safe_load(choose_best(row).read_text()) == chosen


def _fail(row, number, seed, error):
    failure = row.place / "search" / str(number) / f"fold0-seed{seed}.failure.json"
    failure.parent.mkdir(parents=True, exist_ok=True)
    failure.write_text(json.dumps({"error": error}))


def test_settings_that_diverge_are_not_chosen_and_without_any_nothing_is(tmp_path):
    row = _row(tmp_path)
    for seed in (0, 1):
        _fail(row, 0, seed, "NonFiniteLossError: Expected a finite loss (got nan at step 2)")
        _fail(row, 1, seed, "NonFiniteLossError: Expected a finite loss (got nan at step 2)")
    with pytest.raises(RunError, match="no setting"):
        choose_best(row)
    _write(row, 0, (0, 0), 0.001, None)  # its second run diverges
    _write(row, 1, (0, 0), 0.3, None)
    _write(row, 1, (0, 1), 0.3, None)
    assert yaml.safe_load(choose_best(row).read_text())["optimizer.lr"] == 0.2


@pytest.mark.parametrize("error", ["RuntimeError: CUDA error: device busy", "OSError: disk", None])
def test_nothing_is_chosen_while_settings_wait_for_a_better_machine(tmp_path, error):
    # else one side of a pair is tuned with fewer settings than the other, and nobody sees it
    row = _row(tmp_path)
    _write(row, 1, (0, 0), 0.3, None)
    _write(row, 1, (0, 1), 0.3, None)
    _write(row, 0, (0, 0), 0.2, None)
    if error:
        _fail(row, 0, 1, error)
    with pytest.raises(RunError, match=r"1 of 2 settings .*the same command"):
        choose_best(row)
    assert not (tmp_path / "best.yaml").exists()
    (tmp_path / "search" / "0" / "fold0-seed1.failure.json").unlink(missing_ok=True)
    _write(row, 0, (0, 1), 0.2, None)
    assert yaml.safe_load(choose_best(row).read_text())["optimizer.lr"] == 0.1


def test_candidates_are_judged_by_the_same_runs_whatever_an_earlier_search_left(tmp_path):
    row = _row(tmp_path)
    for number, values in enumerate([(0.2, 0.2, 0.9), (0.3, 0.3)]):
        for seed, val in enumerate(values):
            _write(row, number, (0, seed), val, None)
    assert yaml.safe_load(choose_best(row).read_text())["optimizer.lr"] == 0.1


def test_what_is_wrong_in_a_suite_of_pairs_is_named(configs):
    path = configs / "two" / "suite.yaml"
    for change, message in (
        ({"pairs": [["gcn"]]}, "two rows, backbone and GRAMA"),
        ({"pairs": [["gcn", "grama-gcn", "large"]]}, "'pairs.parameters' to be at least 1"),
        ({"parameters": 0}, "'data.parameters' to be at least 1"),
        ({"tune": {"draws": 0}}, "'tune.draws' to be at least 1"),
        ({"tune": {"space": {"optimizer.lr": 0.1}}}, "'optimizer.lr' to be a list"),
    ):
        content = json.loads(json.dumps(SUITE))
        content["data"][0] |= change
        path.write_text(yaml.safe_dump(content))
        with pytest.raises(SuiteError, match=message):
            read_suite(configs / "two")


def test_the_command_tunes_runs_shows_and_goes_on(configs, tmp_path, capsys):
    command = ["reproduce", "two", "--configs", str(configs), "--runs", str(tmp_path / "runs")]
    command += ["--models", "gcn", "grama-gcn", "--results", str(tmp_path)]
    assert main([*command, "--plan"]) == 0
    planned = capsys.readouterr().out.splitlines()
    assert sum("/search/" in line for line in planned) == 4
    assert sum(line.startswith("to do") for line in planned) == 8
    assert not (tmp_path / "runs").exists()
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "tuning: 4 runs, 0 of them done" in err
    assert "Two pairs: 4 runs, 0 of them done" in err
    line = next(line for line in out.splitlines() if line.startswith("transfer-ring-3"))
    assert line.split()[3] == "gcn"
    # the table agrees with the files
    tests = {}
    for row in ("gcn", "grama-gcn"):
        folder = tmp_path / "runs" / "two" / "smoke" / "transfer-ring-3" / row
        tests[row] = [
            json.loads(path.read_text())["test"] for path in folder.glob("fold*/result.json")
        ]
        assert len(tests[row]) == 2
    gain = statistics.fmean(tests["gcn"]) - statistics.fmean(tests["grama-gcn"])
    smaller = min(map(statistics.fmean, tests.values()))
    text = scale_of("mse").text_of_deviation(abs(gain), smaller)  # printed as the scores are
    assert f"{'+' if gain >= 0 else '-'}{text} ±" in line
    picture = tmp_path / "pairs.png"
    assert main([*command, "--picture", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert "Two pairs: 4 runs, 4 of them done" in err
    assert "tuning" not in err
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--show", "--format", "latex"]) == 2
    assert "text, markdown, csv" in capsys.readouterr().err


def test_a_row_of_which_all_tuning_failed_is_not_run(configs, tmp_path, capsys, monkeypatch):
    tried = []

    def fail(config, *_, **__):
        tried.append(config.test)
        raise RuntimeError("no device")

    monkeypatch.setattr(reproduction, "run_experiment", fail)
    command = ["reproduce", "two", "--configs", str(configs), "--runs", str(tmp_path / "runs")]
    assert main([*command, "--models", "gcn", "grama-gcn", "--results", str(tmp_path)]) == 1
    assert tried == 4 * [False]
    assert "2 of 2 settings have not come to their end" in capsys.readouterr().err


def test_pairs_of_one_data_set_leave_alone_what_is_set():
    settings = {"data.name": "transfer-ring-3", "model.dropout": 0.1, "trainer.max_epochs": 5}
    suite, facts, num_folds, *_ = suite_of(settings, ["gcn"], parameters=2000, draws=2, repeats=2)
    column = suite.data[0]
    assert (num_folds, facts.num_outputs) == (1, 1)
    assert column.pairs == (("gcn", "grama-gcn"),)
    assert column.changes["trainer.max_epochs"] == 5
    assert "model.dropout" not in column.tuning.space
    assert {"gps-gcn"} & {row for pair in suite_of(settings)[0].data[0].pairs for row in pair}
    with pytest.raises(ValueError, match="gcn"):
        suite_of(settings, ["gcm"])


def test_pairs_on_one_data_set_take_nothing_from_kept_rows_of_its_name(
    configs, rows, tmp_path, monkeypatch
):
    folder = (configs / "two").rename(configs / "pairs")
    stated = {"transfer-ring-3/grama-gcn": {"trainer.max_epochs": 7}}
    (folder / "suite.yaml").write_text(yaml.safe_dump({**SUITE, "rows": stated}))
    (folder / "transfer-ring-3-gcn.yaml").write_text(yaml.safe_dump(rows[0].candidates[0]))
    monkeypatch.setattr(pairs, "find_configs", lambda _: configs)
    settings = {"data.name": "transfer-ring-3", "trainer.max_epochs": 5}
    suite = suite_of(settings, ["gcn"], parameters=2000, draws=2, repeats=1).suite
    for row in match_rows(suite, pairs.OWN, tmp_path):
        assert [point["trainer.max_epochs"] for point in row.candidates] == [5, 5], row.row


def test_pairs_on_series_try_them_as_a_sequence_and_as_features(monkeypatch):
    settings, of = {"data.name": "transfer-ring-3"}, DataFacts.of
    assert suite_of(settings, ["gcn"])[0].data[0].tuning.sides[1]["model.seq_len"] == (2, 4)
    monkeypatch.setattr(DataFacts, "of", lambda data: replace(of(data), seq_len=4))
    assert suite_of(settings, ["gcn"])[0].data[0].tuning.sides[1]["model.seq_len"] == (None, 1)


def test_the_command_on_one_data_set(tmp_path, capsys):
    command = ["pairs", "--data", "transfer-ring-3", "--backbones", "gcn", "--draws", "1"]
    command += ["--repeats", "2", "--parameters", "2000", "--trainer.max_epochs", "1"]
    command += ["--trainer.batch_size", "512", "--trainer.patience", "1"]
    assert main([*command, "--runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "GRAMA: " in out
    assert "of 1 pair." in out
    assert (tmp_path / "transfer-ring-3.png").is_file()
    assert main([*command, "-o", "colour=red"]) == 2
    assert "option 'colour'" in capsys.readouterr().err
    assert main(["pairs", "--runs", str(tmp_path)]) == 2
    assert "--data" in capsys.readouterr().err
    # nothing else is mixed with what is there: other sizes, settings, values
    for change in (["--parameters", "3000"], ["--optimizer.lr", "0.1"], ["--data.rwse", "2"]):
        assert main([*command, *change, "--runs", str(tmp_path)]) == 2
        assert "choose another folder with `--runs`" in capsys.readouterr().err


def test_pairs_on_edited_data_are_not_mixed_with_those_before(tmp_path):
    request = {"data.name": "my_folder", "parameters": 2000}
    check_request(tmp_path, request, "a1")
    check_request(tmp_path, request, "a1")
    with pytest.raises(RunError, match="data is not what"):
        check_request(tmp_path, request, "b2")
