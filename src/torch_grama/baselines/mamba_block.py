"""A selective state-space model over sequences."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Conv1d, Linear, Module, Parameter

from torch_grama.baselines.selective_scan import selective_scan
from torch_grama.nn.arguments import check_positive

# Step sizes at the start, as in the paper's code.
SMALLEST_STEP, LARGEST_STEP = 1e-3, 1e-1


class MambaBlock(Module):
    r"""The block of `"Mamba: Linear-Time Sequence Modeling with Selective State Spaces"
    <https://arxiv.org/abs/2312.00752>`_ in plain PyTorch:

    .. math::
        [\mathbf{x}, \mathbf{z}] &= \mathbf{W}_{in} \mathbf{u}, \qquad
        \mathbf{x}'_t = \mathrm{SiLU} \Big( \mathbf{b} + \sum_{k=0}^{K-1} \mathbf{w}_k \odot
        \mathbf{x}_{t-k} \Big), \\
        [\mathbf{r}, \mathbf{B}, \mathbf{C}] &= \mathbf{W}_x \mathbf{x}', \qquad
        \boldsymbol{\delta} = \mathrm{softplus}(\mathbf{W}_\delta \mathbf{r} + \mathbf{b}_\delta),
        \\
        \mathbf{y} &= \mathbf{W}_{out} \left( \mathrm{Scan}(\mathbf{x}', \boldsymbol{\delta},
        \mathbf{A}, \mathbf{B}, \mathbf{C}, \mathbf{D}) \odot \mathrm{SiLU}(\mathbf{z}) \right),

    where :math:`\mathrm{Scan}` is :func:`~torch_grama.baselines.selective_scan.selective_scan`
    with :math:`\mathbf{A} = -\exp(\mathbf{A}_{log})`. Each element sees itself and those before
    it, so that padding at the end of a sequence changes nothing before it.

    Args:
        channels (int): Width of input and output.
        state_channels (int, optional): States per channel :math:`S`. (default: :obj:`16`)
        kernel_size (int, optional): Length of the causal convolution :math:`K`. (default: :obj:`4`)
        expansion (int, optional): Inner width, in multiples of the channels. (default: :obj:`1`,
            as in Graph-Mamba; language models have 2)

    Shapes:
        - **input:** :math:`(B, T, F)`
        - **output:** :math:`(B, T, F)`
    """

    def __init__(
        self,
        channels: int,
        state_channels: int = 16,
        kernel_size: int = 4,
        expansion: int = 1,
    ) -> None:
        super().__init__()
        check_positive(
            channels=channels,
            state_channels=state_channels,
            kernel_size=kernel_size,
            expansion=expansion,
        )
        self.channels = channels
        self.state_channels = state_channels
        self.kernel_size = kernel_size
        self.expansion = expansion
        inner = expansion * channels
        self.rank = math.ceil(channels / 16)
        self.in_lin = Linear(channels, 2 * inner, bias=False)
        self.conv = Conv1d(inner, inner, kernel_size, groups=inner, padding=kernel_size - 1)
        self.select_lin = Linear(inner, self.rank + 2 * state_channels, bias=False)
        self.step_lin = Linear(self.rank, inner)
        self.log_decay = Parameter(torch.empty(inner, state_channels))
        self.skip = Parameter(torch.empty(inner))
        self.out_lin = Linear(inner, channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for part in (self.in_lin, self.conv, self.select_lin, self.out_lin):
            part.reset_parameters()
        bound = self.rank**-0.5
        torch.nn.init.uniform_(self.step_lin.weight, -bound, bound)
        with torch.no_grad():
            low, high = math.log(SMALLEST_STEP), math.log(LARGEST_STEP)
            step = torch.empty_like(self.step_lin.bias).uniform_(low, high).exp()
            # the inverse of softplus
            self.step_lin.bias.copy_(step + torch.log(-torch.expm1(-step)))
            states = torch.arange(1, self.state_channels + 1).to(self.log_decay)
            self.log_decay.copy_(states.log().expand_as(self.log_decay))
        torch.nn.init.ones_(self.skip)

    def forward(self, sequence: Tensor) -> Tensor:
        r"""Returns the sequence of outputs."""
        # [B, T, F] -> [B, T, I] each
        x, gate = self.in_lin(sequence).chunk(2, dim=-1)
        # the padding on the left makes it causal; what sticks out on the right is cut off
        x = self.conv(x.transpose(1, 2))[..., : sequence.size(1)].transpose(1, 2)
        x = F.silu(x)
        rank, input_map, output_map = self.select_lin(x).split(
            [self.rank, self.state_channels, self.state_channels], dim=-1
        )
        delta = F.softplus(self.step_lin(rank))
        decay = -torch.exp(self.log_decay)
        y = selective_scan(x, delta, decay, input_map, output_map, self.skip)
        out: Tensor = self.out_lin(y * F.silu(gate))
        return out

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, state_channels={self.state_channels}, "
            f"kernel_size={self.kernel_size}, expansion={self.expansion})"
        )


class BidirectionalMamba(Module):
    r"""Two blocks, one from each end of the sequence, summed:
    :math:`\mathbf{y} = \mathrm{Mamba}_1(\mathbf{u}) +
    \mathrm{flip}(\mathrm{Mamba}_2(\mathrm{flip}(\mathbf{u})))`.

    Args:
        channels (int): Width of input and output.
        state_channels (int, optional): States per channel. (default: :obj:`16`)
        kernel_size (int, optional): Length of the causal convolution. (default: :obj:`4`)
        expansion (int, optional): Inner width, in multiples of the channels. (default: :obj:`1`)

    Shapes:
        - **input:** :math:`(B, T, F)`, and the length of each sequence :math:`(B)` *(optional)*
        - **output:** :math:`(B, T, F)`
    """

    def __init__(
        self, channels: int, state_channels: int = 16, kernel_size: int = 4, expansion: int = 1
    ) -> None:
        super().__init__()
        self.forwards = MambaBlock(channels, state_channels, kernel_size, expansion)
        self.backwards = MambaBlock(channels, state_channels, kernel_size, expansion)

    def forward(self, sequence: Tensor, lengths: Tensor | None = None) -> Tensor:
        r"""Returns the sequence of outputs; what lies beyond a sequence's length is not read."""
        turned = _turn(self.backwards(_turn(sequence, lengths)), lengths)
        out: Tensor = self.forwards(sequence) + turned
        return out

    def summarize(self, sequence: Tensor) -> Tensor:
        r"""Returns what each direction gives at its end, where it has seen all, summed
        :math:`(B, F)`."""
        out: Tensor = self.forwards(sequence)[:, -1] + self.backwards(sequence.flip(1))[:, -1]
        return out


def _turn(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence from its own end to its start; its padding stays at the end."""
    if lengths is None:
        return sequence.flip(1)
    places = torch.arange(sequence.size(1), device=sequence.device)
    turned = lengths.unsqueeze(1) - 1 - places
    index = torch.where(turned >= 0, turned, places)
    return sequence.gather(1, index.unsqueeze(-1).expand_as(sequence))
