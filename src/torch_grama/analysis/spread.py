"""How the influence of one node spreads, recurrence by recurrence, and a graph to show it on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Module
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_grama.analysis.block_analysis import inner_input, step_labels, trace_blocks
from torch_grama.analysis.hops import UNREACHABLE, hop_distance
from torch_grama.analysis.inputs import (
    GraphLike,
    ModelInput,
    check_count,
    evaluation_mode,
    read_input,
)
from torch_grama.analysis.records import Cube, Matrix, plain_matrix

# Up to this many channels of a node are perturbed one by one; beyond, in random directions.
_EXACT_CHANNELS = 32

# Nodes and edges of the copies of a graph that are run at once.
_CHUNK_SIZE = 2**14

# Numbers that the influence on a drawn graph may have, and nodes and edges that its runs of the
# model may go through; they decide of how many nodes it is given, and whether it is exact.
_MAX_NUMBERS, _MAX_WORK = 20_000, 40_000

# Rounds in which its nodes find their places.
_ROUNDS = 200


@dataclass(frozen=True)
class ExampleGraph:
    r"""A graph, or the surroundings of a node, with the influence of some nodes on all."""

    graph: int  #: number of the graph in the data
    nodes: list[int]  #: the nodes that are shown, by their numbers in the graph
    positions: Matrix  #: where to draw each of them ``[n][2]``, between -1 and 1
    edges: list[list[int]]  #: pairs ``[m][2]`` of places in ``nodes``, each pair once
    sources: list[int]  #: places in ``nodes`` of the nodes whose influence is given
    labels: list[str]  #: what each step is, ``"embedding"`` or such as ``"block 1, step 3"``
    spread: Cube  #: influence ``[sources][steps][n]``, see :func:`influence_spread`
    #: random directions behind the estimate; None for the default of :func:`influence_spread`,
    #: which is exact for up to 32 input channels
    num_probes: int | None
    names: list[str] = field(default_factory=list)  #: what the data calls the nodes, where known


def influence_spread(
    model: Module,
    data: GraphLike | ModelInput,
    source: int | Sequence[int],
    *,
    num_probes: int | None = None,
    seed: int = 0,
) -> Tensor:
    r"""How strongly the state of every node depends on the input of one node, after each recurrence

    .. math::
        s_{t v} = \left\| \frac{\partial \mathbf{f}_v^{(t)}}{\partial \mathbf{x}_u} \right\|_F

    where :math:`u` is the source. Row 0 is the newest state that the first block is given, then
    follow the :math:`R` recurrences of each of :math:`S` blocks. With a message-passing backbone
    influence travels one hop per recurrence; what is seen further away came through the
    coefficients, which depend on all nodes of a graph. The derivatives are taken in forward mode.

    Args:
        model (Module): A GRAMA model, or a module that contains one and has the same call.
        data (ModelInput or Data): One graph.
        source (int or sequence of int): The node, or several.
        num_probes (int, optional): Number of random changes of the source's input, for an unbiased
            estimate of :math:`s^2`. (default: each channel by itself, which is exact, for up to 32
            channels)
        seed (int, optional): Seed of the directions. (default: :obj:`0`)

    Returns:
        Tensor: :math:`(1 + S R, N)`, or :math:`(K, 1 + S R, N)` for :math:`K` sources, in float64.

    Raises:
        ValueError: If there are several graphs, or the backbone has no forward-mode derivative.

    Example:
        >>> from torch_grama.nn import GRAMA
        >>> path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> model = GRAMA(3, 8, 2, seq_len=2, num_blocks=1, coefficients="naive")
        >>> spread = influence_spread(model, ModelInput(torch.randn(5, 3), path), source=0)
        >>> (spread > 0).int()
        tensor([[1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [1, 1, 1, 0, 0]], dtype=torch.int32)
    """
    if num_probes is not None:
        check_count("num_probes", num_probes, minimum=1)
    sources = [source] if isinstance(source, int) else list(source)
    inputs = read_input(data)
    if inputs.num_graphs > 1:
        raise ValueError(
            "Expected one graph (got a batch of several); pass one of ModelInput.split()"
        )
    if not sources:
        raise ValueError("Expected at least one 'source' (got none)")
    wrong = [node for node in sources if not 0 <= node < inputs.num_nodes]
    if wrong:
        raise ValueError(
            f"Expected 'source' to be a node between 0 and {inputs.num_nodes - 1} (got {wrong[0]})"
        )
    with evaluation_mode(model):
        inner = replace(inner_input(model, inputs), batch=None, batch_size=None)
        directions = _directions(inner.x, num_probes, seed)  # [P, *channels]
        jobs = [(k, probe) for k in range(len(sources)) for probe in directions]
        num_copies = max(1, _CHUNK_SIZE // (inputs.num_nodes + inputs.edge_index.size(1)))
        squares = torch.zeros(len(sources), 1, 1, dtype=torch.float64, device=inner.x.device)
        for start in range(0, len(jobs), num_copies):
            part = jobs[start : start + num_copies]
            found = _respond(model, inner, [(sources[k], probe) for k, probe in part])
            squares = squares.expand(-1, *found.shape[1:]).clone()
            squares.index_add_(0, torch.tensor([k for k, _ in part], device=found.device), found)
    exact = num_probes is None and len(directions) == directions[0].numel()
    spread = (squares if exact else squares / len(directions)).sqrt()
    return spread[0] if isinstance(source, int) else spread


def draw_example(
    model: Module, inputs: ModelInput, *, graph: int = 0, max_nodes: int = 60, seed: int = 0
) -> ExampleGraph:
    r"""Prepares a graph for a drawing in which a click on a node shows its influence.

    Of a large graph, only the node with the most edges and the nodes nearest to it are shown; the
    model runs on the whole graph. The influence is exact and given for every shown node if that
    does not take too long.

    Args:
        model (Module): A GRAMA model, or a module that contains one and has the same call.
        inputs (ModelInput): One graph.
        graph (int, optional): Its number in the data. (default: :obj:`0`)
        max_nodes (int, optional): How many nodes to show. (default: :obj:`60`)
        seed (int, optional): Seed of the directions. (default: :obj:`0`)
    """
    check_count("max_nodes", max_nodes, minimum=1)
    num_nodes = inputs.num_nodes
    if num_nodes == 0:
        raise ValueError("Expected a graph with at least one node (got none)")
    both = torch.cat([inputs.edge_index, inputs.edge_index.flip(0)], dim=1)
    start = torch.zeros(num_nodes, dtype=torch.bool, device=both.device)
    start[torch.bincount(both[0], minlength=num_nodes).argmax()] = True
    distance = hop_distance(both, num_nodes, start)
    # the nearest first, and last what has no path: that is shown if the graph is small
    far = torch.where(distance == UNREACHABLE, num_nodes, distance)
    reached = num_nodes if num_nodes <= max_nodes else int((distance != UNREACHABLE).sum())
    nodes = far.argsort(stable=True)[: min(max_nodes, reached)]

    labels = step_labels(model)
    count = min(len(nodes), max(1, _MAX_NUMBERS // (len(labels) * len(nodes))))
    runs = max(1, _MAX_WORK // (num_nodes + inputs.edge_index.size(1)))
    channels = inputs.x[0].numel() if inputs.x.is_floating_point() else _EXACT_CHANNELS
    exact = min(_EXACT_CHANNELS, channels)
    probes = exact if runs >= exact * count else min(exact, 8, max(2, runs // 8))
    count = min(count, max(1, runs // probes))
    num_probes = None if probes == exact else probes
    # from the centre to the rim
    sources = torch.linspace(0, len(nodes) - 1, count, device=nodes.device).round().long()
    chosen = nodes[sources].tolist()
    spread = influence_spread(model, inputs, chosen, num_probes=num_probes, seed=seed)
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
        sources=sources.tolist(),
        labels=labels,
        # three digits are more than a colour shows
        spread=[
            [[float(f"{value:.3g}") for value in row] for row in one]
            for one in spread[:, :, nodes].tolist()
        ],
        num_probes=num_probes,
    )


def _directions(x: Tensor, num_probes: int | None, seed: int) -> Tensor:
    r"""Changes ``[P, *channels]`` of one node: each channel by itself, or random signs."""
    shape = x.shape[1:]
    channels = shape.numel()
    if num_probes is None and channels <= _EXACT_CHANNELS:
        return torch.eye(channels, dtype=x.dtype, device=x.device).view(channels, *shape)
    count = num_probes or _EXACT_CHANNELS
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (count, channels), generator=generator) * 2 - 1
    return signs.to(x).view(count, *shape)


def _respond(model: Module, inputs: ModelInput, changes: Sequence[tuple[int, Tensor]]) -> Tensor:
    r"""Squared responses ``[C, T, N]`` of the states to one change in each of C copies."""
    copies = read_input([inputs] * len(changes))
    tangent = torch.zeros_like(copies.x)
    for index, (node, probe) in enumerate(changes):
        tangent[index * inputs.num_nodes + node] = probe
    rows = []
    with torch.inference_mode(False), torch.no_grad(), _plain_attention(), forward_ad.dual_level():
        dual = forward_ad.make_dual(copies.x.clone(), tangent)
        try:
            traces = trace_blocks(model, replace(copies, x=dual))
        except (NotImplementedError, RuntimeError) as error:
            if "forward AD" not in str(error) and "jvp" not in str(error):
                raise
            raise ValueError(
                "Expected a backbone with forward-mode derivatives (got one with an operation "
                "that has none); influence_by_distance does without"
            ) from error
        for states in [traces[0].given[-1:], *(trace.states for trace in traces)]:
            response = forward_ad.unpack_dual(states).tangent
            response = torch.zeros_like(states) if response is None else response
            rows.append(response.double().square().sum(-1))
    squares = torch.cat(rows)  # [T, C N]
    return squares.view(len(squares), len(changes), inputs.num_nodes).transpose(0, 1)


@contextmanager
def _plain_attention() -> Iterator[None]:
    r"""Fused attention kernels have no forward-mode derivative; the plain formula has."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def arrange_nodes(edges: Tensor, num_nodes: int) -> Tensor:
    r"""Places nodes on a plane so that distances on paper are near to those in hops.

    Stress majorisation: every node moves to the weighted mean of where the others would have it,
    with weights :math:`d_{ij}^{-2}`; the stress never rises. It starts from a circle. Returns
    positions ``[n, 2]`` between -1 and 1, in float64.
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
    for _ in range(_ROUNDS):
        length = torch.cdist(positions, positions)
        pull = torch.where(length > 1e-9, weight * hops / length, 0)
        positions = inverse @ (torch.diag(pull.sum(1)) - pull) @ positions
    positions = positions - positions.mean(0)
    return positions / positions.abs().max().clamp(min=1e-9)
