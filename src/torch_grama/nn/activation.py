"""Activations by word."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_grama.nn.choices import choose

Activation = Callable[[Tensor], Tensor]


def identity(x: Tensor) -> Tensor:
    r"""Returns its input."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": F.tanh,
    "leaky_relu": F.leaky_relu,
    "identity": identity,
}

# Those that can be written over their input.
IN_PLACE: dict[Activation, Activation] = {
    F.relu: torch.relu_,
    F.elu: lambda x: F.elu(x, inplace=True),
    F.silu: lambda x: F.silu(x, inplace=True),
    F.tanh: torch.tanh_,
    F.leaky_relu: lambda x: F.leaky_relu(x, inplace=True),
    identity: identity,
}


def resolve_activation(act: str | Activation | None) -> Activation:
    r"""Turns a word, a callable or :obj:`None` (no activation) into a callable."""
    if act is None:
        return identity
    if isinstance(act, str):
        return choose("act", act, ACTIVATIONS)
    if callable(act):
        return act
    raise TypeError(f"Expected 'act' to be a word, a callable or None (got {type(act).__name__})")
