"""Training time against depth, log-log: ours, PyG's GCN, and what the paper's ratios would be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.scenes import BASELINE, Row

SHOWN = (
    BASELINE,
    "PyG GCN, as shipped",
    "GRAMA(GCN)",
    "GRAMA(GCN), naive",
    "GRAMA(GCN), reference",
    "GatedGCN",
    "GRAMA(GatedGCN)",
)


def draw(rows: list[Row], paper: Mapping[str, Any], path: Path, hardware: str) -> Path:
    """Draws training and inference time side by side; returns the path of the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row["scene"] == "depth"]
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.4), layout="constrained")
    for axis, kind, title in zip(
        axes, ("train", "infer"), ("Training step", "Inference"), strict=True
    ):
        measured = {
            name: {r["depth"]: r[f"{kind}_ms"] for r in rows if r["model"] == name}
            for name in SHOWN
        }
        for index, (name, times) in enumerate(measured.items()):
            if times:
                style = "--" if name.startswith(("PyG", "GatedGCN")) else "-"
                axis.plot(
                    list(times), list(times.values()), style, marker="osD^vPX"[index], label=name
                )
        base = measured[BASELINE]
        ratios = [a / b for a, b in zip(paper["GRAMA(GCN)"][kind], paper["GCN"][kind], strict=True)]
        expected = {
            d: base[d] * r for d, r in zip(paper["depth"], ratios, strict=True) if d in base
        }
        axis.plot(
            list(expected),
            list(expected.values()),
            ":",
            color="gray",
            marker="x",
            label="GRAMA(GCN) at the paper's ratio",
        )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sorted(base), [str(d) for d in sorted(base)])
        axis.set_xlabel("depth (applications of the backbone)")
        axis.set_ylabel("milliseconds")
        axis.set_title(title)
        axis.grid(alpha=0.3, which="both")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"22,662 nodes, 32,927 undirected edges, {hardware}", fontsize=10)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
