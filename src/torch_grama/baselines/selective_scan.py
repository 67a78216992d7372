"""The recurrence of selective state-space models, in parallel and step by step."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

DEFAULT_CHUNK = 32
DEFAULT_ELEMENTS = 2**24


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
    (a a', a b' + b)`, so that all prefixes within a chunk of the sequence come in
    :math:`\log_2` of its length steps. There is no division, so that a strong decay costs no
    accuracy.

    The chunks follow one another, and each is computed again in the backward pass. What is kept
    is the input and one state a chunk; the largest tensor is :math:`(B', \mathrm{chunk}, F, S)`
    for as many sequences :math:`B'` at once as :obj:`max_elements` allows.

    Args:
        x (Tensor): Input :math:`(B, T, F)`.
        delta (Tensor): Step sizes :math:`\delta > 0` :math:`(B, T, F)`.
        decay (Tensor): The diagonal :math:`\mathbf{A} < 0` :math:`(F, S)`.
        input_map (Tensor): :math:`\mathbf{B}` :math:`(B, T, S)`.
        output_map (Tensor): :math:`\mathbf{C}` :math:`(B, T, S)`.
        skip (Tensor, optional): :math:`D` :math:`(F)`. (default: :obj:`None`)
        chunk_size (int, optional): Steps done at once. (default: :obj:`32`)
        max_elements (int, optional): Largest number of elements of a tensor; a batch that needs
            more is done in parts, each at least one sequence. (default: :obj:`2**24`)

    Returns:
        The output :math:`(B, T, F)`.

    Raises:
        ValueError: If a shape does not fit the others, or the chunk size is below 1.
    """
    _check_shapes(x, delta, decay, input_map, output_map, skip)
    if chunk_size < 1:
        raise ValueError(f"Expected 'chunk_size' to be at least 1 (got {chunk_size})")
    num_sequences, length, channels = x.size()
    if length == 0:
        return x
    needs_grad = torch.is_grad_enabled() and any(
        part.requires_grad for part in (x, delta, decay, input_map, output_map)
    )
    at_once = max(1, max_elements // (min(length, chunk_size) * decay.numel()))
    # what fits into one chunk of one part has nothing to save by being computed twice
    recompute = needs_grad and (length > chunk_size or num_sequences > at_once)
    parts = []
    for rows in zip(
        *(part.split(at_once) for part in (x, delta, input_map, output_map)), strict=True
    ):
        state = x.new_zeros(rows[0].size(0), channels, decay.size(1))
        for pieces in zip(*(part.split(chunk_size, dim=1) for part in rows), strict=True):
            if recompute:
                output, state = checkpoint(_scan_chunk, state, decay, *pieces, use_reentrant=False)
            else:
                output, state = _scan_chunk(state, decay, *pieces)
            parts.append(output)
    num_chunks = -(-length // chunk_size)
    out = torch.cat(
        [torch.cat(parts[k : k + num_chunks], dim=1) for k in range(0, len(parts), num_chunks)]
    )
    return out if skip is None else out + skip * x


def selective_scan_reference(
    x: Tensor,
    delta: Tensor,
    decay: Tensor,
    input_map: Tensor,
    output_map: Tensor,
    skip: Tensor | None = None,
) -> Tensor:
    r"""Runs the recurrence of :func:`selective_scan` step by step, as it is written.

    Args:
        x (Tensor): Input :math:`(B, T, F)`.
        delta (Tensor): Step sizes :math:`(B, T, F)`.
        decay (Tensor): The diagonal :math:`\mathbf{A}` :math:`(F, S)`.
        input_map (Tensor): :math:`\mathbf{B}` :math:`(B, T, S)`.
        output_map (Tensor): :math:`\mathbf{C}` :math:`(B, T, S)`.
        skip (Tensor, optional): :math:`D` :math:`(F)`. (default: :obj:`None`)

    Returns:
        The output :math:`(B, T, F)`.
    """
    _check_shapes(x, delta, decay, input_map, output_map, skip)
    state = x.new_zeros(x.size(0), x.size(2), decay.size(1))
    outputs = []
    for t in range(x.size(1)):
        step = delta[:, t, :, None]
        state = torch.exp(step * decay) * state + step * input_map[:, t, None] * x[:, t, :, None]
        output = (state * output_map[:, t, None]).sum(dim=-1)
        outputs.append(output if skip is None else output + skip * x[:, t])
    return torch.stack(outputs, dim=1) if outputs else x


def _scan_chunk(
    state: Tensor,
    decay: Tensor,
    x: Tensor,
    delta: Tensor,
    input_map: Tensor,
    output_map: Tensor,
) -> tuple[Tensor, Tensor]:
    """The outputs of one chunk and the state after it."""
    # [B, T, F] -> [B, T, F, S]
    factor = torch.exp(delta.unsqueeze(-1) * decay)
    term = (delta * x).unsqueeze(-1) * input_map.unsqueeze(-2)
    span, length = 1, x.size(1)
    while span < length:
        # element t composes with element t - span; both then stand for twice the span
        head, tail = factor[:, :span], factor[:, span:]
        term = torch.cat([term[:, :span], tail * term[:, :-span] + term[:, span:]], dim=1)
        factor = torch.cat([head, tail * factor[:, :-span]], dim=1)
        span *= 2
    states = factor * state.unsqueeze(1) + term
    # [B, T, F, S] -> [B, T, F]
    return (states * output_map.unsqueeze(-2)).sum(dim=-1), states[:, -1]


def _check_shapes(
    x: Tensor,
    delta: Tensor,
    decay: Tensor,
    input_map: Tensor,
    output_map: Tensor,
    skip: Tensor | None,
) -> None:
    if x.dim() != 3 or decay.dim() != 2:
        raise ValueError(
            f"Expected 'x' of shape [batch, length, channels] and 'decay' of shape [channels, "
            f"states] (got {list(x.size())} and {list(decay.size())})"
        )
    batch, length, channels = x.size()
    states = decay.size(1)
    for name, part, shape in (
        ("delta", delta, (batch, length, channels)),
        ("decay", decay, (channels, states)),
        ("input_map", input_map, (batch, length, states)),
        ("output_map", output_map, (batch, length, states)),
        ("skip", skip, (channels,)),
    ):
        if part is not None and tuple(part.size()) != shape:
            raise ValueError(
                f"Expected '{name}' of shape {list(shape)} (got {list(part.size())}, for 'x' of "
                f"shape {list(x.size())})"
            )
