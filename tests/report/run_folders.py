"""Run folders written by hand, with every file that a report reads."""

from __future__ import annotations

import json
import math
from pathlib import Path

CONFIG = """\
data:
  name: minesweeper
  fold: 0
model:
  name: grama
  backbone: gcn
  hidden_channels: 16
trainer:
  max_epochs: 20
seed: 3
environment:
  versions:
    torch: 2.13.0
  hardware:
    processor: a small one
"""

RESULT = {
    "data": "minesweeper",
    "model": "grama",
    "metric": "roc_auc",
    "higher_is_better": True,
    "val": 0.91,
    "test": 0.9,
    "best_epoch": 9,
    "epochs": 10,
    "seed": 3,
    "fold": 0,
    "parameters": 12345,
    "seconds": 75.0,
}

FACTS = {"metric": {"name": "roc_auc", "higher_is_better": True}, "class_names": ["free", "mine"]}


def write_run(folder: Path, *, analysis: bool = True, finished: bool = True, **changes) -> Path:
    """A folder of a run of ten epochs; ``changes`` replace parts of its result."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "data.json").write_text(json.dumps(FACTS))
    rows = ["epoch,step,train/loss,val/loss,val/roc_auc,lr,seconds"]
    rows += [
        f"{i},{i + 1},{1 / (i + 1)},{1.2 / (i + 1)},{0.5 + 0.04 * i},0.001,{i}" for i in range(10)
    ]
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    lines = [
        json.dumps({"epoch": i, "blocks": [_summary(0, i), _summary(1, i)]}) for i in range(10)
    ]
    (folder / "coefficients.jsonl").write_text("\n".join(lines) + "\n")
    if finished:
        (folder / "result.json").write_text(json.dumps({**RESULT, **changes}))
    if analysis:
        (folder / "analysis.json").write_text(json.dumps(make_analysis()))
    return folder


def make_analysis() -> dict[str, object]:
    """What an analysis holds, for a path of four nodes and a model of two blocks."""
    steps = ["embedding", "block 1, step 1", "block 1, step 2"]
    return {
        "schema_version": 2,
        "blocks": [_block(0), _block(1)],
        "influence": {"model": _influence(0.5), "gcn": _influence(0.1)},
        "smoothness": {"model": {"labels": steps, "energy": [0.9, 0.5, 0.4], "size": [1, 1, 1]}},
        "example": {
            "graph": 0,
            "nodes": [4, 5, 6, 7],
            "positions": [[-1, 0], [-0.3, 0.1], [0.3, -0.1], [1, 0]],
            "edges": [[0, 1], [1, 2], [2, 3]],
            "sources": [0, 1, 2, 3],
            "labels": steps,
            "spread": [
                [
                    [10.0 ** -abs(a - b) if abs(a - b) <= t else 0 for b in range(4)]
                    for t in range(3)
                ]
                for a in range(4)
            ],
            "num_probes": None,
        },
        "errors": {
            "kind": "classification",
            "classes": {
                "confusion": [[8, 2], [1, 9]],
                "support": [10, 10],
                "accuracy": 0.85,
                "balanced_accuracy": 0.85,
            },
            "labels": {
                "true_positive": [4, 3],
                "false_negative": [1, 2],
                "false_positive": [0, 1],
                "true_negative": [5, 4],
            },
            "regression": {
                "mae": [0.1],
                "r2": [0.8],
                "predicted": [[0.1], [0.9]],
                "true": [[0.0], [1.0]],
            },
            "by_distance": {"error": [0.1, None, 0.3], "num_nodes": [5, 0, 2]},
        },
    }


def _summary(block: int, epoch: int) -> dict[str, object]:
    angle = 0.1 * (epoch + 1)
    pole = [0.8 * math.cos(angle), 0.8 * math.sin(angle)]
    phi = [2 * pole[0], -0.64]
    return {
        "block": block,
        "phi": phi,
        "theta": [0.5, 0.1],
        "poles": [pole, [pole[0], -pole[1]]],
        "radius": 0.8,
    }


def _block(block: int) -> dict[str, object]:
    return {
        "block": block,
        "step": None,
        "backbone": "GCNConv",
        "phi": [[0.5, 0.5], [0.6, 0.4]],
        "theta": [[0.7, 0.3], [0.2, 0.8]],
        "poles": [[[1, 0], [-0.5, 0]], [[1, 0], [-0.4, 0]]],
        "radius": [1, 1],
        "margin": [0, -4e-8],
        "sum_abs_phi": [1, 1],
        "satisfies_condition": [True, True],
        "stable": [True, True],
        "bibo_stable": [False, False],
        "impulse_response": [[1, 1.2, 0.9], [1, 0.8, 0.7]],
        "memory_length": [None, None],
        "closed_loop": {"bound": [1.4, 1.2], "radius": [1.1, 1.05], "gain": [1, 1]},
    }


def _influence(decay: float) -> dict[str, object]:
    total = [decay**k for k in range(5)]
    return {
        "total": total,
        "total_error": [],
        "mean": [value / 2 for value in total],
        "num_nodes": [1, 2, 2, 2, 2],
        "beyond": 0.0,
        "unreachable": 0.0,
        "influence_range": 0.9,
        "influence_range_error": 0.05,
        "exact": False,
        "num_samples": 32,
        "seed": 0,
    }
