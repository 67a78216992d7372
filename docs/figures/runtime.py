"""Time and memory against depth, as measured: results/runtime."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from figures.ink import Ink
from torch_grama.reproduce.suite import RESULTS

ROOT = Path(__file__).resolve().parents[2]
MEASURED = RESULTS / "runtime" / "nvidia-h200.json"
PAPER = ROOT / "benchmarks" / "paper_runtime.json"
SHOWN = {
    "PyG GCN, cached": "--",
    "PyG GCN, as shipped": "--",
    "GRAMA(GCN)": "-",
    "GRAMA(GCN), reference": "-.",
}


def draw(ink: Ink) -> Figure:
    rows = [r for r in json.loads(MEASURED.read_text())["rows"] if r["scene"] == "depth"]
    paper = json.loads(PAPER.read_text())
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    keys = {
        "train_ms": "Training step, ms",
        "infer_ms": "Inference, ms",
        "memory_gib": "Peak memory, GiB",
    }
    for panel, (key, title) in zip(axes, keys.items(), strict=True):
        for index, (name, style) in enumerate(SHOWN.items()):
            points = {r["depth"]: r[key] for r in rows if r["model"] == name}
            panel.plot(
                list(points),
                list(points.values()),
                style,
                marker="osD^"[index],
                ms=4,
                color=ink.colors[index],
                label=name,
            )
        if key != "memory_gib":
            kind = key.removesuffix("_ms")
            base = {r["depth"]: r[key] for r in rows if r["model"] == "PyG GCN, cached"}
            ratios = [
                a / b for a, b in zip(paper["GRAMA(GCN)"][kind], paper["GCN"][kind], strict=True)
            ]
            panel.plot(
                paper["depth"],
                [base[d] * ratio for d, ratio in zip(paper["depth"], ratios, strict=True)],
                ":",
                color=ink.text,
                marker="x",
                label="GRAMA(GCN) at the paper's ratio to GCN",
            )
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(paper["depth"], [str(d) for d in paper["depth"]])
        if key == "memory_gib":
            panel.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
        panel.minorticks_off()
        panel.set(title=title, xlabel="depth")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
