"""Small data as a user would have it, written by the tests."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from torch_geometric.data import Data

from torch_grama.experiments.config import DataConfig, ModelConfig, RunConfig
from torch_grama.training import TrainerSettings


def ring_with_chords(num_nodes: int, edge_dim: int | None = None) -> Data:
    """A connected undirected graph with random features."""
    generator = torch.Generator().manual_seed(num_nodes)
    step = torch.arange(num_nodes)
    pairs = torch.cat(
        [torch.stack([step, (step + 1) % num_nodes]), torch.stack([step, (step + 3) % num_nodes])],
        dim=1,
    )
    data = Data(
        x=torch.randn(num_nodes, 5, generator=generator),
        edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
    )
    if edge_dim is not None:
        half = torch.randn(pairs.size(1), edge_dim, generator=generator)
        data.edge_attr = torch.cat([half, half])
    return data


def write_node_folder(
    folder: Path, num_nodes: int = 60, seed: int = 0, *, labels: bool = True, weights: bool = False
) -> Path:
    """A folder with nodes.csv and edges.csv: two communities, told by neighbours and a feature."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    sides = [draw.random() < 0.5 for _ in range(num_nodes)]
    with (folder / "nodes.csv").open("w") as file:
        file.write("id,label,height,colour\n" if labels else "id,height,colour\n")
        for number, side in enumerate(sides):
            word = ("left,", "right,")[side] if labels else ""
            height = draw.gauss(1.0 if side else -1.0, 1.5)
            file.write(f"n{number},{word}{height:.4f},{draw.choice(['red', 'blue'])}\n")
    with (folder / "edges.csv").open("w") as file:
        file.write("source,target,weight\n" if weights else "source,target\n")
        for _ in range(3 * num_nodes):
            one, other = draw.sample(range(num_nodes), 2)
            if sides[one] == sides[other] or draw.random() < 0.2:
                tail = f",{draw.uniform(0.5, 2):.3f}" if weights else ""
                file.write(f"n{one},n{other}{tail}\n")
    return folder


def small_config(data: Path, model: str, max_epochs: int, **options: object) -> RunConfig:
    """A model of few channels on a CPU."""
    return RunConfig(
        data=DataConfig(name=str(data)),
        model=ModelConfig(name=model, hidden_channels=4, options=options),
        trainer=TrainerSettings(max_epochs=max_epochs, accelerator="cpu", batch_size=8),
    )


def write_graph_file(path: Path, num_graphs: int = 40, seed: int = 0) -> Path:
    """Graphs in JSON lines: rings and lines, told apart by their label."""
    draw = random.Random(seed)
    lines = []
    for number in range(num_graphs):
        size = draw.randint(4, 8)
        edges = [[node, node + 1] for node in range(size - 1)]
        is_ring = number % 2 == 0
        if is_ring:
            edges.append([size - 1, 0])
        features = [[draw.gauss(0, 1), 1.0] for _ in range(size)]
        lines.append({"x": features, "edges": edges, "label": "ring" if is_ring else "line"})
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path
