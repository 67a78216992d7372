"""Run folders of any kind: good ones, broken ones, and such as want to harm."""

import json
import os

import pytest
from run_folders import write_run

from torch_grama.runs.run_files import (
    MAX_POINTS,
    RunFiles,
    expand_folders,
    find_runs,
    flatten,
    name_apart,
    read_run_files,
    thin,
)
from torch_grama.runs.run_folder import LIMITS, RunError
from torch_grama.runs.safe_files import open_inside


def test_a_whole_run(tmp_path):
    run = read_run_files(write_run(tmp_path / "first"))
    assert (run.name, run.is_finished, run.notes) == ("first", True, [])
    assert run.settings["model.backbone"] == "gcn"
    assert run.environment == {"versions.torch": "2.13.0", "hardware.processor": "a small one"}
    assert (run.number("test"), run.word("data")) == (0.9, "minesweeper")
    assert run.num_epochs == 10
    assert run.columns["val/roc_auc"][3] == pytest.approx(0.62)
    assert [entry.number("epoch") for entry in run.coefficients] == list(range(1, 11))
    assert [name for name, _ in run.files][:2] == ["config.yaml", "result.json"]


def test_an_unfinished_run_tells_what_its_settings_tell(tmp_path):
    run = read_run_files(write_run(tmp_path / "run", finished=False))
    assert not run.is_finished
    assert (run.word("data"), run.word("model")) == ("minesweeper", "grama")
    assert run.number("test") is None


def test_no_run_is_an_error(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        read_run_files(tmp_path)
    with pytest.raises(RunError, match="There is no folder"):
        read_run_files(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("result.json", "{broken", "'result.json' holds no readable JSON"),
        ("result.json", "[1, 2]", "'result.json' holds no JSON object (got list)"),
        ("result.json", "", "'result.json' holds no readable JSON"),
        ("analysis.json", "[" * 200_000, "'analysis.json' holds no readable JSON"),
        ("config.yaml", "a: [1, 2", "'config.yaml' holds no readable YAML"),
        ("config.yaml", "", "'config.yaml' holds no YAML mapping"),
        ("config.yaml", "a: !!python/object/apply:os.system ['true']", "no readable YAML"),
        ("config.yaml", "a: &x [1]\nb: [*x, *x]", "aliases are not read"),
        ("config.yaml", "{" * 5000, "'config.yaml' holds no readable YAML"),
        ("metrics.csv", "epoch" + "," * 1_000_000, "a line has more than"),
        ("metrics.csv", "time,loss\n1,2\n", "no column 'epoch'"),
    ],
)
def test_a_broken_file_is_said_and_the_rest_is_read(tmp_path, name, content, sentence):
    folder = write_run(tmp_path / "run")
    (folder / name).write_text(content)
    run = read_run_files(folder)
    assert any(sentence in note for note in run.notes)
    assert run.num_epochs == (0 if name == "metrics.csv" else 10)


def test_a_config_of_fifty_megabytes_is_refused_in_words(tmp_path):
    folder = write_run(tmp_path / "run")
    with (folder / "config.yaml").open("w") as stream:
        stream.truncate(50_000_000)
    run = read_run_files(folder)
    assert run.notes == ["'config.yaml' has 50 MB, more than the 256 kB that are read."]
    assert run.settings == {}
    assert run.number("test") == 0.9


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"test": 1}')
    folder = write_run(tmp_path / "run", finished=False)
    (folder / "result.json").symlink_to(secret)
    run = read_run_files(folder)
    assert any("'result.json' leads out of its folder" in note for note in run.notes)
    assert not run.result
    assert "result.json" not in dict(run.files)


def test_a_link_inside_the_folder_is(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "result.json").rename(folder / "kept.json")
    (folder / "result.json").symlink_to("kept.json")
    assert read_run_files(folder).number("test") == 0.9


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path, kind):
    folder = write_run(tmp_path / "run", finished=False)
    place = folder / "result.json"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("result.json")
    run = read_run_files(folder)
    assert any("result.json" in note for note in run.notes)


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/passwd", "a/../../outside.txt", "a\0b"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "run" / "a").mkdir(parents=True)
    with pytest.raises(RunError):
        open_inside(tmp_path / "run", name, 10)


def test_numbers_that_are_none_become_gaps(tmp_path):
    folder = write_run(tmp_path / "run", test=float("nan"), val="inf", seconds=10**400)
    (folder / "metrics.csv").write_text("epoch,val/roc_auc\n0,nan\n1,0.5\n2,words\n3\n")
    run = read_run_files(folder)
    assert [run.number(name) for name in ("test", "val", "seconds")] == [None, None, None]
    # a row that is cut off is left out
    assert run.columns["val/roc_auc"] == [None, 0.5, None]


def test_a_huge_table_is_thinned(tmp_path):
    folder = write_run(tmp_path / "run")
    count = 200_000
    with (folder / "metrics.csv").open("w") as stream:
        stream.write("epoch,train/loss\n")
        stream.writelines(f"{i},{i / count}\n" for i in range(count))
    run = read_run_files(folder)
    assert len(run.columns["epoch"]) <= MAX_POINTS
    assert run.columns["epoch"][0] == 1
    assert run.num_epochs == pytest.approx(count, rel=0.01)


def test_a_table_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(LIMITS, "metrics.csv", 100)
    run = read_run_files(write_run(tmp_path / "run"))
    assert run.num_epochs == 0
    assert any("'metrics.csv' has" in note for note in run.notes)


def test_lines_of_coefficients_that_are_broken_are_passed_over(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "coefficients.jsonl").write_text('{"epoch": 1, "blocks": []}\nrubbish\n[1]\n{"ep')
    assert [entry.number("epoch") for entry in read_run_files(folder).coefficients] == [2]


def test_settings_are_bounded():
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(500):
        inner["x" * 400] = {}
        inner = inner["x" * 400]  # type: ignore[assignment]
    wide = {f"key{i}": "v" * 10_000 for i in range(5000)}
    assert all(len(name) <= 120 for name in flatten(deep))
    flat = flatten(wide)
    assert len(flat) == 400
    assert max(map(len, flat.values())) == 300


@pytest.mark.parametrize(("length", "most"), [(0, 5), (3, 5), (5, 5), (100, 7), (1000, 600)])
def test_thinning_keeps_both_ends(length, most):
    kept = thin(length, most)
    assert len(kept) == min(length, most)
    assert kept == sorted(set(kept))
    if length:
        assert (kept[0], kept[-1]) == (0, length - 1)


def test_runs_are_found_at_any_depth_but_not_through_links(tmp_path):
    inner = write_run(tmp_path / "runs" / "suite" / "data" / "fold-0", analysis=False)
    outer = write_run(tmp_path / "elsewhere", analysis=False)
    (tmp_path / "runs" / "link").symlink_to(outer)
    assert find_runs(tmp_path / "runs") == [inner]
    assert expand_folders([tmp_path / "runs", inner]) == [inner]
    assert expand_folders([tmp_path / "nothing"]) == [tmp_path / "nothing"]


def test_the_newest_run_comes_first(tmp_path):
    for place, name in enumerate(["old", "new", "middle"]):
        folder = write_run(tmp_path / name, analysis=False)
        age = {0: 100, 1: 300, 2: 200}[place]
        os.utime(folder, (age, age))
    assert [run.name for run in find_runs(tmp_path)] == ["new", "middle", "old"]


def test_result_files_are_data_alone(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "result.json").write_text(json.dumps({"data": ["x"], "model": {"a": 1}, "test": []}))
    run = read_run_files(folder)
    assert (run.word("data"), run.number("test")) == ("minesweeper", None)


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
