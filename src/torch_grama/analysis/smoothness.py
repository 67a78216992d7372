"""Do states become alike? The Dirichlet energy along a recurrence or a stack of layers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from torch_grama.analysis.block_analysis import find_grama, inner_input, step_labels, trace_blocks
from torch_grama.analysis.inputs import Graphs, ModelInput, check_batch, evaluation_mode, read_input
from torch_grama.analysis.records import Row, plain_row
from torch_grama.nn.readout import ReadoutMLP


@dataclass(frozen=True)
class Smoothness:
    r"""The roughness of the states on their way through a model, see :func:`dirichlet_energy`."""

    labels: list[str]  #: what each entry belongs to, such as ``"block 1, step 3"``
    energy: Row  #: normalised Dirichlet energy, the mean over the graphs
    size: Row  #: root mean square of the states' entries


def dirichlet_energy(
    states: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""The normalised Dirichlet energy of node states: how much they change along edges

    .. math::
        E(\mathbf{X}) = \frac{\operatorname{tr} \mathbf{X}^\top \mathbf{L} \mathbf{X}}
        {\operatorname{tr} \mathbf{X}^\top \mathbf{X}} = \frac{1}{2 \|\mathbf{X}\|_F^2}
        \sum_{(i, j)} w_{ij} \left\| \frac{\mathbf{x}_i}{\sqrt{d_i}} -
        \frac{\mathbf{x}_j}{\sqrt{d_j}} \right\|^2 \in [0, 2]

    where :math:`\mathbf{L}` is the symmetric normalised Laplacian. It is 0 for states that graph
    convolutions converge to (proportional to :math:`\sqrt{d_i}`), about 1 for states that know
    nothing of the edges, and does not change when states are scaled. Self-loops are left out, and
    an edge in one direction only counts half.

    Args:
        states (Tensor): Node states :math:`(*, N, F)`.
        edge_index (Tensor): Edges :math:`(2, E)`, from source to target.
        edge_weight (Tensor, optional): Non-negative edge weights :math:`(E)`. (default: ones)
        batch (Tensor, optional): The graph of each node :math:`(N)`. (default: one graph)
        batch_size (int, optional): Number of graphs :math:`B`. (default: :obj:`None`)

    Returns:
        Tensor: The energy :math:`(*, B)`, or :math:`(*)` without ``batch``; 0 for zero states.

    Example:
        >>> edge = torch.tensor([[0, 1], [1, 0]])
        >>> dirichlet_energy(torch.tensor([[[1.0], [1.0]], [[1.0], [-1.0]]]), edge)
        tensor([0., 2.])
    """
    if states.dim() < 2 or not states.is_floating_point():
        raise ValueError(
            f"Expected 'states' to be floating point of shape [..., num_nodes, channels] "
            f"(got {states.dtype} of shape {tuple(states.shape)})"
        )
    num_nodes = states.size(-2)
    graph, num_graphs = check_batch(states.new_empty(num_nodes, 0), batch, batch_size)
    proper = edge_index[0] != edge_index[1]
    source, target = edge_index[:, proper]
    weight = states.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight
    weight = weight[proper].to(states.dtype)
    if bool((weight < 0).any()):
        raise ValueError(
            f"Expected 'edge_weight' not to be negative (got {float(weight.min()):g}); leave it "
            f"out to count every edge alike"
        )
    degree = states.new_zeros(num_nodes)
    degree = degree.index_add(0, source, weight / 2).index_add(0, target, weight / 2)
    # nodes without edges take part in the norm alone
    scaled = states * torch.where(degree > 0, degree, 1).rsqrt().unsqueeze(-1)
    change = (scaled[..., source, :] - scaled[..., target, :]).square().sum(-1) * weight / 2
    size = states.square().sum(-1)
    zeros = states.new_zeros(*states.shape[:-2], num_graphs)
    energy = zeros.index_add(-1, graph[source], change)
    total = zeros.index_add(-1, graph, size)
    quotient = energy / torch.where(total > 0, total, 1)
    return quotient if batch is not None else quotient.squeeze(-1)


def measure_smoothness(model: Module, data: Graphs) -> Smoothness:
    r"""The Dirichlet energy of the states after every recurrence of a GRAMA model, or after every
    layer of another: the :class:`~torch.nn.ModuleList` with the most outputs ``[N, F]``, but for a
    readout's.

    Args:
        model (Module): Any model with the common call; it is run in evaluation mode.
        data (ModelInput, Data, Batch or sequence): The graphs.
    """
    found = smoothness_if_any(model, read_input(data))
    if found is None:
        raise ValueError(
            f"Expected layers that return one row per node (got none in {type(model).__name__}); "
            f"hold them in a ModuleList"
        )
    return found


def smoothness_if_any(model: Module, inputs: ModelInput) -> Smoothness | None:
    r"""Likewise, :obj:`None` for a model none of whose layers returns one row per node."""
    with evaluation_mode(model), torch.no_grad():
        if find_grama(model) is not None:
            inner = inner_input(model, inputs)
            traces = trace_blocks(model, inner)
            states = [traces[0].given[-1], *(state for trace in traces for state in trace.states)]
            return _summarize(step_labels(model), states, inner)
        outputs = _listen(model, inputs)
    labels = [f"layer {index + 1}" for index in range(len(outputs))]
    return _summarize(labels, outputs, inputs) if outputs else None


def _summarize(labels: list[str], states: Sequence[Tensor], inputs: ModelInput) -> Smoothness:
    energies, sizes = [], []
    for state in states:
        wide = state.detach().double()
        # an edge weight may have a sign; smoothness is a matter of the edges alone
        energy = dirichlet_energy(wide, inputs.edge_index, None, inputs.batch, inputs.batch_size)
        energies.append(energy.mean())
        sizes.append(wide.square().mean().sqrt())
    return Smoothness(labels, plain_row(torch.stack(energies)), plain_row(torch.stack(sizes)))


def _listen(model: Module, inputs: ModelInput) -> list[Tensor]:
    r"""Runs a model and returns the node states of the list of modules that returns the most."""
    # the layers of a readout come after the last state
    heads = [module for module in model.modules() if isinstance(module, ReadoutMLP)]
    after = {part for head in heads for part in head.modules()}
    groups = [m for m in model.modules() if isinstance(m, ModuleList) and m not in after]
    heard: list[list[Tensor]] = [[] for _ in groups]

    def keep(found: list[Tensor], _: Module, __: tuple[Any, ...], result: Any) -> None:
        state = result[0] if isinstance(result, tuple) else result
        if isinstance(state, Tensor) and state.dim() == 2 and len(state) == inputs.num_nodes:
            found.append(state)

    with ExitStack() as ears:
        for group, found in zip(groups, heard, strict=True):
            for module in group:
                ears.enter_context(module.register_forward_hook(partial(keep, found)))
        inputs.run(model)
    return max(heard, key=len, default=[])
