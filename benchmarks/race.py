"""Is the default right? The race of ``grama train`` beside each of its models alone.

python -m benchmarks.race --out runs/race [--splits 3] [--time-budget 2m] [--only NAME ...]

Eight data sets of different kinds are written as a user's own files. On each, and on several splits
of it, the race runs and every model of its list is trained alone with its usual settings. The race
should nowhere be more than one standard error behind the best of them. A run that is there stays.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_undirected

from torch_grama.cli import main as grama
from torch_grama.cli.parser import duration
from torch_grama.datasets import load
from torch_grama.experiments.race import MODELS


def communities(nodes: int, classes: int, width: int, same: float, degree: int, seed: int) -> Data:
    """Classes with centres in feature space; a share of the edges joins nodes of one class."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (nodes,), generator=draw)
    centres = torch.randn(classes, width, generator=draw)
    x = 0.6 * centres[y] + torch.randn(nodes, width, generator=draw)
    return Data(x=x, y=y, edge_index=_edges(y, classes, same, degree, draw))


def words(nodes: int, classes: int, width: int, same: float, seed: int) -> Data:
    """Bags of words: thousands of flags, few of them set, which lean towards the class."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (nodes,), generator=draw)
    rates = 0.006 + 0.03 * (torch.rand(classes, width, generator=draw) < 0.03)
    x = torch.bernoulli(rates[y], generator=draw)
    return Data(x=x, y=y, edge_index=_edges(y, classes, same, 8, draw))


def smooth_field(nodes: int, seed: int) -> Data:
    """A quantity on the nodes that is a mean of noisy features over two hops."""
    graph = nx.random_geometric_graph(nodes, 0.07, seed=seed)
    edges = torch.tensor(list(graph.edges)).T
    edge_index = to_undirected(edges, num_nodes=nodes)
    x = torch.randn(nodes, 6, generator=torch.Generator().manual_seed(seed))
    y = x[:, :1].clone()
    for _ in range(2):
        total = y.new_zeros(y.shape).index_add_(0, edge_index[1], y[edge_index[0]])
        y = (y + total) / (1 + degree(edge_index[1], nodes).unsqueeze(1))
    return Data(x=x, y=y, edge_index=edge_index)


def rings_and_lines(count: int, seed: int) -> list[Data]:
    """Graphs that hold a ring, or a line with as many edges beside it."""
    draw = torch.Generator().manual_seed(seed)
    graphs = []
    for number in range(count):
        size = int(torch.randint(8, 20, (1,), generator=draw))
        steps = torch.arange(size)
        edges = torch.stack([steps, (steps + 1) % size])
        if number % 2:
            edges[:, -1] = torch.tensor([0, size // 2])
        x = torch.randn(size, 4, generator=draw)
        graphs.append(
            Data(x=x, y=torch.tensor([number % 2]), edge_index=to_undirected(edges, num_nodes=size))
        )
    return graphs


def _edges(y: Tensor, classes: int, same: float, degree: int, draw: torch.Generator) -> Tensor:
    source = torch.arange(len(y)).repeat_interleave(degree // 2)
    like = torch.rand(len(source), generator=draw) < same
    shift = torch.randint(1, classes, (len(source),), generator=draw)
    wanted = torch.where(like, y[source], (y[source] + shift) % classes)
    target = torch.empty_like(source)
    for label in range(classes):
        members = (y == label).nonzero().flatten()
        chosen = wanted == label
        picks = torch.randint(len(members), (int(chosen.sum()),), generator=draw)
        target[chosen] = members[picks]
    return to_undirected(torch.stack([source, target]), num_nodes=len(y))


def _public(name: str) -> Callable[[], Data]:
    def make() -> Data:
        graph = load(name).graphs[0]
        return Data(x=graph.x, y=graph.y, edge_index=graph.edge_index)

    return make


DATA: dict[str, Callable[[], Data | list[Data]]] = {
    "communities": lambda: communities(400, 4, 8, 0.8, 6, seed=1),
    "strangers": lambda: communities(1200, 5, 16, 0.1, 8, seed=2),
    "words-like": lambda: words(900, 5, 2000, 0.75, seed=3),
    "words-unlike": lambda: words(900, 5, 2000, 0.2, seed=4),
    "field": lambda: smooth_field(700, seed=5),
    "rings": lambda: rings_and_lines(240, seed=6),
    "cora": _public("cora"),
    "large": lambda: communities(10_000, 5, 32, 0.5, 6, seed=7),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--time-budget", type=duration, default=120.0)
    parser.add_argument("--only", nargs="+", default=list(DATA), choices=list(DATA))
    arguments = parser.parse_args(argv)
    behind = 0
    for name in arguments.only:
        scores = {
            model: [_score(arguments, name, split, model) for split in range(arguments.splits)]
            for model in ("race", *models_for(name))
        }
        behind += not judge(name, scores, name != "field")
    return behind


def models_for(name: str) -> tuple[str, ...]:
    """The models that are trained alone: attention to all pairs of 10,000 nodes takes hours."""
    return tuple(model for model in MODELS if (name, model) != ("large", "grama-gps"))


def judge(name: str, scores: dict[str, list[float]], higher: bool) -> bool:
    """Whether the race is at most one standard error of the best model behind it."""
    means = {model: statistics.fmean(values) for model, values in scores.items()}
    best = (max if higher else min)(means.keys() - {"race"}, key=means.__getitem__)
    values = scores[best]
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    gap = (means[best] - means["race"]) * (1 if higher else -1)
    shown = "  ".join(f"{model} {mean:.4f}" for model, mean in means.items())
    print(f"{name}: behind by {gap:.4f}, error {error:.4f}  ({shown})", flush=True)
    return gap <= error


def _score(arguments: argparse.Namespace, name: str, split: int, model: str) -> float:
    run = arguments.out / name / f"{model}-{split}"
    if not (run / "result.json").is_file():
        path = arguments.out / f"{name}-{split}.pt"  # its split is kept beside it
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(DATA[name](), path)
        words = ["train", "--data", str(path), "--run", str(run), "--quiet", "--seed", str(split)]
        words += ["--data.options.seed", str(split)]
        words += (
            ["--time-budget", str(arguments.time_budget)] if model == "race" else ["--model", model]
        )
        if grama(words) != 0:
            raise SystemExit(f"{name}, {model}, split {split} failed")
    return float(json.loads((run / "result.json").read_text())["test"])


if __name__ == "__main__":
    raise SystemExit(main())
