"""Measured time and memory, read off the files that the benchmark wrote."""

from __future__ import annotations

import json

from markdown_text import plain, table
from torch_grama.reproduce.suite import RESULTS

MEASURED = RESULTS / "runtime" / "nvidia-h200.json"
BASELINE = "PyG GCN, cached"
SHOWN = (
    BASELINE,
    "PyG GCN, as shipped",
    "GRAMA(GCN)",
    "GRAMA(GCN), naive",
    "GRAMA(GCN), recomputed",
    "GRAMA(GCN), bf16",
    "GRAMA(GCN), reference",
    "GatedGCN",
    "GRAMA(GatedGCN)",
)


def read_rows() -> list[dict[str, object]]:
    """Returns what was measured, one row per model and size."""
    rows: list[dict[str, object]] = json.loads(MEASURED.read_text(encoding="utf-8"))["rows"]
    return rows


def describe_depth(depth: int = 32) -> str:
    """Returns a table of the models at one depth."""
    rows = {
        row["model"]: row
        for row in read_rows()
        if row["scene"] == "depth" and row["depth"] == depth
    }
    header = ["Model", "Training step", "Ratio", "Inference", "Ratio", "Peak memory"]
    lines = [
        (
            plain(name),
            f"{rows[name]['train_ms']:.1f} ms",
            f"{rows[name]['train_ratio']:.2f}",
            f"{rows[name]['infer_ms']:.1f} ms",
            f"{rows[name]['infer_ratio']:.2f}",
            f"{rows[name]['memory_gib']:.2f} GiB",
        )
        for name in SHOWN
    ]
    return table(header, lines)


def describe_sizes() -> str:
    """Returns a table of time and memory against nodes and edges."""
    rows = [row for row in read_rows() if row["scene"] in ("nodes", "edges", "largest")]
    sizes = {(row["num_nodes"], row["num_edges"]): row for row in rows}
    lines = [
        (
            f"{nodes:,}",
            f"{edges:,}",
            f"{row['train_ms']:.1f} ms",
            f"{row['infer_ms']:.1f} ms",
            f"{row['memory_gib']:.2f} GiB",
        )
        for (nodes, edges), row in sorted(sizes.items())
    ]
    header = ["Nodes", "Directed edges", "Training step", "Inference", "Peak memory"]
    return table(header, lines)


def describe_molecules() -> str:
    """Returns a table of training steps on batches of small graphs, as they are and recorded."""
    lines = []
    for row in read_rows():
        if "eager_ms" not in row:
            continue
        recorded = "recorded_ms" in row
        lines.append(
            (
                str(row["scene"]),
                plain(str(row["model"])),
                f"{row['eager_ms']:.1f}",
                f"{row['recorded_ms']:.2f}" if recorded else "-",
                f"{row['recorded_kernels']:.0f}" if recorded else "-",
                f"{row['recorded_epochs_a_minute']:.0f}" if recorded else "-",
            )
        )
    header = ["Batches like", "Model", "Step, ms", "Recorded, ms", "Kernels", "Epochs per minute"]
    return table(header, lines)
