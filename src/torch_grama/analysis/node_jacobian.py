"""Rows of the Jacobian of the nodes' outputs by the nodes' inputs, for any model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.hooks import RemovableHandle

from torch_grama.analysis.block_analysis import find_grama
from torch_grama.analysis.hops import hop_distance
from torch_grama.analysis.inputs import ModelInput, check_batch, evaluation_mode
from torch_grama.nn import Readout
from torch_grama.nn.readout import pooled_channels

Norm = Literal["square", "absolute"]

# Nodes for which it pays to differentiate several at a time, and for which there is room.
_FEW_NODES, _MANY_NODES = 64, 4096


@dataclass(frozen=True, eq=False)
class JacobianDraw:
    r"""How strongly the outputs of a few nodes, one in each graph, depend on all inputs."""

    nodes: Tensor  # the nodes whose outputs were differentiated, at most one in each graph
    # [N], of the derivative by the input of each node of that graph, the sum of the entries'
    # squares or sizes
    strength: Tensor


class NodeJacobian:
    r"""The Jacobian :math:`\mathbf{J}_{vu} = \partial \mathbf{y}_v / \partial \mathbf{x}_u` of the
    output of node :math:`v` by the input of node :math:`u`, in evaluation mode.

    The model is run once. One node of each graph is differentiated at a time, so the graphs of a
    batch must not mix. Integers are differentiated behind the first module called ``node_encoder``.
    A model with one output per graph is read out node by node: the output of a node is what the
    layers after the pooling say of a graph with that node alone, or, where there are no such
    layers, the last state ``[N, F]`` before the pooling. ``norm`` says what is summed over the
    channels: the squares of the derivatives, or their absolute values.
    """

    def __init__(self, model: Module, inputs: ModelInput, norm: Norm = "square") -> None:
        self.norm = norm
        self._edge_index = inputs.edge_index
        self.hops: Tensor | None = None  # distances [N, N] to every node, where they were needed
        with (
            evaluation_mode(model),
            _node_by_node(model),
            torch.inference_mode(False),
            torch.enable_grad(),
        ):
            ears = _Ears(inputs)
            with ExitStack() as hooks:
                for hook in ears.put_on(model):
                    hooks.enter_context(hook)
                self.x, out = _run_from_leaf(model, inputs)
            if not out.requires_grad:
                raise ValueError(
                    f"Expected the output of {type(model).__name__} to be differentiable by its "
                    f"input (got one without gradient); remove torch.no_grad() or detach() from it"
                )
            if out.size(0) != inputs.num_nodes:
                out = ears.read_out_nodes(model, out)
        self.y = out.flatten(1) if out.dim() > 1 else out.unsqueeze(1)
        self.num_nodes, self.num_outputs = self.y.shape
        self.graph, self.num_graphs = check_batch(self.y, inputs.batch, inputs.batch_size)
        self.sizes = torch.bincount(self.graph, minlength=self.num_graphs)
        self.first_node = self.sizes.cumsum(0) - self.sizes

    @property
    def num_passes(self) -> int:
        r"""Backward passes that the whole Jacobian takes."""
        return int(self.sizes.max()) * self.num_outputs if self.num_nodes else 0

    def draw_all(self) -> Iterator[JacobianDraw]:
        r"""Yields every node of every graph once, without error.

        Nodes whose outputs depend on different inputs are differentiated together: those that lie
        more than twice as far apart as influence was seen to reach. That no influence was ascribed
        to the wrong node is checked at the end, for all nodes at once and with random weights; a
        model that looks further is differentiated node by node.
        """
        count = int(self.sizes.max()) if self.num_nodes else 0
        drawn = [(self.first_node + i)[self.sizes > i] for i in range(count)]
        rows = self._rows_together(drawn) if _FEW_NODES < self.num_nodes <= _MANY_NODES else None
        if rows is None:
            yield from self._draw_whole(drawn)
            return
        for nodes in drawn:
            yield JacobianDraw(nodes, rows[nodes].sum(0))

    def draw_sample(self, num_samples: int, seed: int) -> Iterator[JacobianDraw]:
        r"""Yields random nodes, one of each graph, with one backward pass each.

        The outputs of a node are weighted with independent random signs :math:`\mathbf{z}`, so that
        :math:`\mathbb{E} \|\mathbf{J}_{vu}^\top \mathbf{z}\|^2 = \|\mathbf{J}_{vu}\|_F^2`: the
        squares are unbiased estimates; absolute values need every output by itself. Nodes are not
        repeated before all had their turn.
        """
        generator = torch.Generator().manual_seed(seed)
        first = self.first_node.tolist()
        orders = []  # of each graph that has nodes, its nodes in random order
        for graph, size in enumerate(self.sizes.tolist()):
            rounds = range(-(-num_samples // size)) if size else ()
            shuffled = [torch.randperm(size, generator=generator) for _ in rounds]
            orders += [first[graph] + torch.cat(shuffled)] if size else []
        drawn = [
            torch.stack([order[sample] for order in orders]).to(self.y.device)
            for sample in range(num_samples if orders else 0)
        ]
        if self.norm == "absolute":
            yield from self._draw_whole(drawn)
            return
        for nodes in drawn:
            signs = torch.randint(2, (len(nodes), self.num_outputs), generator=generator) * 2 - 1
            yield JacobianDraw(nodes, self._measure(self._differentiate(nodes, signs.to(self.y))))

    def _draw_whole(self, drawn: Sequence[Tensor]) -> Iterator[JacobianDraw]:
        r"""Differentiates every output channel of some nodes."""
        channels = torch.eye(self.num_outputs, dtype=self.y.dtype, device=self.y.device)
        for nodes in drawn:
            gradients = [self._differentiate(nodes, channel) for channel in channels]
            yield JacobianDraw(nodes, torch.stack([self._measure(g) for g in gradients]).sum(0))

    def _rows_together(self, drawn: Sequence[Tensor]) -> Tensor | None:
        r"""Strengths ``[N, N]`` of all rows, or :obj:`None` where nodes do not come apart."""
        probes = [drawn[0], drawn[len(drawn) // 2], drawn[-1]]
        every = torch.eye(self.num_nodes, dtype=torch.bool, device=self.y.device)
        self.hops = hops = hop_distance(self._edge_index, self.num_nodes, every)
        reach = 0
        for draw in self._draw_whole(probes):
            far = hops[draw.nodes].amax(0).cpu()  # of each graph one is drawn
            reach = max(reach, int(far.where(draw.strength.cpu() > 0, 0).max()))
        near = (hops >= 0) & (hops <= reach)
        colors = _color(near.float() @ near.float().mT > 0)
        if 2 * int(colors.max()) > len(drawn):
            return None
        rows = torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)
        weights = torch.randn(self.num_nodes, generator=generator).to(self.y)
        for channel in torch.eye(self.num_outputs, dtype=self.y.dtype, device=self.y.device):
            ascribed = torch.zeros_like(self.x)
            for color in range(int(colors.max()) + 1):
                nodes = (colors == color).nonzero().flatten()
                gradient = self._differentiate(nodes, channel)
                rows[nodes.cpu()] += (self._measure(gradient) * near[nodes]).cpu()
                owner = weights[nodes] @ near[nodes].to(self.y)
                ascribed += gradient * owner.view(-1, *[1] * (gradient.dim() - 1))
            true = self._differentiate(slice(None), weights[:, None] * channel)
            scale = float(true.abs().max())
            if not torch.allclose(ascribed, true, rtol=1e-3, atol=1e-5 * scale):
                return None
        return rows

    def _differentiate(self, nodes: Tensor | slice, weights: Tensor) -> Tensor:
        r"""Derivatives ``[N, ...]`` of the weighted outputs of some nodes."""
        cotangent = torch.zeros_like(self.y)
        cotangent[nodes] = weights
        return torch.autograd.grad(
            self.y, self.x, cotangent, retain_graph=True, allow_unused=True, materialize_grads=True
        )[0].detach()

    def _measure(self, gradient: Tensor) -> Tensor:
        r"""Strengths ``[N]`` of derivatives."""
        gradient = gradient.double().flatten(1)
        strength = (gradient.square() if self.norm == "square" else gradient.abs()).sum(1)
        if not bool(torch.isfinite(strength).all()):
            raise ValueError(
                "Expected finite derivatives of the model (got infinite or undefined ones); check "
                "the model's weights, or analyse an earlier checkpoint"
            )
        return strength


def _color(conflicts: Tensor) -> Tensor:
    r"""Numbers nodes so that those with a conflict differ, those with most conflicts first and each
    with the lowest free number."""
    table = conflicts.cpu().numpy()
    colors = np.full(len(table), -1)
    for node in np.argsort(-table.sum(axis=1), kind="stable"):
        taken = np.zeros(len(table) + 2, dtype=bool)
        taken[colors[table[node]]] = True  # -1, of those without a number, marks the last
        colors[node] = int(taken.argmin())
    return torch.from_numpy(colors).to(conflicts.device)


@contextmanager
def _node_by_node(model: Module) -> Iterator[None]:
    r"""Lets a GRAMA model read out every node as a graph by itself, and keep its blocks for
    backward passes that come when it is no longer in evaluation mode."""
    grama = find_grama(model)
    if grama is None:
        yield
        return
    running, readout = grama.running, grama.readout
    # the sum, the maximum and the mean over one node are its state
    copies = pooled_channels(1, readout.pooling)
    grama.running, grama.readout = replace(running, recompute=False), Readout("node")
    try:
        with grama.head.register_forward_pre_hook(lambda _, given: given[0].repeat(1, copies)):
            yield
    finally:
        grama.running, grama.readout = running, readout


def _run_from_leaf(model: Module, inputs: ModelInput) -> tuple[Tensor, Tensor]:
    r"""Runs a model and returns the tensor to differentiate by, and the output."""
    if inputs.x.is_floating_point():
        leaf = inputs.x.detach().clone().requires_grad_()
        return leaf, inputs.run(model, leaf)
    encoders = [module for name, module in model.named_modules() if name.endswith("node_encoder")]
    if not encoders:
        raise ValueError(
            f"Expected floating-point node features or a model with a 'node_encoder' "
            f"(got features of type {inputs.x.dtype} and {type(model).__name__} without one)"
        )
    leaves: list[Tensor] = []

    def cut(_: Module, __: tuple[Any, ...], encoded: Tensor) -> Tensor:
        leaves.append(encoded.detach().requires_grad_())
        return leaves[-1]

    with encoders[0].register_forward_hook(cut):
        out = inputs.run(model)
    return leaves[-1], out


class _Ears:
    r"""Hears the last state ``[N, F]`` of a run, and which module takes the pooled states first."""

    def __init__(self, inputs: ModelInput) -> None:
        self._num_nodes, self._num_graphs = inputs.num_nodes, inputs.num_graphs
        self._state: Tensor | None = None
        self._head: tuple[Module, int] | None = None  # and how many poolings stand side by side

    def put_on(self, model: Module) -> Iterator[RemovableHandle]:
        for module in model.modules():
            if module is not model:
                yield module.register_forward_pre_hook(self._hear_given)
                yield module.register_forward_hook(lambda *heard: self._hear(heard[2]))

    def _hear_given(self, module: Module, given: tuple[Any, ...]) -> None:
        self._hear(given[0] if given else None, module if len(given) == 1 else None)

    def _hear(self, value: object, reader: Module | None = None) -> None:
        if not isinstance(value, Tensor) or value.dim() != 2 or not value.requires_grad:
            return
        if len(value) == self._num_nodes:
            self._state, self._head = value, None
        elif reader is not None and self._state is not None and self._head is None:
            copies, rest = divmod(value.size(1), self._state.size(1))
            if len(value) == self._num_graphs and rest == 0:
                self._head = reader, copies

    def read_out_nodes(self, model: Module, out: Tensor) -> Tensor:
        r"""The output of every node, as if it were a graph by itself."""
        if self._state is None:
            raise ValueError(
                f"Expected {type(model).__name__} to return one row per node, or to hold a module "
                f"that takes or returns one (got {out.size(0)} rows for {self._num_nodes} nodes)"
            )
        if self._head is None:
            return self._state
        head, copies = self._head
        # the sum, the maximum and the mean over one node are its state
        read: Tensor = head(self._state.repeat(1, copies))
        return read
