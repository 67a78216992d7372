"""A search for learning rate and depth; the best settings are measured once on test.

Run it with ``python examples/sweep.py``; every core of the machine takes a trial at a time. The
same search from the command line: write the space below into a file and call ``grama sweep``.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from torch_grama.experiments import evaluate_run
from torch_grama.search import Space, run_sweep


def write_graph(folder: Path, num_nodes: int = 300) -> Path:
    """Two communities as nodes.csv and edges.csv: neighbours tell more than a node's own value."""
    folder.mkdir(parents=True)
    draw = random.Random(0)
    sides = [draw.random() < 0.5 for _ in range(num_nodes)]
    with (folder / "nodes.csv").open("w") as file:
        file.write("id,label,value\n")
        for node, side in enumerate(sides):
            file.write(f"{node},{'left' if side else 'right'},{draw.gauss(side, 2.0):.3f}\n")
    with (folder / "edges.csv").open("w") as file:
        file.write("source,target\n")
        for _ in range(4 * num_nodes):
            one, other = draw.sample(range(num_nodes), 2)
            if sides[one] == sides[other] or draw.random() < 0.3:
                file.write(f"{one},{other}\n")
    return folder


def main() -> None:
    """Sweeps, prints the table and evaluates the best trial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=None, help="where to keep the runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        space = Space.from_dict(
            {
                "base": {
                    "data": str(write_graph(folder / "graph")),
                    "model": {"name": "grama", "backbone": "gcn", "hidden_channels": 16},
                    "trainer": {"max_epochs": arguments.epochs, "accelerator": "cpu"},
                },
                "space": {
                    "optimizer.lr": {"grid": [0.01, 0.001]},
                    "model.num_layers": {"grid": [2, 4]},
                },
                # poor trials end early: at each rung, the better half goes on
                "scheduler": {"name": "asha", "grace_epochs": 10, "reduction": 2},
            }
        )
        result = run_sweep(space, folder / "sweep")
        print(f"\n{'trial':40s}  val {result.metric}  state")
        for outcome in result.outcomes:
            print(f"{outcome.name:40s}  {outcome.value:12.4f}  {outcome.state}")
        assert result.best_run is not None, "no trial came to its end"
        # until here the test part was not read
        test = evaluate_run(result.best_run)[result.metric]
        print(f"\nbest on test: {test:.4f}")


if __name__ == "__main__":
    main()
