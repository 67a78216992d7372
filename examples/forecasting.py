"""Forecasting: a series on every node, the next value as the answer.

GRAMA reads a real sequence where it otherwise makes one: position k of the sequence is the k-th
snapshot. The series here is a wave that travels along a ring of towns.

    python examples/forecasting.py --epochs 30
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import torch
from torch_geometric.data import Data

from torch_grama.datasets import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.experiments import make_config, run_experiment

TOWNS, LAGS, STEPS = 12, 4, 120


def make_wave() -> GraphTaskData:
    """One graph a time step: the last four values of each town, and the next one as target."""
    generator = torch.Generator().manual_seed(0)
    town = torch.arange(TOWNS)
    ring = torch.stack([town, (town + 1) % TOWNS])
    edges = torch.cat([ring, ring.flip(0)], dim=1)
    time = torch.arange(STEPS + LAGS).unsqueeze(1)
    wave = torch.sin(2 * math.pi * (town / TOWNS - time / 9.0))
    wave = wave + 0.1 * torch.randn(wave.size(), generator=generator)
    graphs = [
        Data(
            x=wave[step : step + LAGS].t().unsqueeze(-1).contiguous(),  # [towns, lags, 1]
            edge_index=edges,
            y=wave[step + LAGS].unsqueeze(-1),
        )
        for step in range(STEPS)
    ]
    steps = torch.arange(STEPS)  # the past is learnt from, the future is asked for
    return GraphTaskData(
        name="wave",
        graphs=graphs,
        folds=[Fold(steps[:80], steps[80:100], steps[100:])],
        level="node",
        kind="forecast",
        metric=Metric("mse", higher_is_better=False),
        num_outputs=1,
        node_encoding=FeatureEncoding("float", 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()

    data = make_wave()
    copied = torch.stack(
        [(graph.x[:, -1] - graph.y).square().mean() for graph in data.graphs[100:]]
    )
    config = make_config({"data": "wave", "trainer.max_epochs": arguments.epochs}, data=data)
    with tempfile.TemporaryDirectory() as folder:
        result = run_experiment(config, Path(folder) / "run", data=data)
    print(f"test error of copying the last value {copied.mean():.4f}")
    print(f"test error of GRAMA {result.test:.4f}")


if __name__ == "__main__":
    main()
