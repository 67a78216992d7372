"""Rows of the Jacobian of the nodes' outputs by the nodes' inputs, for any model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis._checks import check_batch
from torch_grama.analysis.model_input import ModelInput, evaluation_mode


@dataclass(frozen=True, eq=False)
class JacobianDraw:
    r"""How strongly the outputs of a few nodes, one in each graph, depend on all inputs.

    Attributes:
        nodes: The nodes whose outputs were differentiated; at most one in each graph.
        squares: The squared norm of the derivative by the input of each node ``[N]``, of the output
            that lies in the same graph.
    """

    nodes: Tensor
    squares: Tensor


class NodeJacobian:
    r"""The Jacobian :math:`\mathbf{J}_{vu} = \partial \mathbf{y}_v / \partial \mathbf{x}_u` of the
    output of node :math:`v` by the input of node :math:`u`, in evaluation mode.

    The model is run once; every draw is one backward pass, or several. One node of each graph is
    differentiated at a time, which presumes that the graphs of a batch do not mix.

    Inputs that are no floating-point numbers are differentiated behind the first module called
    ``node_encoder``. Modules with ``readout="graph"`` are run with ``readout="node"``: the output
    of a node is what the model would say of it alone. Of other models with one output a graph it
    is the last ``[N, F]`` tensor that any of their modules takes or returns, the last state before
    the pooling in most.

    Args:
        model (Module): Any model with the common call.
        inputs (ModelInput): The graphs.

    Raises:
        ValueError: If the model offers no such input or output.
    """

    def __init__(self, model: Module, inputs: ModelInput) -> None:
        num_nodes = inputs.num_nodes
        with (
            evaluation_mode(model),
            # blocks that are recomputed for the backward pass allow but one
            _changed(model, "checkpoint_blocks", True, False),
            _changed(model, "readout", "graph", "node"),
            torch.inference_mode(False),
            torch.enable_grad(),
        ):
            self.x, out = _run_from_leaf(model, inputs)
            if out.size(0) != num_nodes:
                self.x, out = _run_to_node_states(model, inputs)
        self.y = out.flatten(1) if out.dim() > 1 else out.unsqueeze(1)
        self.num_nodes, self.num_outputs = num_nodes, self.y.size(1)
        self.graph, self.num_graphs = check_batch(self.y, inputs.batch, inputs.batch_size)
        counts = torch.bincount(self.graph, minlength=self.num_graphs)
        self.first_node = counts.cumsum(0) - counts
        self.sizes = counts

    @property
    def num_passes(self) -> int:
        r"""Backward passes that the whole Jacobian takes."""
        return int(self.sizes.max()) * self.num_outputs if self.num_nodes else 0

    def draw_all(self) -> Iterator[JacobianDraw]:
        r"""Yields every node of every graph once, without error."""
        for index in range(int(self.sizes.max()) if self.num_nodes else 0):
            nodes = (self.first_node + index)[self.sizes > index]
            squares = torch.zeros(self.num_nodes, dtype=torch.float64, device=self.y.device)
            for channel in range(self.num_outputs):
                weights = self.y.new_zeros(self.num_outputs)
                weights[channel] = 1
                squares += self._pull_back(nodes, weights.expand(len(nodes), -1))
            yield JacobianDraw(nodes, squares)

    def draw_sample(self, num_samples: int, seed: int) -> Iterator[JacobianDraw]:
        r"""Yields random nodes, one of each graph, with one backward pass each.

        The outputs of a node are weighted with independent random signs :math:`\mathbf{z}`, so that
        :math:`\mathbb{E} \|\mathbf{J}_{vu}^\top \mathbf{z}\|^2 = \|\mathbf{J}_{vu}\|_F^2`: the
        squares are unbiased estimates. Nodes are not repeated before all had their turn.
        """
        generator = torch.Generator().manual_seed(seed)
        graphs = [index for index, size in enumerate(self.sizes.tolist()) if size > 0]
        sizes, first = self.sizes.tolist(), self.first_node.tolist()
        order = {
            graph: torch.cat(
                [
                    torch.randperm(sizes[graph], generator=generator)
                    for _ in range(-(-num_samples // sizes[graph]))
                ]
            ).tolist()
            for graph in graphs
        }
        for sample in range(num_samples if graphs else 0):
            nodes = torch.tensor([first[graph] + order[graph][sample] for graph in graphs])
            signs = torch.randint(2, (len(nodes), self.num_outputs), generator=generator) * 2 - 1
            nodes = nodes.to(self.y.device)
            yield JacobianDraw(nodes, self._pull_back(nodes, signs.to(self.y)))

    def _pull_back(self, nodes: Tensor, weights: Tensor) -> Tensor:
        r"""Squared norms ``[N]`` of the derivatives of the weighted outputs of some nodes."""
        cotangent = torch.zeros_like(self.y)
        cotangent[nodes] = weights
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
            self.y, self.x, cotangent, retain_graph=True, allow_unused=True
        )
        gradient = gradients[0]
        if gradient is None:
            return torch.zeros(self.num_nodes, dtype=torch.float64, device=self.y.device)
        squares: Tensor = gradient.detach().double().flatten(1).square().sum(1)
        if not bool(torch.isfinite(squares).all()):
            raise ValueError(
                "Expected finite derivatives of the model (got infinite or undefined ones); check "
                "the model's weights, or analyse an earlier checkpoint"
            )
        return squares


@contextmanager
def _changed(model: Module, name: str, old: str | bool, new: str | bool) -> Iterator[None]:
    r"""Gives an attribute of all modules that have it another value for a while."""
    modules = [m for m in model.modules() if _has(m, name, old)]
    for module in modules:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module in modules:
            setattr(module, name, old)


def _has(module: Module, name: str, value: str | bool) -> bool:
    found = getattr(module, name, None)
    return isinstance(found, str | bool) and found == value


def _run_from_leaf(model: Module, inputs: ModelInput) -> tuple[Tensor, Tensor]:
    r"""Runs a model and returns the tensor to differentiate by, and the output."""
    if inputs.x.is_floating_point():
        leaf = inputs.x.detach().clone().requires_grad_()
        out = inputs.run(model, leaf)
        return leaf, _check_depends(model, out)
    encoder = next(
        (module for name, module in model.named_modules() if name.endswith("node_encoder")), None
    )
    if encoder is None:
        raise ValueError(
            f"Expected floating-point node features or a model with a 'node_encoder' "
            f"(got features of type {inputs.x.dtype} and {type(model).__name__} without one)"
        )
    leaves: list[Tensor] = []

    def cut(_: Module, __: tuple[Any, ...], encoded: Tensor) -> Tensor:
        leaves.append(encoded.detach().requires_grad_())
        return leaves[-1]

    handle = encoder.register_forward_hook(cut)
    try:
        out = inputs.run(model)
    finally:
        handle.remove()
    return leaves[-1], _check_depends(model, out)


def _check_depends(model: Module, out: Tensor) -> Tensor:
    if not out.requires_grad:
        raise ValueError(
            f"Expected the output of {type(model).__name__} to be differentiable by its input "
            f"(got one without gradient); remove torch.no_grad() or detach() from it"
        )
    return out


def _run_to_node_states(model: Module, inputs: ModelInput) -> tuple[Tensor, Tensor]:
    r"""Likewise, with the last state of every node before the pooling as the output."""
    states: list[Tensor] = []

    def keep(candidate: object) -> None:
        if (
            isinstance(candidate, Tensor)
            and candidate.dim() == 2
            and candidate.size(0) == inputs.num_nodes
            and candidate.requires_grad
        ):
            states[:] = [candidate]

    def before(_: Module, arguments: tuple[Any, ...]) -> None:
        keep(arguments[0] if arguments else None)

    def after(_: Module, __: tuple[Any, ...], result: object) -> None:
        keep(result)

    handles = []
    for module in model.modules():
        if module is not model:
            handles.append(module.register_forward_pre_hook(before))
            handles.append(module.register_forward_hook(after))
    try:
        leaf, out = _run_from_leaf(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    if not states:
        raise ValueError(
            f"Expected {type(model).__name__} to return one row a node, or to hold a module that "
            f"takes or returns one (got {out.size(0)} rows for {inputs.num_nodes} nodes)"
        )
    return leaf, states[0]
