"""A training step in a CUDA graph gives the numbers of one that is not."""

import csv

import pytest
import torch
from training_cases import node_task

from torch_grama import GRAMA, Running
from torch_grama.training import (
    GraphDataModule,
    GraphTask,
    OptimizerSettings,
    ScheduleSettings,
    TrainerSettings,
    fit,
)
from torch_grama.training.captured_step import CapturedStep


def test_a_step_of_sgd_cannot_be_recorded():
    task = GraphTask.for_data(GRAMA(4, 8, 3), node_task(), OptimizerSettings("sgd"))
    task.capture(None, "32")
    with pytest.raises(ValueError, match="'adam' or 'adamw'"):
        task.configure_optimizers()
    adam = GraphTask.for_data(GRAMA(4, 8, 3), node_task())
    adam.capture(None, "32")
    (group,) = adam.configure_optimizers().param_groups
    assert group["capturable"]
    assert isinstance(group["lr"], torch.Tensor)


def test_a_loss_scale_cannot_be_recorded():
    with pytest.raises(ValueError, match="'32' or 'bf16'"):
        CapturedStep(None, "16")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("gradient_clip", [None, 0.1])
def test_captured_run_equals_the_eager_run(tmp_path, gradient_clip):
    def run(capture):
        data = node_task(200)
        torch.manual_seed(0)
        model = GRAMA(4, 16, 3, running=Running(cached=True, check_input=False))
        task = GraphTask.for_data(
            model, data, OptimizerSettings(lr=0.01), ScheduleSettings("cosine", warmup_epochs=2)
        )
        settings = TrainerSettings(
            max_epochs=12,
            accelerator="cuda",
            capture=capture,
            gradient_clip=gradient_clip,
            patience=None,
        )
        folder = tmp_path / str(capture)
        outcome = fit(task, GraphDataModule(data, 0, settings), folder, report="json")
        with outcome.metrics_file.open() as stream:
            rows = list(csv.DictReader(stream))
        return rows, task.state_dict()

    (eager, weights), (captured, others) = run(False), run(True)
    for row, twin in zip(eager, captured, strict=True):
        for name in ("train/loss", "val/loss", "lr"):
            assert float(twin[name]) == pytest.approx(float(row[name]), rel=1e-4, abs=1e-6)
    for name, value in weights.items():
        assert torch.allclose(value, others[name], rtol=1e-3, atol=1e-5), name
