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
from torch_grama.nn import Coefficients, RootedGCNConv


def make_lines(num_graphs: int, distance: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns node features [graphs, nodes, 3] and the values that must arrive [graphs]."""
    values = torch.rand(num_graphs, distance + 1, generator=torch.Generator().manual_seed(seed))
    marks = torch.zeros(num_graphs, distance + 1, 2)
    marks[:, 0, 0] = 1.0  # the source
    marks[:, -1, 1] = 1.0  # the target
    return torch.cat([values.unsqueeze(-1), marks], dim=-1), values[:, 0]


def line_edges(num_graphs: int, distance: int) -> Tensor:
    """Returns the edges of a batch of lines, in both directions."""
    step = torch.arange(distance)
    line = torch.stack([torch.cat([step, step + 1]), torch.cat([step + 1, step])])
    offset = torch.arange(num_graphs).repeat_interleave(line.size(1)) * (distance + 1)
    return line.repeat(1, num_graphs) + offset


def target_error(model: Module, x: Tensor, values: Tensor) -> Tensor:
    """Mean squared error at the target nodes."""
    num_graphs, num_nodes, _ = x.size()
    out = model(x.flatten(0, 1), line_edges(num_graphs, num_nodes - 1))
    return (out.view(num_graphs, num_nodes)[:, -1] - values).square().mean()


def train(name: str, model: Module, distance: int, epochs: int, bar: Progress) -> float:
    """Trains on 1000 lines; returns the test error at the epoch of the best validation error."""
    (x, values), val_lines, test_lines = (
        make_lines(count, distance, seed) for seed, count in enumerate((1000, 100, 100))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    task = bar.add_task(name, total=epochs, best="")
    best, test = float("inf"), float("inf")
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(50):
            optimizer.zero_grad()
            target_error(model, x[index], values[index]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            error = float(target_error(model, *val_lines))
            if error < best:
                best, test = error, float(target_error(model, *test_lines))
        bar.update(task, advance=1, best=f"validation error {best:.5f}")
    return test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distance", type=int, default=10, help="hops from source to target")
    parser.add_argument("--epochs", type=int, default=60, help="passes over 1000 lines")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    distance = arguments.distance
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # the graphs are too small to share
    # A wave carries what it was given one hop on in every recurrence, from the start.
    conv, free = RootedGCNConv(64, loops=False), Coefficients("naive", constraint="none")
    shape = {"seq_len": 2, "num_blocks": 1, "num_recurrences": distance}
    grama = GRAMA(3, 64, 1, backbone=conv, coefficients=free, gain="wave", **shape)
    models: dict[str, Module] = {"GRAMA(GCN)": grama, "GCN": GCN(3, 64, distance, 1)}
    start = time.perf_counter()
    text = TextColumn("{task.description:16s} {task.fields[best]:26s}")
    with Progress(text, BarColumn(), TimeRemainingColumn()) as bar:
        errors = {
            name: train(name, model, distance, arguments.epochs, bar)
            for name, model in models.items()
        }
    print(f"\nMean squared error at the target, {distance} hops from the source")
    for name, error in {"constant predictor": 1 / 12, **errors}.items():
        print(f"  {name:20s} {error:.5f}")
    print(f"GRAMA(GCN) is {errors['GCN'] / errors['GRAMA(GCN)']:.0f} times below GCN.")
    print(f"Seed {arguments.seed}, {arguments.epochs} epochs, {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
