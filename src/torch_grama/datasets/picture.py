"""A small picture of one graph of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph, to_networkx, to_undirected

from torch_grama.datasets.compact import edges_of
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.task_data import GraphTaskData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

_MOST_NODES = 200
_MOST_CLASSES = 10
# Width of the drawing, about, in points.
_AXES_POINTS = 260
# By atomic number less one, as the Open Graph Benchmark numbers them.
_ELEMENTS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se "
    "Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe"
)


def save_picture(task: GraphTaskData, path: Path, index: int | None = None) -> Path:
    r"""Draws one graph into a PNG file.

    Of a graph with more than 200 nodes, the surroundings of one node are drawn. Colours show the
    class of a node, its target, or its first feature, whichever there is. Takes matplotlib and
    networkx.
    """
    try:
        import networkx  # noqa: F401  # the layout takes it
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DatasetError(
            f"A picture takes matplotlib and networkx ({error}): run `pip install "
            "'torch-grama[data]'`."
        ) from error
    number = index
    if number is None:  # of middling size among the first few: neither a speck nor a hairball
        sizes = [task.graphs[k].num_nodes or 0 for k in range(min(len(task.graphs), 25))]
        number = int(np.argsort(sizes, kind="stable")[len(sizes) // 2])
    if not 0 <= number < len(task.graphs):
        raise DatasetError(
            f"Expected the number of a graph from 0 to {len(task.graphs) - 1} (got {number})."
        )
    whole = task.graphs[number]
    graph, note = _cut(whole)
    figure = Figure(figsize=(5.0, 4.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    label = _draw(axes, task, graph)
    axes.set_axis_off()
    axes.margins(0.06)
    axes.set_aspect("equal", adjustable="datalim")
    of_many = f", graph {number:,} of {len(task.graphs):,}" if len(task.graphs) > 1 else ""
    size = f"{whole.num_nodes:,} nodes, {whole.num_edges:,} directed edges"
    figure.suptitle(f"{Path(task.name).name}{of_many}\n{size}{note}", fontsize=9)
    if label:
        figure.supxlabel(label, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    return path


def _cut(graph: Data) -> tuple[Data, str]:
    """The graph, or the ball around a node of middling degree that fits into the picture."""
    num_nodes = graph.num_nodes or 0
    if num_nodes <= _MOST_NODES or graph.edge_index is None:
        return graph, ""
    edges = to_undirected(graph.edge_index, num_nodes=num_nodes)
    degree = torch.bincount(edges[0], minlength=num_nodes)
    connected = degree.nonzero().flatten()
    centre = int(connected[degree[connected].argsort(stable=True)[len(connected) // 2]])
    chosen = torch.tensor([centre])
    for hops in range(1, _MOST_NODES):
        ball = k_hop_subgraph(centre, hops, edges, num_nodes=num_nodes)[0]
        if len(ball) == len(chosen) or (len(chosen) > 1 and len(ball) > _MOST_NODES):
            break
        chosen = ball
    ring = chosen[chosen != centre][: _MOST_NODES - 1]  # a hub may have too many neighbours
    chosen = torch.cat([torch.tensor([centre]), ring]).sort().values
    return graph.subgraph(chosen), f"; {len(chosen)} nodes around node {centre}"


def _draw(axes: Axes, task: GraphTaskData, graph: Data) -> str:
    """Draws nodes and edges; returns a line that says what the colours mean."""
    place = _layout(graph)
    size = float(np.clip(6000 / max(len(place), 1), 14, 170))
    if graph.edge_index is not None:
        from matplotlib.collections import LineCollection

        pairs = {(min(u, v), max(u, v)) for u, v in graph.edge_index.t().tolist() if u != v}
        segments = [place[list(pair)] for pair in sorted(pairs)]
        if segments:  # dots leave the edges of middling length visible
            length = float(np.median([np.linalg.norm(end - start) for start, end in segments]))
            reach = max(float(np.ptp(place, axis=0).max()), 1.0)
            size = min(size, max((0.75 * length / reach * _AXES_POINTS) ** 2, 5.0))
        width = 0.9 if len(pairs) < 400 else 0.35
        axes.add_collection(LineCollection(segments, colors="0.6", linewidths=width, zorder=1))
    values, label, names = _colours(task, graph)
    groups: list[PathCollection] = []
    if values is None:
        groups.append(axes.scatter(place[:, 0], place[:, 1], color="#4c72b0"))
    elif names is None:
        groups.append(axes.scatter(place[:, 0], place[:, 1], c=values, cmap="viridis"))
        axes.figure.colorbar(groups[0], ax=axes, shrink=0.7).ax.tick_params(labelsize=7)
    else:
        for colour, (code, word) in enumerate(names.items()):
            chosen = place[values == code]
            groups.append(axes.scatter(*chosen.T, color=f"C{colour}", label=word))
        axes.figure.legend(fontsize=7, frameon=False, loc="outside right center")
    for dots in groups:
        dots.set(sizes=[size], edgecolors="white", linewidths=0.6, zorder=2)
    return label


def _colours(
    task: GraphTaskData, graph: Data
) -> tuple[NDArray[np.float64] | None, str, dict[int, str] | None]:
    """One number per node, what it is, and the names of its values where they are categories."""
    y, x = graph.get("y"), graph.get("x")
    if task.level == "node" and isinstance(y, Tensor):
        values = y.reshape(len(y), -1)[:, 0].double().numpy()
        if task.kind == "classification":
            known = {-1: "no label", **dict(enumerate(task.class_names))}
            names = {int(code): known.get(int(code), f"class {code:.0f}") for code in set(values)}
            if len(names) <= _MOST_CLASSES:
                return values, "colour: class of the node", dict(sorted(names.items()))
        return values, "colour: target of the node", None
    if not isinstance(x, Tensor) or not x.numel():
        return None, "", None
    values = x.reshape(len(x), -1)[:, 0].double().numpy()
    if task.node_encoding.kind == "float":
        return values, "colour: first feature of the node", None
    codes = sorted({int(code) for code in values})
    if len(codes) > _MOST_CLASSES:
        return values, "colour: category of the node", None
    if task.node_encoding.kind == "ogb_atom":
        symbols = dict(enumerate(_ELEMENTS.split()))
        return values, "colour: element", {code: symbols.get(code, "other") for code in codes}
    return values, "colour: category of the node", {code: f"category {code}" for code in codes}


def _layout(graph: Data) -> NDArray[np.float64]:
    """Positions that keep drawn distances close to hop distances."""
    import networkx as nx

    num_nodes = graph.num_nodes or 0
    drawn = to_networkx(Data(edge_index=edges_of(graph), num_nodes=num_nodes), to_undirected=True)
    parts = [drawn.subgraph(part) for part in nx.connected_components(drawn)]
    place = np.zeros((num_nodes, 2))
    edge = 0.0
    for part in sorted(parts, key=len, reverse=True):
        nodes = list(part)
        points = np.zeros((len(nodes), 2))
        if len(nodes) > 1:
            start = nx.spectral_layout(part)  # an untwisted one, no two nodes at the same place
            random = np.random.RandomState(0)
            start = {node: start[node] + random.uniform(-0.05, 0.05, size=2) for node in nodes}
            placed = nx.kamada_kawai_layout(part, pos=start, scale=len(nodes) ** 0.5)
            points = np.array([placed[node] for node in nodes])
            points -= points.mean(axis=0)
            points @= np.linalg.eigh(points.T @ points)[1][:, ::-1]  # the long side lies down
        # Separate parts stand side by side.
        points[:, 0] += edge - points[:, 0].min()
        place[nodes] = points
        edge = points[:, 0].max() + 0.15 * num_nodes**0.5
    return place
