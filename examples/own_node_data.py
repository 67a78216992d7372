"""Your own nodes: from nodes.csv and edges.csv to a prediction for every node.

A folder with two tables is all it takes. This example writes one, trains on it, and predicts.

    python examples/own_node_data.py --nodes 400 --epochs 40
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from torch_grama.experiments import make_config, predict_run, run_experiment


def write_tables(folder: Path, num_nodes: int) -> None:
    """People who know each other; half of their professions are not known."""
    draw = random.Random(0)
    professions = ["baker", "sailor", "teacher"]
    people = [draw.choice(professions) for _ in range(num_nodes)]
    with (folder / "nodes.csv").open("w") as file:
        file.write("id,label,age,town\n")
        for number, profession in enumerate(people):
            label = profession if draw.random() < 0.5 else ""
            age = draw.gauss(35 + 5 * professions.index(profession), 10)
            file.write(f"person{number},{label},{age:.1f},{draw.choice(['Ulm', 'Pisa'])}\n")
    with (folder / "edges.csv").open("w") as file:
        file.write("source,target\n")
        for _ in range(4 * num_nodes):
            one, other = draw.sample(range(num_nodes), 2)
            # colleagues know each other more often
            if people[one] == people[other] or draw.random() < 0.2:
                file.write(f"person{one},person{other}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=40)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, arguments.nodes)
        # what is not said here has a good value for the task
        config = make_config({"data": str(folder), "trainer.max_epochs": arguments.epochs})
        result = run_experiment(config, folder / "run")
        table = predict_run(folder / "run", out=folder / "predictions.csv")
        print(f"test accuracy {result.test:.3f}, {result.parameters:,} parameters")
        for row in table.rows[:3]:
            print(dict(zip(table.columns, row, strict=True)))


if __name__ == "__main__":
    main()
