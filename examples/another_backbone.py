"""Another backbone: GRAMA around any convolution, trained by the same loop.

Names cover GCN, GatedGCN, GIN, GPS and sums. Any module with the call of a PyG convolution can take
their place: pass the module itself, then hand the model to a task.

    python examples/another_backbone.py --epochs 20
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch_geometric.nn import GATv2Conv

from torch_grama import GRAMA
from torch_grama.datasets import load
from torch_grama.training import (
    GraphDataModule,
    GraphTask,
    OptimizerSettings,
    TrainerSettings,
    evaluate,
    evaluation_loader,
    fit,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="transfer-ring-5", help="a name of `grama data list`")
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()

    data = load(arguments.data)
    width = 16
    torch.manual_seed(0)
    model = GRAMA(
        data.node_encoding.num_columns,
        width,
        data.num_outputs,
        seq_len=3,
        num_blocks=2,
        backbone=GATv2Conv(width, width),
        readout=data.level,
    )
    task = GraphTask.for_data(model, data, OptimizerSettings(lr=3e-3))
    settings = TrainerSettings(max_epochs=arguments.epochs, batch_size=64, gradient_clip=1.0)
    with tempfile.TemporaryDirectory() as folder:
        outcome = fit(task, GraphDataModule(data, 0, settings), Path(folder))
    # the task has the weights of the best epoch; the test part is read once
    values = evaluate(task, evaluation_loader(data, 0, "test", settings))
    print(f"best validation {data.metric.name} {outcome.best_value:.4f}")
    print(f"test {data.metric.name} {values[data.metric.name]:.4f}")


if __name__ == "__main__":
    main()
