"""What the examples work on, drawn from the data that they make themselves."""

from __future__ import annotations

import csv
import random
import runpy
from math import cos, pi, sin
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from figures.ink import Ink
from torch_grama.analysis.spread import arrange_nodes
from torch_grama.datasets import load_path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def draw(ink: Ink) -> Figure:
    figure, panels = plt.subplots(1, 4, figsize=(10.5, 2.3), layout="constrained")
    for panel, part in zip(panels, (_people, _pearls, _line, _wave), strict=True):
        panel.set(xticks=[], yticks=[])
        panel.grid(False)
        panel.spines[:].set_visible(False)
        part(panel, ink)
    return figure


def _people(panel: Axes, ink: Ink) -> None:
    with TemporaryDirectory() as folder:
        _example("own_node_data")["write_tables"](Path(folder), 44)
        graph = load_path(folder).graphs[0]
        with (Path(folder) / "nodes.csv").open() as file:
            labels = [row["label"] for row in csv.DictReader(file)]
    places = arrange_nodes(graph.edge_index, len(labels)).tolist()
    colors = dict(zip(sorted({*labels} - {""}), ink.colors, strict=False)) | {"": ink.paper}
    _graph(panel, ink, places, graph.edge_index.t().tolist(), [colors[word] for word in labels])
    panel.set_title("own_node_data: who does what?")


def _pearls(panel: Axes, ink: Ink) -> None:
    rings = [_example("own_graph_data")["make_graph"](random.Random(seed)) for seed in range(8)]
    for number, label in enumerate(("sorted", "mixed")):
        ring = next(ring for ring in rings if ring["label"] == label)
        turn = 2 * pi / len(ring["nodes"])
        places = [(2.6 * number + cos(turn * k), sin(turn * k)) for k in range(len(ring["nodes"]))]
        colors = [ink.text if colour else ink.paper for colour, _ in ring["nodes"]]
        _graph(panel, ink, places, ring["edges"], colors)
        panel.text(2.6 * number, 0, label, ha="center", va="center")
    panel.set_title("own_graph_data: sorted or mixed?")


def _line(panel: Axes, ink: Ink) -> None:
    (values,), _ = _example("long_range_transfer")["make_lines"](1, 10, seed=0)
    places = [(k, 0.0) for k in range(len(values))]
    colors = plt.get_cmap(ink.ramp)(values[:, 0].numpy())
    _graph(panel, ink, places, [(k, k + 1) for k in range(len(values) - 1)], colors)
    panel.annotate("", (10, 0.6), (0, 0.6), arrowprops={"arrowstyle": "->", "color": ink.text})
    panel.text(0, -1.1, "source", ha="center")
    panel.text(10, -1.1, "target", ha="center")
    panel.set_title("long_range_transfer: ten hops")


def _wave(panel: Axes, ink: Ink) -> None:
    graphs = _example("forecasting")["make_wave"]().graphs[:24]
    for town, shift in ((0, 0.0), (3, 2.6), (6, 5.2)):
        series = [float(graph.y[town]) + shift for graph in graphs]
        panel.plot(series[:-1], color=ink.colors[0])
        panel.plot(len(series) - 1, series[-1], "o", color=ink.colors[1])
    panel.set_title("forecasting: the next value")


def _graph(panel: Axes, ink: Ink, places: Any, edges: Any, colors: Any) -> None:
    lines = [(places[a], places[b]) for a, b in edges]
    panel.add_collection(LineCollection(lines, colors=ink.faint, lw=0.8, zorder=1))
    panel.scatter(*zip(*places, strict=True), s=34, c=colors, edgecolors=ink.text, lw=0.7, zorder=2)
    panel.set_aspect("equal", adjustable="datalim")


def _example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))
