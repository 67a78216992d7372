"""Recorded steps give the numbers of steps that are not; on a CPU they run without a record."""

import itertools
import sys

import pytest
import torch
from training_cases import SmallNet, graph_task, node_regression_task, node_task, read_rows, train

from torch_grama import GRAMA, Running
from torch_grama.training import (
    GraphDataModule,
    GraphTask,
    NonFiniteLossError,
    OptimizerSettings,
    ScheduleSettings,
    TrainerSettings,
    evaluate,
    evaluation_loader,
    predict,
    prediction_loader,
)
from torch_grama.training import captured_step as file
from torch_grama.training.optimizer import build_optimizer, keep_form
from torch_grama.training.progress import SilentReporter

# training is traced by other tests
pytestmark = pytest.mark.no_cover
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_cuda])]


@pytest.fixture
def padded_on_cpu(monkeypatch):
    """Lets a CPU take planned and padded steps, which it runs without a record."""
    monkeypatch.setattr(sys.modules["torch_grama.training.fit"], "records_on", lambda _: True)
    for name in ("fit", "evaluate"):
        monkeypatch.setattr(sys.modules[f"torch_grama.training.{name}"], "pays", lambda *_: True)


def without_chance(model_class, *sizes):
    """A model of seed 0 without dropout."""
    torch.manual_seed(0)
    model = model_class(*sizes)
    model.dropout.p = 0.0
    return model


def run(folder, capture, data, model=None, device="cpu", **changes):
    if model is None:
        model = without_chance(SmallNet, 4, data.num_outputs, data.level)
    changes = {"optimizer": OptimizerSettings(lr=0.01), "max_epochs": 8, **changes}
    changes |= {"schedule": ScheduleSettings("cosine", warmup_epochs=2), "patience": None}
    # a CPU by name could not be asked to record
    accelerator = "auto" if device == "cpu" else device
    outcome, task = train(
        folder, data, model, capture=capture, accelerator=accelerator, tensorboard=True, **changes
    )
    return read_rows(outcome), task


def assert_same_run(one, other, rel):
    (rows, task), (others, twin) = one, other
    for row, of_twin in zip(rows, others, strict=True):
        for name in ("train/loss", "val/loss", "lr"):
            assert bool(of_twin[name]) == bool(row[name]), name
            if row[name]:  # not every epoch is validated
                assert float(of_twin[name]) == pytest.approx(float(row[name]), rel=rel, abs=1e-6)
    for name, value in task.state_dict().items():
        assert torch.allclose(value, twin.state_dict()[name], rtol=10 * rel, atol=1e-5), name


