"""Measured milliseconds, in the form in which they stand beside the paper's runtime table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from torch_grama.report.held_results import HeldNumber, ResultFileError, RunResult

SUITE = "runtime"
PAPER_WIDTH = 256
# What the benchmark calls a model, and the paper's row.
ROWS = {
    "PyG GCN, cached": "gcn",
    "PyG GPS": "gps",
    "GRAMA(GCN), naive": "grama-gcn-naive",
    "GRAMA(GCN)": "grama-gcn",
    "GRAMA(GatedGCN)": "grama-gatedgcn",
    "GRAMA(GPS)": "grama-gps",
}
TIMES = {"training": ("training_ms", "train_ms"), "inference": ("inference_ms", "infer_ms")}


def read_runtime(path: Path) -> list[HeldNumber]:
    r"""Reads the depth scene of a file that ``python -m benchmarks.runtime`` wrote, as far as
    it was measured at the width of the paper.

    Args:
        path (Path): The file.

    Raises:
        ResultFileError: If it is no such file.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        made_on = str(record["hardware"]), path, str(record.get("torch_grama", ""))
        rows = [row for row in record["rows"] if row["scene"] == "depth"]
        return [
            _number(row, label, *made_on)
            for row in rows
            if row["model"] in ROWS and row["width"] == PAPER_WIDTH
            for label in TIMES
        ]
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise ResultFileError(f"{path}: not a file of measured times ({error!r})") from error


def _number(
    row: Mapping[str, object], label: str, hardware: str, path: Path, version: str
) -> HeldNumber:
    metric, key = TIMES[label]
    value = float(str(row[key]))
    run = RunResult(value, value, 0, 0, 0, 0, value / 1000, hardware, path, version)
    return HeldNumber(
        SUITE, hardware, label, f"{ROWS[str(row['model'])]}-depth{row['depth']}", metric, (run,)
    )
