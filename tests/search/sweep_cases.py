"""Small spaces and data for tests of sweeps."""

from __future__ import annotations

import random
from pathlib import Path

import yaml


def write_heights(folder: Path, num_nodes: int = 40) -> Path:
    """A folder with a number to predict, which a model learns in a few steps."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    with (folder / "nodes.csv").open("w") as file:
        file.write("id,label,x\n")
        for number in range(num_nodes):
            x = draw.gauss(0, 1)
            file.write(f"n{number},{2 * x + 5 + draw.gauss(0, 0.1):.4f},{x:.4f}\n")
    with (folder / "edges.csv").open("w") as file:
        file.write("source,target\n")
        file.writelines(f"n{node},n{(node + 1) % num_nodes}\n" for node in range(num_nodes))
    return folder


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Every result of a sweep with its time and its place on the disk."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in folder.rglob("result.json")
    }


def small_base(data: Path, epochs: int = 3) -> dict[str, object]:
    """Settings of a model that trains in a moment."""
    return {
        "data": str(data),
        "model": {"name": "grama", "hidden_channels": 4, "num_layers": 2},
        "trainer": {"max_epochs": epochs, "accelerator": "cpu"},
    }


def write_space(path: Path, change: dict[str, object], epochs: int = 3) -> None:
    """A file with a grid of four points, and what is changed in it."""
    content = {
        "base": small_base(write_heights(path.parent / "data"), epochs),
        "space": {"optimizer.lr": {"grid": [0.1, 0.01]}, "model.dropout": {"grid": [0.0, 0.1]}},
    }
    path.write_text(yaml.safe_dump(content | change))
