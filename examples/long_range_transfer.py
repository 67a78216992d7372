"""Can a model carry a value across ten hops?

On line graphs of eleven nodes, a random value stands at the source. The target, ten hops away, must
output it. All other nodes hold random values too, and nothing near the target tells the answer: the
best that a model can do without reaching the source is the constant 1/2, with error 1/12 = 0.083.

    python examples/long_range_transfer.py
"""

from __future__ import annotations

import argparse
import time

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.models import GCN

from torch_grama import GRAMA


def make_lines(num_graphs: int, distance: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns node features, edges and the values that must arrive, for a batch of lines."""
    generator = torch.Generator().manual_seed(seed)
    num_nodes = distance + 1
    values = torch.rand(num_graphs, num_nodes, generator=generator)
    x = torch.zeros(num_graphs, num_nodes, 3)
    x[:, 0, 0] = values[:, 0]
    x[:, 0, 1] = 1.0  # the source
    x[:, -1, 2] = 1.0  # the target
    step = torch.arange(distance)
    line = torch.stack([torch.cat([step, step + 1]), torch.cat([step + 1, step])])
    shift = torch.arange(num_graphs).repeat_interleave(line.size(1)) * num_nodes
    edge_index = line.repeat(1, num_graphs) + shift
    return x.view(-1, 3), edge_index, values[:, 0]


def target_error(model: Module, lines: tuple[Tensor, Tensor, Tensor], distance: int) -> Tensor:
    """Mean squared error at the target nodes."""
    x, edge_index, values = lines
    out = model(x, edge_index).view(-1, distance + 1)[:, -1]
    return (out - values).square().mean()


def train(name: str, model: Module, distance: int, epochs: int, progress: Progress) -> float:
    """Trains on 1000 lines; returns the test error at the epoch of the best validation error."""
    train_lines, val_lines, test_lines = (
        make_lines(count, distance, seed) for seed, count in enumerate((1000, 100, 100))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=epochs)
    task = progress.add_task(f"{name:10s} validation error   ...  ", total=epochs)
    best_val, test = float("inf"), float("inf")
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        target_error(model, train_lines, distance).backward()
        optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            val = float(target_error(model, val_lines, distance))
            if val < best_val:
                best_val, test = val, float(target_error(model, test_lines, distance))
        progress.update(task, advance=1, description=f"{name:10s} validation error {best_val:.5f}")
    return test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distance", type=int, default=10, help="hops from source to target")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    # Both are as deep as the distance, of the same width, and see the same data in the same order.
    distance, width = arguments.distance, 64
    torch.manual_seed(arguments.seed)
    models: dict[str, Module] = {
        "GCN": GCN(3, width, num_layers=distance, out_channels=1),
        "GRAMA(GCN)": GRAMA(3, width, 1, seq_len=-(-distance // 2), num_blocks=2, backbone="gcn"),
    }
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    start = time.perf_counter()
    with Progress(*columns) as progress:
        errors = {
            name: train(name, model, distance, arguments.epochs, progress)
            for name, model in models.items()
        }
    print(f"\nMean squared error at the target, {distance} hops from the source")
    print(f"  {'constant predictor':20s} {1 / 12:.5f}")
    for name, error in errors.items():
        print(f"  {name:20s} {error:.5f}")
    print(f"GRAMA(GCN) is {errors['GCN'] / errors['GRAMA(GCN)']:.0f} times below GCN.")
    print(f"Seed {arguments.seed}, {arguments.epochs} epochs, {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
