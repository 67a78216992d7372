"""From node features to the sequence that the recurrence starts from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor
from torch.nn import Dropout, Module, Parameter
from torch.nn.parameter import UninitializedParameter

from torch_grama.nn.activation import Activation, identity, resolve_activation
from torch_grama.nn.choices import choose
from torch_grama.nn.engine.batched_linear import batched_linear
from torch_grama.nn.grama_arguments import check_input_sizes, check_positive
from torch_grama.nn.node_sequence import NodeSequence, forward_differences

INITIAL_RESIDUALS = {"difference": "of neighbouring states", "zero": "none"}


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
        sequence_first (bool, optional): If :obj:`True`, a real sequence comes as
            :math:`(L, N, C)` instead of :math:`(N, L, C)`. (default: :obj:`False`)
        initial_residuals (str, optional): ``"difference"`` as above, or ``"zero"``.
            (default: :obj:`"difference"`)

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
        sequence_first: bool = False,
        initial_residuals: str = "difference",
    ) -> None:
        super().__init__()
        check_input_sizes(in_channels, 0, dropout)
        check_positive(channels=channels, seq_len=seq_len, num_layers=num_layers)
        choose("initial_residuals", initial_residuals, INITIAL_RESIDUALS)
        self.in_channels = in_channels
        self.channels = channels
        self.seq_len = seq_len
        self.num_layers = num_layers
        self.act = resolve_activation(act)
        self.dropout = Dropout(dropout)
        self.sequence_first = sequence_first
        self.initial_residuals = initial_residuals

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
        states = self.dropout(self.act(self.preactivation(x)))
        return states, self.residuals(states)

    def embed(self, x: Tensor) -> NodeSequence:
        r"""Returns the same with as much as possible left to the engine that reads it: the last
        activation where no dropout follows, and residuals that are differences."""
        states = self.preactivation(x)
        drops = self.dropout.p > 0 and self.training
        if drops:
            states = self.dropout(self.act(states))
        residuals = None if self.initial_residuals == "difference" else torch.zeros_like(states)
        return NodeSequence.from_owned(states, residuals, identity if drops else self.act)

    def preactivation(self, x: Tensor) -> Tensor:
        r"""Returns the states :math:`(L, N, F)` before the last activation and dropout."""
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.size(-1))
            self.reset_parameters()
        # [N, C] -> [L, N, C] without a copy, or the k-th snapshot at position k
        if x.dim() == 2:
            x = x.unsqueeze(0).expand(self.seq_len, -1, -1)
        elif not self.sequence_first:
            x = x.transpose(0, 1)
        states = batched_linear(x, self.weight, self.bias)
        for weight, bias in self._hidden_layers():
            states = batched_linear(self.dropout(self.act(states)), weight, bias)
        return states

    def residuals(self, states: Tensor) -> Tensor:
        r"""Returns the residuals of a sequence of states."""
        if self.initial_residuals == "zero":
            return torch.zeros_like(states)
        return forward_differences(states)

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
