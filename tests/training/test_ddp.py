"""Two processes train as one does, on the same global batches."""

import os
import signal

import pytest
import torch
import training_cases
from training_cases import graph_task, read_rows

from torch_grama import GRAMA
from torch_grama.training import OptimizerSettings, evaluate, evaluation_loader
from torch_grama.training.progress import SilentReporter


def train(folder, devices, max_epochs=3, **options):
    data = graph_task()
    torch.manual_seed(0)
    model = GRAMA(4, 8, 2, seq_len=2, readout="graph").double()
    for graph in data.graphs:
        graph["x"] = graph["x"].double()
    # 18 graphs: the last batch has one, so that a process gets none
    options |= {"devices": devices, "max_epochs": max_epochs, "batch_size": 17, "seed": 1}
    rate = OptimizerSettings(lr=0.02)
    outcome, task = training_cases.train(folder, data, model, rate, **options)
    return outcome, task, evaluate(task, evaluation_loader(data, 0, "test"))


def read_table(outcome):
    return [
        {name: float(value) for name, value in row.items() if name != "seconds"}
        for row in read_rows(outcome)
    ]


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path, capfd):
    alone, task, value = train(tmp_path / "alone", 1)
    pair, second, other = train(tmp_path / "pair", 2)
    assert capfd.readouterr() == ("", "")
    for row, twin in zip(read_table(alone), read_table(pair), strict=True):
        assert twin == pytest.approx(row, rel=1e-6)
    for name, weights in task.state_dict().items():
        assert torch.allclose(weights, second.state_dict()[name], atol=1e-7), name
    assert other == pytest.approx(value, rel=1e-6)
    assert (pair.epochs, pair.stop_reason) == (3, "max_epochs")


class SendSignal(SilentReporter):
    """Sends its own process a signal after the second epoch."""

    def epoch(self, report):
        if report.epoch == 2:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.long
def test_a_signal_to_one_process_ends_both_saved_and_they_go_on(tmp_path):
    outcome, _, _ = train(tmp_path / "pair", 2, report=SendSignal(), max_epochs=30)
    assert (outcome.epochs, outcome.signal, outcome.exit_code) == (2, 15, 143)
    longer, task, _ = train(tmp_path / "pair", 2, resume=True, max_epochs=4)
    whole, twin, _ = train(tmp_path / "whole", 1, max_epochs=4)
    assert longer.epochs == whole.epochs == 4
    assert torch.allclose(task.model.blocks[0].gain, twin.model.blocks[0].gain)
