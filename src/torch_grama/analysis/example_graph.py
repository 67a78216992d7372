"""One graph to look at: a drawing, and the influence of its nodes step by step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis._checks import check_count
from torch_grama.analysis.block_trace import demand_grama
from torch_grama.analysis.hops import UNREACHABLE, hop_distance
from torch_grama.analysis.model_input import ModelInput
from torch_grama.analysis.plain_numbers import Cube, Matrix, plain_matrix
from torch_grama.analysis.spread import influence_spread


@dataclass(frozen=True)
class ExampleGraph:
    r"""A graph, or the surroundings of one of its nodes, with the influence of some nodes on all.

    Attributes:
        graph: Number of the graph in the data.
        nodes: The nodes that are shown, by their numbers in the graph.
        positions: Where to draw each of them ``[n][2]``, between -1 and 1.
        edges: Pairs ``[m][2]`` of places in ``nodes``, each pair once.
        sources: Places in ``nodes`` of the nodes whose influence is given.
        labels: What each step is, ``"embedding"`` or such as ``"block 1, step 3"``.
        spread: Influence ``[sources][steps][n]``, see :func:`influence_spread`.
        num_probes: Random directions behind the estimate; :obj:`None` for the default of
            :func:`influence_spread`, which is exact for up to 32 input channels.
    """

    graph: int
    nodes: list[int]
    positions: Matrix
    edges: list[list[int]]
    sources: list[int]
    labels: list[str]
    spread: Cube
    num_probes: int | None


def draw_example(
    model: Module,
    inputs: ModelInput,
    *,
    graph: int = 0,
    source: int | None = None,
    max_nodes: int = 60,
    max_numbers: int = 20_000,
    num_probes: int | None = None,
    max_sources: int | None = None,
    seed: int = 0,
) -> ExampleGraph:
    r"""Prepares a graph for a drawing in which a click on a node shows its influence.

    Of a large graph the nodes nearest to the source are shown; the model runs on the whole.

    Args:
        model (Module): A GRAMA model, or a module that holds one and is called alike.
        inputs (ModelInput): One graph.
        graph (int, optional): Its number in the data. (default: :obj:`0`)
        source (int, optional): The node in the middle. (default: the one with the most edges)
        max_nodes (int, optional): How many nodes to show. (default: :obj:`60`)
        max_numbers (int, optional): How many numbers the influence may have; it decides of how
            many nodes it is given, the source first and then its neighbourhood.
            (default: :obj:`20000`)
        num_probes (int, optional): See :func:`influence_spread`. (default: :obj:`None`)
        max_sources (int, optional): At most that many nodes. (default: :obj:`None`)
        seed (int, optional): Seed of the directions. (default: :obj:`0`)

    Raises:
        ValueError: If there is no node, no GRAMA model, or a value is not usable.
    """
    check_count("max_nodes", max_nodes, minimum=1)
    num_nodes = inputs.num_nodes
    if num_nodes == 0:
        raise ValueError("Expected a graph with at least one node (got none)")
    both = torch.cat([inputs.edge_index, inputs.edge_index.flip(0)], dim=1)
    if source is None:
        source = int(torch.bincount(both[0], minlength=num_nodes).argmax())
    start = torch.zeros(num_nodes, dtype=torch.bool, device=both.device)
    start[source] = True
    distance = hop_distance(both, num_nodes, start)
    # the nearest first, and last what has no path
    far = torch.where(distance == UNREACHABLE, num_nodes, distance)
    nodes = far.argsort(stable=True)[:max_nodes]

    grama = demand_grama(model)
    labels = ["embedding"] + [
        f"block {block + 1}, step {step + 1}"
        for block in range(grama.num_blocks)
        for step in range(grama.num_recurrences)
    ]
    count = max(1, max_numbers // (len(labels) * len(nodes)))
    count = min(count, len(nodes), max_sources or len(nodes))
    spread = influence_spread(
        model, inputs, nodes[:count].tolist(), num_probes=num_probes, seed=seed
    )
    place = torch.full((num_nodes,), -1, device=both.device)
    place[nodes] = torch.arange(len(nodes), device=both.device)
    pairs = place[inputs.edge_index]
    pairs = pairs[:, (pairs >= 0).all(0) & (pairs[0] != pairs[1])].sort(dim=0).values
    edges = pairs.unique(dim=1)
    return ExampleGraph(
        graph=graph,
        nodes=nodes.tolist(),
        positions=plain_matrix(arrange_nodes(edges, len(nodes))),
        edges=edges.mT.tolist(),
        sources=list(range(count)),
        labels=labels,
        # three digits are more than a colour shows
        spread=[
            [[float(f"{value:.3g}") for value in row] for row in one]
            for one in spread[:, :, nodes].tolist()
        ],
        num_probes=num_probes,
    )


def arrange_nodes(edges: Tensor, num_nodes: int, num_rounds: int = 200) -> Tensor:
    r"""Places nodes on a plane so that distances on paper are near to those in hops.

    Stress majorisation: every node moves to the weighted mean of where the others would have it,
    with weights :math:`d_{ij}^{-2}`; the stress never rises. It starts from a circle.

    Args:
        edges (Tensor): Edges ``[2, E]``, in any direction.
        num_nodes (int): Number of nodes :math:`n`.
        num_rounds (int, optional): Number of rounds. (default: :obj:`200`)

    Returns:
        Tensor: Positions ``[n, 2]`` between -1 and 1, in float64.
    """
    if num_nodes < 2:
        return torch.zeros(num_nodes, 2, dtype=torch.float64)
    both = torch.cat([edges, edges.flip(0)], dim=1).cpu()
    hops = hop_distance(both, num_nodes, torch.eye(num_nodes, dtype=torch.bool)).double()
    # parts without a path to each other stand a little apart
    hops = torch.where(hops == UNREACHABLE, hops.max() + 2, hops)
    weight = 1 / hops.square().fill_diagonal_(1)
    weight.fill_diagonal_(0)
    angle = torch.arange(num_nodes, dtype=torch.float64) * (2 * torch.pi / num_nodes)
    positions = torch.stack([angle.cos(), angle.sin()], dim=1) * hops.max() / 2
    laplacian = torch.diag(weight.sum(1)) - weight
    inverse = torch.linalg.pinv(laplacian, hermitian=True)
    for _ in range(num_rounds):
        length = torch.cdist(positions, positions)
        pull = torch.where(length > 1e-9, weight * hops / length, 0)
        positions = inverse @ (torch.diag(pull.sum(1)) - pull) @ positions
    positions = positions - positions.mean(0)
    return positions / positions.abs().max().clamp(min=1e-9)
