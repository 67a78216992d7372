"""A selective state-space model over sequences, and its recurrence, in parallel."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import Conv1d, Linear, Module, Parameter

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

    where :math:`\mathrm{Scan}` is :func:`~torch_grama.baselines.selective_scan`
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
        self, channels: int, state_channels: int = 16, kernel_size: int = 4, expansion: int = 1
    ) -> None:
        super().__init__()
        check_positive(channels=channels, state_channels=state_channels)
        check_positive(kernel_size=kernel_size, expansion=expansion)
        self.channels, self.state_channels = channels, state_channels
        self.kernel_size, self.expansion = kernel_size, expansion
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
        if sequence.size(1) == 0:  # a convolution refuses it
            return sequence
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
        sizes = channels, state_channels, kernel_size, expansion
        self.forwards, self.backwards = MambaBlock(*sizes), MambaBlock(*sizes)

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


DEFAULT_CHUNK = 64
DEFAULT_ELEMENTS = 2**24
# Steps that each of the parallel parts of a chunk takes.
STEPS = 8


def selective_scan(
    x: Tensor,
    delta: Tensor,
    decay: Tensor,
    input_map: Tensor,
    output_map: Tensor,
    skip: Tensor | None = None,
    chunk_size: int = DEFAULT_CHUNK,
    max_elements: int = DEFAULT_ELEMENTS,
) -> Tensor:
    r"""Runs the selective state-space recurrence of `"Mamba: Linear-Time Sequence Modeling with
    Selective State Spaces" <https://arxiv.org/abs/2312.00752>`_ over a batch of sequences:

    .. math::
        \mathbf{h}_t = \exp(\delta_t \mathbf{A}) \odot \mathbf{h}_{t-1} +
        \delta_t \mathbf{B}_t x_t, \qquad
        y_t = \mathbf{C}_t^\top \mathbf{h}_t + D x_t, \qquad \mathbf{h}_0 = \mathbf{0},

    for each channel on its own. The pairs :math:`(a_t, b_t)` of the recurrence
    :math:`h_t = a_t h_{t-1} + b_t` compose associatively, :math:`(a, b) \circ (a', b') =
    (a a', a b' + b)`: the parts of a chunk of the sequence are composed side by side, eight steps
    each, and then joined. There is no division, so that a strong decay costs no accuracy.

    The chunks follow one another. What is kept for the backward pass is the input and one state a
    chunk; the states are made again there, chunk by chunk, and the gradient is the same recurrence
    run backwards. The largest tensor is :math:`(B', \mathrm{chunk}, F, S)` for as many sequences
    :math:`B'` at once as :obj:`max_elements` allows. The gradient has no gradient of its own.

    Args:
        x (Tensor): Input :math:`(B, T, F)`.
        delta (Tensor): Step sizes :math:`\delta > 0` :math:`(B, T, F)`.
        decay (Tensor): The diagonal :math:`\mathbf{A} < 0` :math:`(F, S)`.
        input_map (Tensor): :math:`\mathbf{B}` :math:`(B, T, S)`.
        output_map (Tensor): :math:`\mathbf{C}` :math:`(B, T, S)`.
        skip (Tensor, optional): :math:`D` :math:`(F)`. (default: :obj:`None`)
        chunk_size (int, optional): Steps done at once. (default: :obj:`64`)
        max_elements (int, optional): Largest number of elements of a tensor; a batch that needs
            more is done in parts, each at least one sequence. (default: :obj:`2**24`)

    Returns:
        The output :math:`(B, T, F)`.

    Raises:
        ValueError: If a shape does not fit the others, or the chunk size is below 1.
    """
    if x.dim() != 3 or decay.dim() != 2:
        raise ValueError(
            f"Expected 'x' of shape [batch, length, channels] and 'decay' of shape [channels, "
            f"states] (got {list(x.size())} and {list(decay.size())})"
        )
    maps = (*x.shape[:2], decay.size(1))
    for name, part, shape in (
        ("delta", delta, x.shape),
        ("decay", decay, (x.size(2), decay.size(1))),
        ("input_map", input_map, maps),
        ("output_map", output_map, maps),
        ("skip", skip, x.shape[2:]),
    ):
        if part is not None and part.shape != shape:
            raise ValueError(
                f"Expected '{name}' of shape {list(shape)} (got {list(part.size())}, for 'x' of "
                f"shape {list(x.size())})"
            )
    check_positive(chunk_size=chunk_size)
    if x.size(1) == 0:
        return x
    parts = (x, delta, decay, input_map, output_map)
    dtype = torch.float32
    for part in parts:
        dtype = torch.promote_types(dtype, part.dtype)
    at_once = max(1, max_elements // (min(x.size(1), chunk_size) * decay.numel()))
    out: Tensor = _SelectiveScan.apply(  # type: ignore[no-untyped-call]
        *(part.to(dtype) for part in parts), chunk_size, at_once
    )
    return out.to(x.dtype) if skip is None else out.to(x.dtype) + skip * x


class _SelectiveScan(torch.autograd.Function):
    """The scan without its skip, with a backward pass that makes the states again."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        delta: Tensor,
        decay: Tensor,
        input_map: Tensor,
        output_map: Tensor,
        chunk_size: int,
        at_once: int,
    ) -> Tensor:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        num_chunks = -(-x.size(1) // chunk_size)
        starts = x.new_zeros(num_chunks, x.size(0), x.size(2), decay.size(1))
        for rows in _slices(x.size(0), at_once):
            for number, steps in enumerate(_slices(x.size(1), chunk_size)):
                chunk = _Chunk(decay, *(part[rows, steps] for part in (x, delta, input_map)))
                states = chunk.states(starts[number, rows])
                out[rows, steps] = (states * output_map[rows, steps].unsqueeze(-2)).sum(dim=-1)
                if number + 1 < num_chunks:
                    starts[number + 1, rows] = states[:, -1]
        ctx.save_for_backward(x, delta, decay, input_map, output_map, starts)
        ctx.sizes = (chunk_size, at_once)  # type: ignore[attr-defined]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, out_grad: Tensor) -> tuple[Tensor | None, ...]:
        x, delta, decay, input_map, output_map, starts = ctx.saved_tensors  # type: ignore[attr-defined]
        chunk_size, at_once = ctx.sizes  # type: ignore[attr-defined]
        grads = tuple(
            torch.zeros_like(part, memory_format=torch.contiguous_format)
            for part in (x, delta, decay, input_map, output_map)
        )
        x_grad, delta_grad, decay_grad, input_grad, output_grad = grads
        for rows in _slices(x.size(0), at_once):
            from_later = torch.zeros_like(starts[0, rows])
            for number, steps in reversed(list(enumerate(_slices(x.size(1), chunk_size)))):
                chunk = _Chunk(decay, *(part[rows, steps] for part in (x, delta, input_map)))
                start, dy = starts[number, rows], out_grad[rows, steps].unsqueeze(-1)
                states = chunk.states(start)
                output_grad[rows, steps] = (states * dy).sum(dim=-2)
                # g_t = C_t dy_t + a_{t+1} g_{t+1}
                grad = chunk.adjoints(dy * output_map[rows, steps].unsqueeze(-2), from_later)
                factor = chunk.factor()
                from_later = factor[:, 0] * grad[:, 0]
                input_grad[rows, steps] = (grad * chunk.drive.unsqueeze(-1)).sum(dim=-2)
                drive_grad = (grad * chunk.input_map.unsqueeze(-2)).sum(dim=-1)
                # what reaches the exponent delta A of the factor
                grad = grad.mul_(factor)
                grad[:, 1:] *= states[:, :-1]
                grad[:, 0] *= start
                decay_grad += (grad * chunk.delta.unsqueeze(-1)).sum(dim=(0, 1))
                x_grad[rows, steps] = drive_grad * chunk.delta
                delta_grad[rows, steps] = drive_grad * chunk.x + (grad * decay).sum(dim=-1)
        return (*grads, None, None)


class _Chunk:
    """Some steps of some sequences."""

    def __init__(self, decay: Tensor, x: Tensor, delta: Tensor, input_map: Tensor) -> None:
        self.decay, self.x, self.delta, self.input_map = decay, x, delta, input_map
        self.drive = delta * x

    def factor(self) -> Tensor:
        """What a state is multiplied with at each step, ``[B, T, F, S]``."""
        return (self.delta.unsqueeze(-1) * self.decay).exp_()

    def states(self, start: Tensor) -> Tensor:
        """The states after each step, ``[B, T, F, S]``."""
        term = self.drive.unsqueeze(-1) * self.input_map.unsqueeze(-2)
        return _compose(self.factor(), term, start)

    def adjoints(self, term: Tensor, from_later: Tensor) -> Tensor:
        """The recurrence from the last step to the first, ``[B, T, F, S]``."""
        # a step is multiplied with the factor of the one that comes after it in the sequence
        factor = torch.ones_like(term)
        factor[:, 1:] = self.factor()[:, 1:].flip(1)
        return _compose(factor, term.flip(1), from_later).flip(1)


def _compose(factor: Tensor, term: Tensor, start: Tensor) -> Tensor:
    """Solves h_t = a_t h_{t-1} + b_t; uses up both of its first arguments."""
    length = term.size(1)
    steps = min(STEPS, length)
    missing = -length % steps
    if missing > 0:
        term = F.pad(term, (0, 0, 0, 0, 0, missing))
        factor = F.pad(factor, (0, 0, 0, 0, 0, missing))
    # [B, T, F, S] -> [B, P, steps, F, S]: all parts take their steps side by side
    term, factor = (part.unflatten(1, (-1, steps)) for part in (term, factor))
    for step in range(1, steps):
        term[:, :, step].addcmul_(factor[:, :, step], term[:, :, step - 1])
        factor[:, :, step].mul_(factor[:, :, step - 1])
    for part in range(term.size(1)):
        term[:, part].addcmul_(factor[:, part], start.unsqueeze(1))
        start = term[:, part, -1]
    return term.flatten(1, 2)[:, :length]


def _slices(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
