"""Writes result files as runs do."""

from __future__ import annotations

import json
from pathlib import Path


def write_result(
    folder: Path,
    suite: str = "hetero",
    budget: str = "full",
    data: str = "minesweeper",
    model: str = "gcn",
    fold: int = 0,
    seed: int = 0,
    **changes: object,
) -> Path:
    """Writes one result file to its place and returns the path."""
    record: dict[str, object] = {
        "data": data,
        "model": model,
        "metric": "roc_auc",
        "higher_is_better": True,
        "epochs": 5,
        "val": 0.9,
        "test": 0.8,
        "seed": seed,
        "fold": fold,
        "best_epoch": 3,
        "parameters": 1000,
        "seconds": 1.5,
        "hardware": "test bench",
    }
    record.update(changes)
    path = folder / suite / budget / data / model / f"fold{fold}-seed{seed}" / "result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path
