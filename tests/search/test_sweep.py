"""Sweeps on one Ray: trials, failures, early ends, resuming and searching."""

import contextlib
import csv
import itertools
import json
import math
import os
import runpy
import signal
import sys
from pathlib import Path

import psutil
import pytest
import yaml
from sample_data import write_node_folder
from sweep_cases import small_base, stamps, write_heights, write_space

from torch_grama.cli import main
from torch_grama.experiments.run import run_experiment
from torch_grama.experiments.settings import make_config, read_file
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunError
from torch_grama.runs.safe_files import to_yaml
from torch_grama.search import tune
from torch_grama.search.ray_session import ray_session, run_on_ray, set_environment
from torch_grama.search.space import Space
from torch_grama.search.sweep_result import SweepResult
from torch_grama.search.trial import TrialFolder, TrialPlan, name_trial, run_trial
from torch_grama.search.tune import run_sweep

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def ray():
    """One Ray for all, with one core: a process takes longer to start than a trial to run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch_grama.search.ray_session.count_cores", lambda: 1)
        with ray_session() as resources:
            assert resources["CPU"] == 1
            yield


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_node_folder(tmp_path_factory.mktemp("data") / "communities")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory) -> Path:
    return write_heights(tmp_path_factory.mktemp("data") / "heights")


def grid_space(data: Path) -> Space:
    # an order above the length of the sequence cannot be: that trial fails
    return Space.from_dict(
        {
            "base": small_base(data) | {"model": {"hidden_channels": 4, "num_blocks": 1}},
            "space": {"model.seq_len": {"grid": [2, 3]}, "model.ar_order": {"grid": [2, 3]}},
            "repeat": {"seeds": [0, 5]},
        }
    )


@pytest.fixture(scope="module")
def swept(tmp_path_factory, data) -> SweepResult:
    return run_sweep(grid_space(data), tmp_path_factory.mktemp("sweep") / "grid", report="quiet")


def test_every_trial_has_its_runs_and_the_table_is_sorted(swept):
    states = [outcome.state for outcome in swept.outcomes]
    assert states == ["finished"] * 3 + ["failed"]
    values = [outcome.value for outcome in swept.outcomes[:3]]
    assert values == sorted(values, reverse=True)
    assert swept.best is swept.outcomes[0]
    for outcome in swept.outcomes[:3]:
        assert set(outcome.results) == {"seed-0", "seed-5"}
        assert outcome.value == sum(result.val for result in outcome.results.values()) / 2
        assert outcome.epochs == 6
        for result in outcome.results.values():  # the test part is not read
            assert result.test is None
            assert "test" not in result.losses
    rows = list(csv.DictReader((swept.folder / "sweep.csv").open()))
    assert [row["trial"] for row in rows] == [outcome.name for outcome in swept.outcomes]
    assert [float(row["val/accuracy"]) for row in rows[:3]] == values
    assert not (swept.folder / ".ray").exists()


def test_a_failure_is_a_result(swept):
    failed = swept.outcomes[-1]
    assert failed.point == {"model.seq_len": 2, "model.ar_order": 3}
    assert failed.failure is not None
    assert failed.failure.kind == "ConfigError"
    note = json.loads((swept.folder / "trials" / failed.name / "failure.json").read_text())
    assert "ar_order" in note["message"]
    assert "Traceback" in note["traceback"]
    assert note["run"] == "seed-0"


def test_a_trial_equals_a_run_outside_the_sweep(swept, tmp_path):
    assert swept.best is not None
    run = swept.folder / "trials" / swept.best.name / "seed-5"
    alone = make_config(yaml.safe_load((run / "config.yaml").read_text()))
    result = run_experiment(alone, tmp_path / "run", report="quiet")
    stored = Result.load(run / "result.json")
    for name in ("val", "best_epoch", "parameters"):
        assert getattr(stored, name) == getattr(result, name), name


def test_the_best_settings_are_ready_to_train(swept):
    path = swept.folder / "best.yaml"
    config = make_config(path)
    assert config.test
    assert config.seed == 0
    assert swept.best is not None
    assert {f"model.{name}": config.model.options[name] for name in ("seq_len", "ar_order")} == (
        swept.best.point
    )
    assert swept.best_run is not None
    assert swept.best_run.is_dir()


def test_resuming_runs_what_is_missing_alone(swept, data, monkeypatch):
    before = stamps(swept.folder)
    with pytest.raises(RunError, match="holds a sweep: go on with `--resume`"):
        run_sweep(grid_space(data), swept.folder, report="quiet")
    sealed = []
    with monkeypatch.context() as patch:
        patch.setattr(tune, "seal_data", lambda *words: sealed.append(words))
        again = run_sweep(grid_space(data), swept.folder, resume=True, report="quiet")
    assert len(sealed) == 1
    assert stamps(swept.folder) == before
    assert [outcome.name for outcome in again.outcomes] == [o.name for o in swept.outcomes]
    # one run is taken away, and a value is added to the space
    assert swept.best is not None
    lost = swept.folder / "trials" / swept.best.name / "seed-5" / "result.json"
    lost_value = Result.load(lost).val
    lost.unlink()
    larger = grid_space(data).to_dict()
    larger["space"]["model.ar_order"] = {"grid": [2, 3, 1]}
    note = swept.folder / "trials" / swept.outcomes[-1].name / "failure.json"
    noted = note.stat().st_mtime_ns
    more = run_sweep(
        Space.from_dict(larger), swept.folder, resume=True, retry_failed=True, report="quiet"
    )
    assert note.stat().st_mtime_ns > noted
    after = stamps(swept.folder)
    kept = {n: stamp for n, stamp in before.items() if n != str(lost.relative_to(swept.folder))}
    assert {name: after[name] for name in kept} == kept
    assert len(after) == len(before) + 4
    assert Result.load(lost).val == lost_value
    assert len(more.outcomes) == 6


def test_optuna_goes_on_where_it_was(tmp_path, numbers):
    space = Space.from_dict(
        {
            "base": small_base(numbers) | {"model": {"hidden_channels": 4}},
            "space": {
                "optimizer.lr": {"log_uniform": [1e-4, 0.1]},
                "model.act": {"choice": ["relu", "gelu"]},
                "model.num_layers": {"int": [1, 3]},
            },
            "searcher": {"name": "optuna", "num_trials": 3},
        }
    )
    # an earlier session: one trial is finished, of another only the settings are known
    folder = tmp_path / "optuna"
    folder.mkdir()
    (folder / "space.yaml").write_text(to_yaml(space.to_dict()))
    points = list(space.draw(2))
    plan = TrialPlan(folder / "trials", space.base, space.repeat.runs(), span=3)
    run_trial(plan, name_trial(points[0]), points[0], lambda result: None)
    TrialFolder(folder / "trials" / name_trial(points[1]), ["run"]).begin(points[1])
    before = stamps(folder)
    assert len(before) == 1
    result = run_sweep(space, folder, resume=True, report="quiet")
    after = stamps(folder)
    assert {name: after[name] for name in before} == before
    assert [outcome.state for outcome in result.outcomes] == ["finished"] * 3
    assert {name_trial(point) for point in points} < {outcome.name for outcome in result.outcomes}
    for outcome in result.outcomes:
        assert 1e-4 <= outcome.point["optimizer.lr"] <= 0.1
        assert outcome.point["model.num_layers"] in (1, 2, 3)


def test_the_command_joins_a_cluster_and_ends_poor_trials_early(start_grama, tmp_path):
    import ray

    path, out = tmp_path / "space.yaml", tmp_path / "joined"
    change = {
        "space": {"optimizer.lr": {"grid": [0.1, 1e-7, 2e-7]}},
        "scheduler": {"name": "asha", "grace_epochs": 2, "reduction": 2},
    }
    write_space(path, change, epochs=16)
    words = ["--schedule.name", "constant", "--ray-address", ray.get_runtime_context().gcs_address]
    process = start_grama("sweep", str(path), "--out", str(out), *words, "--json")
    text, error = process.communicate()
    assert process.returncode == 0, error
    first, *others = json.loads(text)["trials"]
    assert (first["state"], first["settings"]) == ("finished", {"optimizer.lr": 0.1})
    assert first["epochs"] == 16
    assert {trial["state"] for trial in others} == {"stopped"}
    assert all(2 <= trial["epochs"] < 16 for trial in others)
    assert all(trial["val"] > first["val"] for trial in others)
    assert ray.is_initialized()
    assert ray.cluster_resources()["CPU"] >= 1  # the cluster outlives those who joined it


def find_workers(pid: int) -> list[psutil.Process]:
    """The processes that train for a sweep."""
    workers = []
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "ray::ImplicitFunc" in " ".join(child.cmdline()):
                workers.append(child)
    return workers


def kill_a_worker_then_itself() -> None:
    """Called first in a sweep: when a trial is settled a worker dies, when two are the driver."""
    set_environment()
    from torch_grama.search.sweep_session import SweepSession

    settle, numbers = SweepSession.settle, itertools.count(1)

    def counted(self, name):
        settle(self, name)
        number = next(numbers)
        if number == 1:
            find_workers(os.getpid())[0].kill()
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    SweepSession.settle = counted


def assert_gone(family: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(family, timeout=600)
    assert not [one for one in alive if one.status() != "zombie"]


@pytest.fixture(scope="module")
def orphans():
    """Processes of a Ray whose driver was killed give up by themselves, while other tests run."""
    family: list[psutil.Process] = []
    yield family
    assert_gone(family)


def test_trials_survive_the_kill_of_a_worker_and_of_the_driver(
    start_grama, tmp_path, capsys, orphans
):
    path, out = tmp_path / "space.yaml", tmp_path / "out"
    write_space(path, {"resources": {"concurrency": 2}}, epochs=10)
    words = ["--out", str(out), "--trainer.save_every", "0"]
    process = start_grama("sweep", str(path), *words, before=kill_a_worker_then_itself)
    process.wait_until(lambda: stamps(out))
    orphans += psutil.Process(process.pid).children(recursive=True)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    before = stamps(out)
    assert 2 <= len(before) < 4
    begun = {path.parent.name for path in out.glob("trials/*/trial.json")}

    assert main(["sweep", str(out), "--resume", "--json"]) == 0
    trials = json.loads(capsys.readouterr().out)["trials"]
    after = stamps(out)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(trials) == 4
    assert {(trial["state"], trial["epochs"]) for trial in trials} == {("finished", 10)}
    assert begun <= {trial["name"] for trial in trials}


def test_an_interrupted_sweep_says_how_to_go_on_and_leaves_no_process(start_grama, tmp_path):
    path, out = tmp_path / "space.yaml", tmp_path / "out"
    write_space(path, {"resources": {"concurrency": 1}}, epochs=100_000)
    process = start_grama("sweep", str(path), "--out", str(out))
    process.wait_until(lambda: list(out.glob("trials/*/run/metrics.csv")))
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    text, error = process.communicate()
    assert process.returncode == 143, error
    assert f"go on with `grama sweep {out} --resume`" in error
    assert "Traceback" not in error
    assert text == ""
    assert_gone(family)
    assert (out / "sweep.csv").is_file()
    assert not (out / "best.yaml").exists()


def test_reproduce_tunes_on_validation_then_runs(tmp_path, capsys):
    folder = tmp_path / "configs" / "tiny"
    folder.mkdir(parents=True)
    suite = {
        "title": "Tiny",
        "data": [{"name": "transfer-ring-3", "metric": "mse"}],
        "models": ["gcn"],
        "space": "small",
        "defaults": {"model.hidden_channels": 3, "model.num_layers": 1},
        "budgets": {"smoke": {"set": {"trainer": {"max_epochs": 1, "batch_size": 500}}}},
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    spaces = tmp_path / "configs" / "spaces"
    spaces.mkdir()
    space = {"space": {"model.hidden_channels": {"grid": [2, 5]}}, "resources": {"concurrency": 1}}
    (spaces / "small.yaml").write_text(yaml.safe_dump(space))
    (tmp_path / "kept").mkdir()
    command = ["reproduce", "tiny", "--sweep", "--configs", str(tmp_path / "configs"), "--quiet"]
    command += ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "kept")]
    assert main(command) == 0
    capsys.readouterr()
    row = tmp_path / "runs" / "tiny" / "smoke" / "transfer-ring-3" / "gcn"
    chosen = read_file(row / "best.yaml")["model.hidden_channels"]
    assert chosen in (2, 5)
    assert read_file(row / "fold0-seed0" / "config.yaml")["model.hidden_channels"] == chosen
    trials = [yaml.safe_load(p.read_text()) for p in row.glob("sweep/trials/*/*/result.json")]
    assert len(trials) == 2
    assert all(trial["test"] is None for trial in trials)  # selection never saw the test part
    best = min(trials, key=lambda trial: trial["val"])
    run = yaml.safe_load((row / "fold0-seed0" / "result.json").read_text())
    assert run["val"] == best["val"]
    assert run["test"] is not None

    stamp = (row / "best.yaml").stat().st_mtime_ns
    assert main(command) == 0
    assert (row / "best.yaml").stat().st_mtime_ns == stamp


def _die_once(folder: str) -> str:
    mark = Path(folder) / "died"
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


class _Odd(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def _raise_odd() -> None:
    raise _Odd(1, 2)


def test_calls_on_ray_return_raise_and_survive(tmp_path):
    import ray.cloudpickle

    # workers do not find this file
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    calls = [
        (math.sqrt, (4.0,)),
        (math.sqrt, (-1.0,)),
        (sorted, ([3, 1, 2],), {"reverse": True}),
        (_die_once, (str(tmp_path),)),
        (_raise_odd, ()),
    ]
    found = dict(run_on_ray(calls))
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert found[0] == 2.0
    assert isinstance(found[1], ValueError)
    assert found[2] == [3, 2, 1]
    assert found[3] == "survived"
    assert isinstance(found[4], Exception)
    assert "1 and 2" in str(found[4])


def test_a_call_yields_to_no_other_process():
    assert list(run_on_ray([(os.nice, (0,))])) == [(0, os.nice(0))]


def test_a_call_that_takes_more_than_there_is_is_refused():
    with pytest.raises(ValueError, match="Expected at most"):
        list(run_on_ray([(math.sqrt, (4.0,))], cpus_per_call=10_000))


def test_the_example_runs(monkeypatch, capfd):
    example = Path(__file__).parents[2] / "examples" / "sweep.py"
    monkeypatch.setattr(sys, "argv", [str(example), "--epochs", "3"])
    runpy.run_path(str(example), run_name="__main__")
    out, err = capfd.readouterr()
    assert out.count(" finished\n") == 4
    assert "best on test: " in out
    assert "Warning" not in err
