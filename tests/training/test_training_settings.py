"""Settings are checked where they are made."""

import copy
import dataclasses
import math

import pytest
import torch
from torch.nn import Linear, Module

from torch_grama.training import OptimizerSettings, ScheduleSettings, TrainerSettings
from torch_grama.training.optimizer import LearningRate, build_optimizer, learning_rate_factor


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (OptimizerSettings, {"name": "adamv"}, "'adamw', .*got 'adamv'"),
        (OptimizerSettings, {"lr": 0.0}, "'optimizer.lr' to be greater than 0"),
        (OptimizerSettings, {"lr": math.nan}, "'optimizer.lr' to be a finite number"),
        (OptimizerSettings, {"weight_decay": -1.0}, "'optimizer.weight_decay' to be at least 0"),
        (OptimizerSettings, {"betas": (0.9, 1.0)}, "'optimizer.betas'"),
        (OptimizerSettings, {"momentum": 1.0}, "'optimizer.momentum'"),
        (ScheduleSettings, {"name": "cosin"}, "'cosine', .*got 'cosin'"),
        (ScheduleSettings, {"factor": 1.0}, "'schedule.factor' to lie between 0 and 1"),
        (ScheduleSettings, {"warmup_epochs": -1}, "'schedule.warmup_epochs'"),
        (ScheduleSettings, {"name": "plateau", "warmup_epochs": 2}, "only with 'constant'"),
        (TrainerSettings, {"max_epochs": 0}, "'trainer.max_epochs' to be a whole number from 1"),
        (TrainerSettings, {"batch_size": 1.5}, "'trainer.batch_size' to be a whole number"),
        (TrainerSettings, {"precision": "64"}, "'trainer.precision' to be one of"),
        (TrainerSettings, {"accelerator": "tpu"}, "'trainer.accelerator' to be one of"),
        (TrainerSettings, {"patience": 0}, "'trainer.patience'"),
        (TrainerSettings, {"gradient_clip": 0.0}, "'trainer.gradient_clip' to be greater"),
        (TrainerSettings, {"max_epochs": 3, "min_epochs": 4}, "'trainer.min_epochs' to be at most"),
        (TrainerSettings, {"max_epochs": 3, "check_val_every": 4}, "no epoch is validated"),
        (TrainerSettings, {"patience": 5, "check_val_every": 10}, "before it is validated"),
        (TrainerSettings, {"num_neighbors": (5, 0)}, "'trainer.num_neighbors'"),
        (TrainerSettings, {"capture": True, "accelerator": "cpu"}, "only on a CUDA device"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


@pytest.mark.parametrize("kind", [OptimizerSettings, ScheduleSettings, TrainerSettings])
def test_settings_are_frozen_and_plain(kind):
    TrainerSettings(patience=10, check_val_every=10)  # just long enough
    settings = kind()
    assert kind(**dataclasses.asdict(settings)) == settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.name = "other"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)],
)
def test_optimizer_takes_its_settings(name, kind):
    settings = OptimizerSettings(name, lr=0.1, weight_decay=0.2, betas=(0.5, 0.6), momentum=0.3)
    optimizer = build_optimizer(settings, Linear(2, 2))
    (group,) = optimizer.param_groups
    assert type(optimizer) is kind
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.2)
    assert group.get("momentum", 0.3) == 0.3
    assert group.get("betas", (0.5, 0.6)) == (0.5, 0.6)


