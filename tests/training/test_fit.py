"""A run from its first step to its last, and what can go wrong on the way."""

import errno
import logging
import os
import random
import shutil
import signal
import sys
import threading
import warnings

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.nn import LazyLinear, Linear, Module
from training_cases import (
    SmallNet,
    forecast_task,
    graph_task,
    node_regression_task,
    node_task,
    read_rows,
)
from training_cases import train as run

import torch_grama
from torch_grama import GRAMA, Coefficients
from torch_grama.nn.subnormals import are_flushed
from torch_grama.training import (
    CheckpointError,
    GraphDataModule,
    GraphTask,
    NonFiniteLossError,
    OptimizerSettings,
    ScheduleSettings,
    TrainerSettings,
    choose_device,
    evaluate,
    evaluation_loader,
    fit,
    load_weights,
    read_checkpoint,
)
from torch_grama.training.checkpoint_file import previous_path, write_checkpoint
from torch_grama.training.process_state import SignalWatch


class Listener:
    """Keeps what it is told."""

    def __init__(self, at_epoch=lambda epoch: None):
        self.start, self.epochs, self.notes, self.ended = None, [], [], 0
        self._at_epoch = at_epoch

    def begin(self, start):
        self.start = start

    def epoch(self, report):
        self.epochs.append(report)
        self._at_epoch(report.epoch)

    def note(self, text):
        self.notes.append(text)

    def end(self):
        self.ended += 1


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of five epochs: its folder, outcome and task, and what the reporter was told."""
    folder, listener = tmp_path_factory.mktemp("finished") / "run", Listener()
    return folder, *run(folder, report=listener, tensorboard=True), listener


@pytest.mark.parametrize(
    "data", [node_task, graph_task, node_regression_task, forecast_task], ids=lambda f: f.__name__
)
def test_every_kind_of_task_learns(tmp_path, data):
    data = data()
    outcome, task = run(
        tmp_path, data, optimizer=OptimizerSettings(lr=0.05), max_epochs=12, patience=None
    )
    rows = read_rows(outcome)
    assert [int(row["epoch"]) for row in rows] == list(range(1, 13))
    assert float(rows[-1]["train/loss"]) < float(rows[0]["train/loss"])
    assert outcome.stop_reason == "max_epochs"
    assert (outcome.is_finished, outcome.exit_code, outcome.signal) == (True, 0, None)
    # the task has the best weights, which give the value that was logged for the best epoch
    settings = TrainerSettings(batch_size=4)
    value = evaluate(task, evaluation_loader(data, 0, "val", settings))[data.metric.name]
    assert value == pytest.approx(outcome.best_value, abs=1e-6)
    values = [float(row[f"val/{data.metric.name}"]) for row in rows]
    best = max(values) if data.metric.higher_is_better else min(values)
    assert outcome.best_value == best
    assert outcome.best_epoch == values.index(best) + 1


def test_a_disk_too_full_for_events_ends_no_run(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.add_scalar", fail)
    listener = Listener()
    outcome, _ = run(tmp_path / "run", tensorboard=True, report=listener, max_epochs=2)
    assert outcome.epochs == 2
    told = [note for note in listener.notes if "TensorBoard" in note]
    assert len(told) == 1
    assert "No space left" in told[0]
    assert len(read_rows(outcome)) == 2


def test_folder_holds_what_is_promised(finished):
    folder, outcome, task, _ = finished
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {"checkpoints/last.ckpt", "checkpoints/best.ckpt", "metrics.csv"} <= names
    assert any(name.startswith("tensorboard/events") for name in names)
    best = read_checkpoint(outcome.best_checkpoint)
    assert (best["epoch"], best["value"]) == (outcome.best_epoch, outcome.best_value)
    for name, value in task.state_dict().items():
        assert torch.equal(best["state_dict"][name], value)
    assert not list(folder.rglob(".*"))  # no temporary file is left


def test_reporter_is_told_everything(finished):
    _, outcome, task, listener = finished
    count = sum(p.numel() for p in task.model.parameters())
    start = listener.start
    assert (start.data, start.model, start.device) == ("nodes", "SmallNet", "cpu")
    assert start.num_parameters == count
    assert [report.epoch for report in listener.epochs] == list(range(1, 6))
    assert listener.epochs[-1].best_value == outcome.best_value
    assert listener.epochs[-1].seconds_left == 0
    assert (listener.notes, listener.ended) == ([], 1)


def test_lightning_says_nothing(tmp_path, caplog, capfd):
    with warnings.catch_warnings(), caplog.at_level(logging.INFO):
        warnings.simplefilter("error")
        run(tmp_path, max_epochs=2)
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


def test_patience_counts_epochs_and_respects_the_least(tmp_path):
    frozen = OptimizerSettings("sgd", lr=1e-12)
    options = {"optimizer": frozen, "max_epochs": 40, "patience": 3}
    outcome, _ = run(tmp_path / "a", **options)
    assert outcome.stop_reason == "patience"
    assert outcome.epochs == outcome.best_epoch + 3
    outcome, _ = run(tmp_path / "b", min_epochs=20, **options)
    assert outcome.epochs >= 20


def test_plateau_stops_at_its_lowest_rate(tmp_path):
    outcome, _ = run(
        tmp_path,
        optimizer=OptimizerSettings("sgd", lr=1e-12),
        schedule=ScheduleSettings("plateau", patience=0, min_lr=1e-13, plateau_on="metric"),
        max_epochs=60,
        patience=None,
    )
    assert outcome.stop_reason == "min_lr"
    assert float(read_rows(outcome)[-1]["lr"]) == pytest.approx(1e-13)


def test_rare_validation_leaves_cells_empty(tmp_path):
    outcome, _ = run(tmp_path, max_epochs=6, check_val_every=3)
    cells = [row["val/accuracy"] for row in read_rows(outcome)]
    assert [cell == "" for cell in cells] == [True, True, False, True, True, False]
    assert outcome.best_epoch in (3, 6)


@pytest.mark.parametrize("has_bf16", [True, False])
def test_bf16_on_a_cpu_without_it_is_told(tmp_path, monkeypatch, capsys, has_bf16):
    where = sys.modules["torch_grama.training.fit"]
    monkeypatch.setattr(where, "_multiplies_in_bf16", lambda: has_bf16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tmp_path, max_epochs=1, precision="bf16", report="plain")
    assert ("'32' would be many times faster" in capsys.readouterr().err) is not has_bf16


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_clipping_limits_how_far_a_step_goes(tmp_path, precision):
    def distance(name, **options):
        data = node_task()
        torch.manual_seed(0)
        model = SmallNet(4, data.num_outputs, data.level)
        before = [value.detach().clone() for value in model.parameters()]
        sgd = OptimizerSettings(name="sgd", lr=1.0, momentum=0.0)
        run(tmp_path / name, data, model, sgd, max_epochs=1, precision=precision, **options)
        assert model.lin.weight.dtype == torch.float32
        pairs = zip(model.parameters(), before, strict=True)
        moved = [value.detach() - old for value, old in pairs]
        return float(torch.cat([part.flatten() for part in moved]).norm())

    free, clipped = distance("free"), distance("clipped", gradient_clip=0.01)
    assert free > 0.02
    assert clipped == pytest.approx(0.01, rel=1e-3)


def test_deterministic_is_set_for_the_run_alone(tmp_path):
    seen = []
    listener = Listener(lambda _: seen.append(torch.are_deterministic_algorithms_enabled()))
    run(tmp_path, report=listener, deterministic=True, max_epochs=1)
    assert set(seen) == {True}
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_caller_who_is_only_warned_stays_so(tmp_path):
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        run(tmp_path, max_epochs=1)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_smallest_numbers_are_zero_in_the_run_alone(tmp_path):
    seen = []
    run(tmp_path, report=Listener(lambda _: seen.append(are_flushed())), max_epochs=1)
    assert (seen, are_flushed()) == ([True], False)


def test_lazy_parameters_get_their_size_first(tmp_path):
    model = SmallNet(4, 3)
    model.lin = LazyLinear(8)
    _, task = run(tmp_path, model=model, max_epochs=1)
    assert task.model.lin.weight.size() == (8, 4)


def test_the_seed_decides_and_how_often_the_state_is_saved_does_not(tmp_path):
    _, first = run(tmp_path / "1", graph_task(), seed=3, max_epochs=3, save_every=0.0)
    _, second = run(tmp_path / "2", graph_task(), seed=3, max_epochs=3, save_every=1e6)
    _, third = run(tmp_path / "3", graph_task(), seed=4, max_epochs=3)
    assert torch.equal(first.model.head.weight, second.model.head.weight)
    assert not torch.equal(first.model.head.weight, third.model.head.weight)


# resuming


def test_the_random_numbers_of_the_caller_go_on(tmp_path):
    data, settings = node_task(), TrainerSettings(max_epochs=1, accelerator="cpu")
    drawn = []
    for name in ("first", "second"):
        # models that are made one after another start from weights of their own
        task = GraphTask.for_data(SmallNet(4, data.num_outputs), data)
        drawn.append((task.model.lin.weight.detach().clone(), random.random(), np.random.rand()))
        before = torch.get_rng_state()
        fit(task, GraphDataModule(data, 0, settings), tmp_path / name, report="quiet")
        assert torch.equal(torch.get_rng_state(), before)
    for first, second in zip(*drawn, strict=True):
        assert not np.array_equal(first, second)


def test_a_finished_run_is_neither_overwritten_nor_run_again(finished):
    folder, first, task, _ = finished
    with pytest.raises(ValueError, match="Expected a folder without a run"):
        run(folder)
    listener = Listener()
    second, again = run(folder, resume=True, report=listener)
    assert (listener.start, listener.epochs) == (None, [])
    assert (second.best_value, second.epochs) == (first.best_value, first.epochs)
    assert second.resumed_from == first.last_checkpoint
    assert torch.equal(task.model.head.weight, again.model.head.weight)


def test_a_run_whose_epochs_counted_from_zero_goes_on(finished, tmp_path):
    _, whole, _, _ = finished
    first, _ = run(tmp_path / "old", max_epochs=3)
    content = read_checkpoint(first.last_checkpoint)
    state = content["callbacks"]["EpochEnd"]
    state["history"]["rows"][:, 0] -= 1
    state["best_epoch"] -= 1
    write_checkpoint(first.last_checkpoint, content)
    again, _ = run(tmp_path / "old", resume=True)
    without_time = (
        [[row[key] for key in row if key != "seconds"] for row in read_rows(outcome)]
        for outcome in (again, whole)
    )
    assert next(without_time) == next(without_time)
    assert (again.best_epoch, again.best_value) == (whole.best_epoch, whole.best_value)


def test_a_kill_between_the_two_files_leaves_no_old_best(finished, tmp_path):
    folder, first, task, _ = finished
    shutil.copytree(folder, tmp_path / "run")
    best = tmp_path / "run" / "checkpoints" / "best.ckpt"
    write_checkpoint(best, {"state_dict": {}, "epoch": 0, "value": -1.0})
    _, other = run(tmp_path / "run", resume=True)
    assert read_checkpoint(best)["epoch"] == first.best_epoch
    assert torch.equal(task.model.head.weight, other.model.head.weight)
    best.unlink()
    run(tmp_path / "run", resume=True)
    assert read_checkpoint(best)["value"] == first.best_value


@pytest.mark.parametrize("content", [b"", b"short", None])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(finished, tmp_path, content):
    run(tmp_path / "run", max_epochs=3, save_every=0.0)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:-100] if content is None else content)
    listener = Listener()
    outcome, _ = run(tmp_path / "run", resume=True, report=listener, save_every=0.0)
    assert outcome.resumed_from == previous_path(last)
    assert f"'{last}'" in listener.notes[0]
    assert f"'{previous_path(last)}'" in listener.notes[0]
    assert outcome.notes == tuple(listener.notes)
    assert outcome.best_value == finished[1].best_value
    assert len(read_rows(outcome)) == 5


def test_weights_alone_are_no_run(finished, tmp_path):
    _, outcome, task, _ = finished
    last = tmp_path / "other" / "checkpoints" / "last.ckpt"
    write_checkpoint(last, read_checkpoint(outcome.best_checkpoint))
    with pytest.raises(CheckpointError, match="weights alone"):
        run(tmp_path / "other", resume=True)
    other = GraphTask.for_data(SmallNet(4, 7), node_task())
    with pytest.raises(CheckpointError, match="weights of SmallNet with the same settings"):
        load_weights(other, outcome.best_checkpoint)
    write_checkpoint(last, {"epoch": 1})
    with pytest.raises(CheckpointError, match="without any"):
        load_weights(task, last)


@pytest.mark.parametrize("when", [2, 3])
def test_a_full_disk_is_said_and_an_error_at_the_end_alone(tmp_path, monkeypatch, when):
    full, real = [False], os.fsync

    def fsync(handle):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    listener = Listener(lambda epoch: full.__setitem__(0, epoch == when))
    options = {"report": listener, "save_every": 0.0, "max_epochs": 3}
    if when == 3:
        with pytest.raises(CheckpointError, match="make room and resume"):
            run(tmp_path, **options)
        full[0] = False
        assert run(tmp_path, resume=True, max_epochs=3)[0].epochs == 3
    else:
        assert run(tmp_path, **options)[0].epochs == 3
        (note,) = listener.notes
        assert "No space left on device" in note
        assert "the one before is untouched" in note


# signals


@pytest.mark.parametrize(("most", "reason"), [(50, "signal"), (3, "max_epochs")])
def test_signal_ends_the_run_saved_and_is_told_in_the_last_epoch(tmp_path, most, reason):
    listener = Listener(lambda epoch: epoch == 3 and os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    outcome, _ = run(tmp_path, report=listener, max_epochs=most, patience=None)
    assert (outcome.stop_reason, outcome.signal, outcome.exit_code) == (reason, 15, 143)
    assert (outcome.is_finished, outcome.epochs) == (reason != "signal", 3)
    assert signal.getsignal(signal.SIGTERM) is before
    if reason == "signal":
        outcome, _ = run(tmp_path, resume=True, max_epochs=4, patience=None)
        assert (outcome.epochs, outcome.stop_reason) == (4, "max_epochs")


class SignalWhileSaving(pl.Callback):
    """Sends SIGTERM while a checkpoint is written, in the middle of the second epoch."""

    def __init__(self):
        self.sent = False

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        if trainer.current_epoch == 1 and not trainer.is_last_batch and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("word", ["plain", "quiet"])
def test_how_steps_are_run_is_not_said_by_every_quiet_run(tmp_path, monkeypatch, capsys, word):
    monkeypatch.setitem(fit.__globals__, "_capture", lambda *parts: "steps are recorded")
    run(tmp_path, report=word, max_epochs=1)
    assert ("steps are recorded" in capsys.readouterr().err) == (word == "plain")


def test_signal_while_a_checkpoint_is_written(tmp_path):
    options = {"max_epochs": 3, "save_every": 0.0}
    outcome, _ = run(tmp_path, graph_task(), callbacks=[SignalWhileSaving()], **options)
    assert (outcome.stop_reason, outcome.signal, outcome.epochs) == ("signal", 15, 1)
    resumed, _ = run(tmp_path, graph_task(), resume=True, **options)
    assert (resumed.stop_reason, resumed.epochs) == ("max_epochs", 3)


def test_second_signal_acts_as_usual(request):
    # where tests run in the background, Ctrl-C is ignored from the start
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with SignalWatch() as watch:
        os.kill(os.getpid(), signal.SIGINT)
        assert watch.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_leave_signals_alone(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    results = []
    thread = threading.Thread(target=lambda: results.append(run(tmp_path, max_epochs=1)[0]))
    thread.start()
    thread.join()
    assert results[0].epochs == 1
    assert signal.getsignal(signal.SIGTERM) is before


# numbers that went wrong


class Exploding(Module):
    """Becomes infinite after some calls in training."""

    def __init__(self):
        super().__init__()
        self.first = Linear(4, 4)
        self.second = Linear(4, 3)
        self.calls = 0

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):
        self.calls += self.training
        if self.calls > 3:
            x = x * torch.inf
        return self.second(self.first(x))


def test_non_finite_loss_stops_the_run(tmp_path):
    with pytest.raises(NonFiniteLossError, match="at step 3") as caught:
        run(tmp_path, model=Exploding(), save_every=0.0)
    message = str(caught.value)
    assert "the output of 'first' is not finite" in message
    assert "lower the learning rate" in message
    assert "constraint" not in message  # a setting that this model does not have
    assert str(tmp_path / "checkpoints" / "last.ckpt") in message
    last = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    assert all(bool(value.isfinite().all()) for value in last["state_dict"].values())


def test_weights_of_version_0_1_are_refused_in_a_sentence(tmp_path):
    outcome, _ = run(tmp_path, model=GRAMA(4, 8, 3), max_epochs=1)
    sentence = "got those of version 0.1, whose GRAMA was another.*install torch-grama 0.1$"
    for path in (outcome.best_checkpoint, outcome.last_checkpoint):
        old = read_checkpoint(path)
        assert old.pop("torch_grama") == torch_grama.__version__
        weights = old["state_dict"]
        for name in [name for name in weights if ".coefficients." in name]:
            weights[name.replace(".coefficients.", ".ar_coefficients.")] = weights.pop(name)
        write_checkpoint(path, old)
    task = GraphTask.for_data(GRAMA(4, 8, 3), node_task())
    with pytest.raises(CheckpointError, match=sentence) as caught:
        load_weights(task, outcome.best_checkpoint)
    assert "ar_coefficients" not in str(caught.value)
    with pytest.raises(CheckpointError, match=sentence):
        run(tmp_path, model=GRAMA(4, 8, 3), resume=True, max_epochs=2)


def test_non_finite_loss_names_block_sum_and_radius(tmp_path):
    free = Coefficients("naive", constraint="none")
    model = GRAMA(4, 8, 3, coefficients=free, num_blocks=3, gain=1.0)
    with torch.no_grad():
        coefficients = model.blocks[1].coefficients
        coefficients.weight[:4] *= 0
        coefficients.weight[:4] += 1e30
        phi = float(coefficients().phi[0, 0])
    with pytest.raises(NonFiniteLossError, match=r"at step 0.*block 1 has sum\|phi\|") as caught:
        run(tmp_path, model=model)
    worst = caught.value.diagnosis.worst
    assert worst.block == 1
    assert worst.phi_sum == pytest.approx(4 * phi, rel=1e-5)
    assert worst.pole_radius == pytest.approx(phi, rel=1e-3)
    assert f"pole radius {phi:.4g}" in str(caught.value)


# devices that are not there


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_missing_device_is_named(tmp_path):
    for word in ("gpu", "cuda"):
        with pytest.raises(ValueError, match=rf"trainer\.accelerator='{word}'"):
            run(tmp_path, accelerator=word)
    with pytest.raises(ValueError, match="one CUDA device"):
        run(tmp_path, accelerator="auto", capture=True)
    with pytest.raises(ValueError, match="'bf16' on a CPU"):
        run(tmp_path, accelerator="auto", precision="16")
    # what was trained in it elsewhere answers here
    for word in ("auto", "cpu"):
        assert choose_device(TrainerSettings(precision="16", accelerator=word)).type == "cpu"


class LostLater(SmallNet):
    """Its answers in evaluation are no numbers from the second time on, all of them class 0."""

    def forward(self, *given, **named):
        out = super().forward(*given, **named)
        if self.training:
            return out
        self.times = getattr(self, "times", 0) + 1
        # first the answer that is never right
        return -100 * torch.eye(3)[:1].expand_as(out) if self.times == 1 else out * torch.nan


def test_what_is_no_number_is_never_the_best(tmp_path):
    data = node_task()
    data.graphs[0]["y"] = torch.zeros_like(data.graphs[0]["y"])
    outcome, _ = run(tmp_path, data, LostLater(4, 3), patience=None)
    accuracies = [float(row["val/accuracy"]) for row in read_rows(outcome)]
    assert accuracies == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert (outcome.best_epoch, outcome.best_value) == (1, 0.0)
