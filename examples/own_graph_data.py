"""Your own graphs: one graph per line, one answer per graph.

Each line of a file is a graph in JSON: features of its nodes, pairs of nodes, a label. Here a
graph is a ring of black and white pearls, half of each, either sorted by colour or mixed.

    python examples/own_graph_data.py --graphs 200 --epochs 30
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from torch_grama.experiments import evaluate_run, make_config, predict_run, run_experiment


def make_graph(draw: random.Random) -> dict[str, object]:
    """A ring of eight to sixteen pearls, with their colour and weight."""
    half = draw.randint(4, 8)
    is_sorted = draw.random() < 0.5
    colours = [0.0] * half + [1.0] * half if is_sorted else [0.0, 1.0] * half
    return {
        "nodes": [[colour, draw.gauss(50, 5)] for colour in colours],
        "edges": [[node, (node + 1) % len(colours)] for node in range(len(colours))],
        "label": "sorted" if is_sorted else "mixed",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()

    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [json.dumps(make_graph(draw)) for _ in range(arguments.graphs)]
        (folder / "graphs.jsonl").write_text("\n".join(lines))
        config = make_config(
            {
                "data": str(folder / "graphs.jsonl"),
                "model": {"hidden_channels": 16, "num_layers": 4},
                "trainer": {"max_epochs": arguments.epochs, "batch_size": 32},
            }
        )
        run_experiment(config, folder / "run", test=False)
        # the test part is read when you ask for it
        print(f"test accuracy {evaluate_run(folder / 'run')['accuracy']:.3f}")

        # graphs that came in later, without labels
        new = [{k: v for k, v in make_graph(draw).items() if k != "label"} for _ in range(3)]
        (folder / "new.jsonl").write_text("\n".join(map(json.dumps, new)))
        for row in predict_run(folder / "run", folder / "new.jsonl").rows:
            print(row)


if __name__ == "__main__":
    main()