@pytest.mark.parametrize(
    ("name", "gradient_clip"), [("adam", None), ("adamw", 0.1), ("sgd", None), ("sgd", 0.1)]
)
@pytest.mark.parametrize("make", [graph_task, node_regression_task])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("padded_on_cpu")
def test_a_recorded_run_equals_one_that_is_not(tmp_path, device, make, gradient_clip, name):
    changes = {
        "device": device,
        "gradient_clip": gradient_clip,
        "optimizer": OptimizerSettings(name, lr=0.01),
        "check_val_every": 2,
    }
    plain = run(tmp_path / "plain", False, make(), **changes)
    recorded = run(tmp_path / "recorded", True, make(), **changes)
    assert_same_run(plain, recorded, 1e-4 if device == "cpu" else 1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("padded_on_cpu")
def test_bf16_is_recorded_too(tmp_path, device):
    # Adam would turn the rounding of small gradients into steps of full length
    optimizer = OptimizerSettings("sgd", lr=0.01)
    changes = {"device": device, "precision": "bf16", "optimizer": optimizer}
    plain = run(tmp_path / "plain", False, graph_task(), **changes)
    recorded = run(tmp_path / "recorded", True, graph_task(), **changes)
    assert_same_run(plain, recorded, 2e-2)


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("gradient_clip", [None, 0.1])
def test_a_recorded_run_on_one_graph_equals_one_that_is_not(tmp_path, gradient_clip):
    def train_once(capture):
        torch.manual_seed(0)
        model = GRAMA(4, 16, 3, running=Running(cached=True))
        changes = {"device": "cuda", "gradient_clip": gradient_clip, "max_epochs": 12}
        return run(tmp_path / str(capture), capture, node_task(200), model, **changes)

    assert_same_run(train_once(False), train_once(True), 1e-4)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("steps", [7, 23])
@pytest.mark.usefixtures("padded_on_cpu")
def test_a_killed_run_goes_on_bit_for_bit(tmp_path, monkeypatch, device, steps):
    # with dropout: random numbers go on where they stood
    def train_once(folder, resume=False):
        torch.manual_seed(1)
        model = SmallNet(4, 2, "graph")
        changes = {"resume": resume, "save_every": 0.0, "deterministic": True}
        return run(folder, True, graph_task(), model, device, **changes)

    plain, done = file.CapturedTraining.run, itertools.count(1)

    def kill_after_steps(captured, batch):
        if next(done) > steps:
            raise Killed
        plain(captured, batch)

    whole = train_once(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(file.CapturedTraining, "run", kill_after_steps)
        with pytest.raises(Killed):
            train_once(tmp_path / "killed")
    resumed = train_once(tmp_path / "killed", resume=True)
    for name, value in whole[1].state_dict().items():
        assert torch.equal(value, resumed[1].state_dict()[name]), name
    for row, other in zip(whole[0], resumed[0], strict=True):
        for name in ("train/loss", "val/loss", "lr"):
            assert row[name] == other[name], name


@pytest.mark.usefixtures("padded_on_cpu")
def test_what_is_recorded_before_training_is_deterministic_too(tmp_path):
    # the trial of a validation pass is replayed in each validation
    model, modes = SmallNet(4, 2, "graph"), set()
    model.register_forward_hook(lambda *_: modes.add(torch.are_deterministic_algorithms_enabled()))
    run(tmp_path / "run", True, graph_task(), model, "cpu", deterministic=True)
    assert modes == {True}
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.usefixtures("padded_on_cpu")
def test_a_run_may_be_resumed_with_or_without_a_record(tmp_path, device, first):
    short = run(tmp_path / "both", first, graph_task(), device=device, max_epochs=4)
    assert len(short[0]) == 4
    both = run(tmp_path / "both", not first, graph_task(), device=device, resume=True)
    # the schedule is that of eight epochs in both halves only for a constant rate
    assert len(both[0]) == 8
    assert float(both[0][-1]["train/loss"]) < float(both[0][0]["train/loss"])


@pytest.mark.parametrize("capturable", [True, False])
def test_an_optimiser_keeps_its_form_whatever_it_loads(capturable):
    def step(optimizer, model):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()

    model = torch.nn.Linear(3, 1)
    saved = build_optimizer(OptimizerSettings(lr=0.5), model, capturable=not capturable)
    step(saved, model)
    loaded = build_optimizer(OptimizerSettings(lr=0.1), model, capturable=capturable)
    loaded.load_state_dict(saved.state_dict())
    keep_form(loaded)
    (group,) = loaded.param_groups
    assert isinstance(group["lr"], torch.Tensor) == capturable
    assert float(group["lr"]) == 0.5
    assert group["capturable"] == capturable
    step(loaded, model)


class Diverging(SmallNet):
    """Its output is no finite number for graphs whose first feature is large."""

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):
        out = super().forward(x, edge_index, edge_weight, edge_attr, batch, batch_size)
        largest = out.new_zeros(batch_size).scatter_reduce(0, batch, x[:, 0], "amax")
        return out / (largest < 100.0).float().unsqueeze(1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("padded_on_cpu")
def test_a_loss_that_is_not_finite_ends_the_run_and_moves_no_weight(tmp_path, device):
    data = graph_task()
    torch.manual_seed(0)
    model = Diverging(4, 2, "graph")
    # a batch of the second half of the first epoch, found by the order of its graphs
    settings = TrainerSettings(batch_size=4)
    part = list(GraphDataModule(data, 0, settings).source("train").plan.parts(0))[3]
    # not the first graph of all, whose first node fills the padding
    number = next(int(number) for number in part if number > 0)
    data.graphs[int(data.folds[0].train[number])].x[0, 0] = 1000.0
    moved = []
    plain = file.CapturedTraining._step

    def watched(captured, batch, padding):
        plain(captured, batch, padding)
        moved.append(captured._task.model.lin.weight.detach().clone())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file.CapturedTraining, "_step", watched)
        with pytest.raises(NonFiniteLossError, match="step 3"):
            run(tmp_path, True, data, model, device, max_epochs=3)
    assert len(moved) >= 4
    assert not torch.equal(moved[0], moved[2])
    if device == "cpu":
        assert torch.equal(moved[2], moved[3])
        assert torch.equal(moved[2], moved[4])


class FortySums(SmallNet):
    """Sums over neighbours, one after the other, without a norm."""

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):
        hidden = self.lin(x)
        for _ in range(40):
            hidden = hidden.index_add(0, edge_index[1], hidden[edge_index[0]])
        sums = hidden.new_zeros(batch_size, hidden.size(1)).index_add(0, batch, hidden)
        return self.head(1e-28 * sums)


