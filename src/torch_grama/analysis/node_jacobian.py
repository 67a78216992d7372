"""Rows of the Jacobian of the nodes' outputs by the nodes' inputs, for any model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.hooks import RemovableHandle

from torch_grama.analysis.block_analysis import find_grama
from torch_grama.analysis.inputs import ModelInput, check_batch, evaluation_mode
from torch_grama.nn import Readout
from torch_grama.nn.readout import pooled_channels


@dataclass(frozen=True, eq=False)
class JacobianDraw:
    r"""How strongly the outputs of a few nodes, one in each graph, depend on all inputs."""

    nodes: Tensor  # the nodes whose outputs were differentiated, at most one in each graph
    squares: Tensor  # [N], squared norm of the derivative by the input of each node of that graph


class NodeJacobian:
    r"""The Jacobian :math:`\mathbf{J}_{vu} = \partial \mathbf{y}_v / \partial \mathbf{x}_u` of the
    output of node :math:`v` by the input of node :math:`u`, in evaluation mode.

    The model is run once. One node of each graph is differentiated at a time, so the graphs of a
    batch must not mix. Integers are differentiated behind the first module called ``node_encoder``.
    A model with one output per graph is read out node by node: the output of a node is what the
    layers after the pooling say of a graph with that node alone, or, where there are no such
    layers, the last state ``[N, F]`` before the pooling.
    """

    def __init__(self, model: Module, inputs: ModelInput) -> None:
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
        r"""Yields every node of every graph once, without error."""
        for index in range(int(self.sizes.max()) if self.num_nodes else 0):
            nodes = (self.first_node + index)[self.sizes > index]
            channels = torch.eye(self.num_outputs, dtype=self.y.dtype, device=self.y.device)
            rows = [self._pull_back(nodes, channel) for channel in channels]
            yield JacobianDraw(nodes, torch.stack(rows).sum(0))

    def draw_sample(self, num_samples: int, seed: int) -> Iterator[JacobianDraw]:
        r"""Yields random nodes, one of each graph, with one backward pass each.

        The outputs of a node are weighted with independent random signs :math:`\mathbf{z}`, so that
        :math:`\mathbb{E} \|\mathbf{J}_{vu}^\top \mathbf{z}\|^2 = \|\mathbf{J}_{vu}\|_F^2`: the
        squares are unbiased estimates. Nodes are not repeated before all had their turn.
        """
        generator = torch.Generator().manual_seed(seed)
        first = self.first_node.tolist()
        orders = []  # of each graph that has nodes, its nodes in random order
        for graph, size in enumerate(self.sizes.tolist()):
            rounds = range(-(-num_samples // size)) if size else ()
            shuffled = [torch.randperm(size, generator=generator) for _ in rounds]
            orders += [first[graph] + torch.cat(shuffled)] if size else []
        for sample in range(num_samples if orders else 0):
            nodes = torch.stack([order[sample] for order in orders]).to(self.y.device)
            signs = torch.randint(2, (len(nodes), self.num_outputs), generator=generator) * 2 - 1
            yield JacobianDraw(nodes, self._pull_back(nodes, signs.to(self.y)))

    def _pull_back(self, nodes: Tensor, weights: Tensor) -> Tensor:
        r"""Squared norms ``[N]`` of the derivatives of the weighted outputs of some nodes."""
        cotangent = torch.zeros_like(self.y)
        cotangent[nodes] = weights
        (gradient,) = torch.autograd.grad(
            self.y, self.x, cotangent, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        squares: Tensor = gradient.detach().double().flatten(1).square().sum(1)
        if not bool(torch.isfinite(squares).all()):
            raise ValueError(
                "Expected finite derivatives of the model (got infinite or undefined ones); check "
                "the model's weights, or analyse an earlier checkpoint"
            )
        return squares


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