@pytest.mark.parametrize(
    ("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_steps_on_a_cpu_are_those_of_the_plain_optimizer(name, kind):
    settings = OptimizerSettings(name, lr=0.1, weight_decay=0.2, betas=(0.5, 0.6))
    model = Linear(3, 2).double()
    twin = copy.deepcopy(model)
    optimizer = build_optimizer(settings, model)
    plain = kind(
        twin.parameters(), lr=0.1, weight_decay=0.2, betas=(0.5, 0.6), foreach=False, fused=False
    )
    for _ in range(5):
        x = torch.randn(4, 3, dtype=torch.float64)
        for module, method in ((model, optimizer), (twin, plain)):
            method.zero_grad()
            module(x).square().sum().backward()
            method.step()
    torch.testing.assert_close(list(model.parameters()), list(twin.parameters()))


def test_biases_can_be_left_undecayed():
    settings = OptimizerSettings(weight_decay=0.2, decay_biases=False)
    decayed, kept = build_optimizer(settings, Linear(2, 2)).param_groups
    assert [p.dim() for p in decayed["params"]] == [2]
    assert [p.dim() for p in kept["params"]] == [1]
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.2, 0.0)


def test_a_model_without_parameters_cannot_be_trained():
    with pytest.raises(ValueError, match="got Module with none"):
        build_optimizer(OptimizerSettings(), Module())


def build_rate(settings, max_epochs=10, steps=2, lr=0.1, higher=False):
    optimizer = torch.optim.SGD(Linear(2, 2).parameters(), lr=lr)
    rate = LearningRate(settings, optimizer, max_epochs, steps, higher)
    optimizer.step()  # schedulers ask for one before they move
    return rate


def test_cosine_follows_its_formula():
    seen = advance(build_rate(ScheduleSettings("cosine", warmup_epochs=3)), 10, 1)
    expected = [1e-6, 1 / 3, 2 / 3] + [0.5 * (1 + math.cos(math.pi * t / 7)) for t in range(7)]
    assert seen == pytest.approx([0.1 * factor for factor in expected])
    assert learning_rate_factor(ScheduleSettings(), 5, 10) == 1.0


def test_onecycle_goes_by_steps_and_ends_low():
    rate = build_rate(ScheduleSettings("onecycle"))
    seen = advance(rate, 10)
    rate.end_step()  # one too many is none
    assert max(seen) == pytest.approx(0.1)
    assert 3 <= seen.index(max(seen)) <= 7
    assert seen[0] < 0.01
    assert rate.value < 1e-4


@pytest.mark.parametrize("on", ["loss", "metric"])
def test_plateau_halves_when_validation_stalls_and_is_spent_at_its_floor(on):
    settings = ScheduleSettings("plateau", patience=1, min_lr=0.03, plateau_on=on)
    rate = build_rate(settings, higher=True)
    better = {"loss": (1.0, 0.0), "metric": (0.0, 1.0)}[on]
    rate.end_epoch(*better)
    for _ in range(2):
        assert rate.value == 0.1
        rate.end_epoch(*better)
    assert rate.value == 0.05
    rate.end_epoch(None, None)  # an epoch without validation counts nothing
    assert rate.value == 0.05
    assert not rate.is_spent
    for _ in range(2):
        rate.end_epoch(*better)
    assert rate.value == 0.03
    assert rate.is_spent


def advance(rate, epochs, steps=2):
    """Goes through some epochs without improvement, and returns the rate of each step."""
    rates = []
    for _ in range(epochs):
        for _ in range(steps):
            rates.append(rate.value)
            rate.end_step()
        rate.end_epoch(1.0, 1.0)
    return rates


@pytest.mark.parametrize("name", ["constant", "cosine", "onecycle", "plateau"])
def test_learning_rate_goes_on_from_its_state(name):
    settings = ScheduleSettings(name, **({"patience": 1} if name == "plateau" else {}))
    whole, first, second = (build_rate(settings) for _ in range(3))
    advance(whole, 7)
    advance(first, 3)
    second.load_state_dict(first.state_dict())
    assert second.value == first.value
    advance(second, 4)
    assert second.value == whole.value


def test_a_schedule_must_fit_the_run_and_its_rate():
    with pytest.raises(ValueError, match=r"'schedule\.warmup_epochs' below 'max_epochs'"):
        build_rate(ScheduleSettings("cosine", warmup_epochs=10))
    with pytest.raises(ValueError, match=r"above 'schedule\.min_lr'"):
        build_rate(ScheduleSettings("plateau", min_lr=1e-5), lr=1e-5)


@pytest.mark.parametrize("name", ["cosine", "onecycle"])
def test_a_run_that_is_given_more_epochs_has_the_rates_of_a_longer_run(name):
    settings = ScheduleSettings(name)
    short, longer = (build_rate(settings, epochs, steps=3) for epochs in (4, 8))
    advance(short, 4, 3)
    longer.load_state_dict(short.state_dict())
    whole = advance(build_rate(settings, 8, steps=3), 8, 3)
    assert advance(longer, 4, 3) == pytest.approx(whole[12:])
    assert min(whole[12:15]) > 0.01