@pytest.mark.usefixtures("padded_on_cpu")
def test_deep_sums_stay_finite_in_the_padding(tmp_path):
    data = graph_task(60)
    for number, graph in enumerate(data.graphs):  # two or four neighbours a node
        size, steps = (60, [1]) if number % 2 else (40, [1, 2])
        nodes = torch.arange(size)
        ends = torch.cat([torch.stack([nodes, (nodes + step) % size]) for step in steps], dim=1)
        graph.x = torch.randn(size, 4, generator=torch.Generator().manual_seed(number))
        graph.edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    plain, recorded = (
        run(tmp_path / str(capture), capture, data, without_chance(FortySums, 4, 2, "graph"))
        for capture in (False, True)
    )
    assert_same_run(plain, recorded, 1e-4)


@pytest.mark.usefixtures("padded_on_cpu")
def test_a_batch_that_fits_no_bucket_runs_as_it_is_and_is_counted(tmp_path, monkeypatch):
    plain = run(tmp_path / "plain", False, graph_task())
    counts = []
    buckets = sys.modules["torch_grama.training.loaders"]._choose_buckets

    def small(graphs):
        count = len(graphs.plan.order(0)) // 4
        orders = graphs.plan.order(0)[: 4 * count].view(-1, 4)
        sizes = sorted(size.nodes for size in graphs.pack.sizes(orders))
        return [b._replace(nodes=sizes[count // 2] + 1) for b in buckets(graphs)]

    monkeypatch.setattr(sys.modules["torch_grama.training.loaders"], "_choose_buckets", small)
    find = file.CapturedTraining.find_failure
    monkeypatch.setattr(
        file.CapturedTraining,
        "find_failure",
        lambda captured: counts.append(captured.num_eager) or find(captured),
    )
    recorded = run(tmp_path / "recorded", True, graph_task())
    assert_same_run(plain, recorded, 1e-4)
    steps = int(plain[0][-1]["step"])
    assert 0 < counts[-1] < steps


@pytest.mark.parametrize("make", [graph_task, node_regression_task])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("padded_on_cpu")
def test_evaluation_and_predictions_are_the_same_in_buckets(monkeypatch, device, make):
    data = make()
    torch.manual_seed(0)
    task = GraphTask.for_data(SmallNet(4, data.num_outputs, data.level), data).to(device)
    settings = TrainerSettings(batch_size=4)
    measured = []
    for in_buckets in (True, False):
        monkeypatch.setattr(
            sys.modules["torch_grama.training.evaluate"], "pays", lambda *_, on=in_buckets: on
        )
        measured.append(
            (
                evaluate(task, evaluation_loader(data, 0, "train", settings)),
                predict(task, evaluation_loader(data, 0, "train", settings)),
                predict(task, prediction_loader(data, settings)),
            )
        )
    (ours, rows, everything), (theirs, other_rows, other_everything) = measured
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert torch.allclose(rows, other_rows, atol=1e-5)
    assert torch.allclose(everything, other_everything, atol=1e-5)


class MeanOfAll(SmallNet):
    """Subtracts a mean over all nodes of a batch, which padding would change, in training or
    outside of it.
    """

    in_training = True

    def forward(self, x, *rest):
        self.modes.append(self.training)
        mean = x.mean(dim=0) if self.training == self.in_training else 0.0
        return super().forward(x - mean, *rest)


@pytest.mark.usefixtures("padded_on_cpu")
@pytest.mark.parametrize("in_training", [True, False])
def test_a_model_that_padding_would_change_is_trained_without(tmp_path, in_training):
    reporter, notes = SilentReporter(), []
    reporter.note = notes.append

    def model():
        found = without_chance(MeanOfAll, 4, 2, "graph")
        found.in_training, found.modes = in_training, []
        return found

    plain = run(tmp_path / "plain", False, graph_task(), model())
    auto = run(tmp_path / "auto", "auto", graph_task(), model(), report=reporter)
    assert_same_run(plain, auto, 1e-6)
    modes = auto[1].model.modes
    assert modes[-len(plain[1].model.modes) :] == plain[1].model.modes
    assert any("not recorded" in text and "without padding" in text for text in notes)
    with pytest.raises(ValueError, match="without padding"):
        run(tmp_path / "forced", True, graph_task(), model())


class Rough(SmallNet):
    """Makes a rounding error, which depends on the padding, large where its norm knows nothing of
    its numbers.
    """

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.last_norm = torch.nn.BatchNorm1d(2, momentum=0.1)

    def forward(self, x, *rest):
        rounding = 1e-7 * len(x)
        return self.last_norm(1e4 * (super().forward(x, *rest) + rounding)).cos()


@pytest.mark.usefixtures("padded_on_cpu")
def test_rounding_of_an_untrained_model_is_no_change(tmp_path):
    plain, recorded = (
        run(tmp_path / name, name == "recorded", graph_task(), without_chance(Rough, 4, 2, "graph"))
        for name in ("plain", "recorded")
    )
    # what the trial did to statistics and settings of the norm is undone
    losses = [[float(row["train/loss"]) for row in rows] for rows, _ in (plain, recorded)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    norms = [task.model.last_norm for _, task in (plain, recorded)]
    assert torch.allclose(norms[0].running_mean, norms[1].running_mean, rtol=1e-3)
    assert norms[0].momentum == norms[1].momentum == 0.1


@pytest.mark.usefixtures("padded_on_cpu")
def test_a_recorded_run_says_so_in_one_line(tmp_path, capsys):
    run(tmp_path, "auto", graph_task(), report="plain")
    said = [line for line in capsys.readouterr().err.splitlines() if "recorded" in line]
    assert len(said) == 1
    assert "nodes and" in said[0]


def test_a_cpu_records_nothing_and_says_nothing(tmp_path, capsys):
    run(tmp_path, "auto", graph_task(), report="plain")
    assert "record" not in capsys.readouterr().err


def test_a_loss_scale_cannot_be_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["torch_grama.training.fit"], "records_on", lambda _: True)
    monkeypatch.setattr(
        sys.modules["torch_grama.training.fit"],
        "choose_device",
        lambda *_, **__: torch.device("cpu"),
    )
    with pytest.raises(ValueError, match="'32' or 'bf16'"):
        run(tmp_path, True, graph_task(), precision="16")
