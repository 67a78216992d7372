"""From node features to the sequence that the recurrence starts from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Dropout, Module, Parameter
from torch.nn.parameter import UninitializedParameter

from torch_grama.nn.arguments import (
    Activation,
    check_input_sizes,
    check_positive,
    resolve_activation,
)
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.sequence import (
    Groups,
    NodeSequence,
    apply,
    forward_differences,
    handwritten_gradients_work,
    identity,
)


class SequenceEmbedding(Module):
    r"""Turns node features into a sequence of states and residuals.

    .. math::
        \mathbf{f}^{(k)} = g_k(\mathbf{x}), \quad k = 0, \ldots, L - 1, \qquad
        \boldsymbol{\delta}^{(k)} = \mathbf{f}^{(k+1)} - \mathbf{f}^{(k)}, \qquad
        \boldsymbol{\delta}^{(L-1)} = \mathbf{0},

    where every position has its own :math:`g_k`: linear layers, each followed by the activation.
    All positions are evaluated as one batched product. A real sequence gives position :math:`k`
    its :math:`k`-th snapshot instead of the same static features.

    .. note::
        The paper says "MLPs" and states a cost that fits one linear layer, which is the default.
        The positions must differ at initialisation, or all residuals would be zero.

    Args:
        in_channels (int): Width of the input features, or :obj:`-1` to take it from the first
            forward pass.
        channels (int): Width :math:`F` of the sequence.
        seq_len (int): Length :math:`L` of the sequence.
        num_layers (int, optional): Linear layers of every :math:`g_k`. (default: :obj:`1`)
        act (str or callable, optional): The activation. (default: :obj:`"relu"`)
        dropout (float, optional): Dropout after the activation. (default: :obj:`0.0`)

    Shapes:
        - **input:** static features :math:`(N, C)`, or a sequence :math:`(N, L, C)`
        - **output:** states :math:`(L, N, F)` and residuals :math:`(L, N, F)`, oldest first

    Example:
        >>> states, residuals = SequenceEmbedding(7, 16, seq_len=4)(torch.randn(10, 7))
        >>> states.size()
        torch.Size([4, 10, 16])
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        seq_len: int,
        num_layers: int = 1,
        act: str | Activation | None = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_input_sizes(in_channels, dropout)
        check_positive(channels=channels, seq_len=seq_len, num_layers=num_layers)
        self.in_channels = in_channels
        self.channels = channels
        self.seq_len = seq_len
        self.num_layers = num_layers
        self.act = resolve_activation(act)
        self.dropout = Dropout(dropout)

        self.weight: Parameter | UninitializedParameter
        if in_channels == -1:
            self.weight = UninitializedParameter()
            self.register_load_state_dict_pre_hook(_materialize_from_state)  # type: ignore[no-untyped-call]
        else:
            self.weight = Parameter(torch.empty(seq_len, in_channels, channels))
        self.bias = Parameter(torch.empty(seq_len, 1, channels))
        # None instead of empty: every parameter there is gets a gradient
        self.hidden_weight: Parameter | None = None
        self.hidden_bias: Parameter | None = None
        if num_layers > 1:
            depth = num_layers - 1
            self.hidden_weight = Parameter(torch.empty(depth, seq_len, channels, channels))
            self.hidden_bias = Parameter(torch.empty(depth, seq_len, 1, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        if not isinstance(self.weight, UninitializedParameter):
            _reset_linear(self.weight, self.bias)
        for weight, bias in self._hidden_layers():
            _reset_linear(weight, bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""Returns the states and the residuals, oldest first."""
        states, _ = self.embed(x).materialize()
        return states, forward_differences(states)

    def embed(self, x: Tensor) -> NodeSequence:
        r"""Returns the same with as much as possible left to the engine that reads it: the last
        activation where no dropout follows, and the differences."""
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.size(-1))
            self.reset_parameters()
        # [N, C] -> [L, N, C] without a copy, or the k-th snapshot at position k
        x = x.unsqueeze(0).expand(self.seq_len, -1, -1) if x.dim() == 2 else x.transpose(0, 1)
        states = batched_linear(x, self.weight, self.bias)
        for weight, bias in self._hidden_layers():
            states = batched_linear(self.dropout(self.act(states)), weight, bias)
        if self.dropout.p > 0 and self.training:
            return NodeSequence(self.dropout(self.act(states)), None, identity)
        return NodeSequence.activated(states, None, self.act)

    def _hidden_layers(self) -> Iterable[tuple[Tensor, Tensor]]:
        if self.hidden_weight is None or self.hidden_bias is None:
            return ()
        return zip(self.hidden_weight, self.hidden_bias, strict=True)

    def _materialize(self, in_channels: int) -> None:
        if isinstance(self.weight, UninitializedParameter):
            self.in_channels = in_channels
            self.weight.materialize((self.seq_len, in_channels, self.channels))

    def _save_to_state_dict(
        self, destination: dict[str, Tensor], prefix: str, keep_vars: bool
    ) -> None:
        # torch detaches what it saves, which a weight that is still to come does not allow
        is_lazy = isinstance(self.weight, UninitializedParameter)
        super()._save_to_state_dict(destination, prefix, keep_vars or is_lazy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.channels}, seq_len={self.seq_len})"


def _materialize_from_state(
    module: Module, state_dict: dict[str, Tensor], prefix: str, *_: object
) -> None:
    weight = state_dict.get(f"{prefix}weight")
    if weight is not None and not isinstance(weight, UninitializedParameter):
        cast(SequenceEmbedding, module)._materialize(weight.size(1))


def _reset_linear(weight: Tensor, bias: Tensor) -> None:
    # Variance-preserving for rectifiers; each position draws its own values.
    bound = math.sqrt(6.0 / max(weight.size(-2), 1))
    torch.nn.init.uniform_(weight, -bound, bound)
    torch.nn.init.zeros_(bias)


def batched_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    r"""Returns :math:`\mathbf{x}_k \mathbf{W}_k + \mathbf{b}_k`, :math:`(L, N, F)`.

    Equal to :func:`torch.baddbmm`. On a CPU, the result lies in memory that is used again; on a
    device, positions are multiplied one by one, which shares the many nodes of the weights'
    gradient out to the whole of it.
    """
    if (
        (x.device.type == "cpu" or kernels.runs_on_device(x))
        and x.dtype == weight.dtype == bias.dtype
        and handwritten_gradients_work()
        and not torch.is_autocast_enabled(x.device.type)
    ):
        out: Tensor = apply(_BatchedLinear, x, weight, bias)
        return out
    return torch.baddbmm(bias, x, weight)


class _BatchedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = kernels.new_empty(x, *x.shape[:2], weight.size(2))
        if not kernels.runs_on_device(x):
            return torch.baddbmm(bias, x, weight, out=out)
        for position, part in enumerate(out):
            torch.addmm(bias[position, 0], x[position], weight[position], out=part)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # plain operations: differentiable again
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        weight_gradient = bias_gradient = None
        if needs_weight and kernels.runs_on_device(x):
            pairs = zip(x, gradient, strict=True)
            weight_gradient = torch.stack([given.t() @ part for given, part in pairs])
        elif needs_weight:
            weight_gradient = x.mT @ gradient
        if needs_bias and torch.is_grad_enabled():
            bias_gradient = gradient.sum(dim=1, keepdim=True)
        elif needs_bias:
            total = kernels.pool(gradient, Groups(), mean=False)
            bias_gradient = total.transpose(0, 1).to(gradient.dtype)
        return gradient @ weight.mT if needs_x else None, weight_gradient, bias_gradient
