"""The door of this room: every argument is checked here once, and trusted further in."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor


def check_coefficients(phi: Tensor, theta: Tensor | None = None) -> tuple[Tensor, Tensor]:
    r"""Return ``phi [..., p]`` and ``theta [..., q]`` with one dtype and equal leading dimensions.

    A missing ``theta`` becomes the empty one, ``q = 0``.
    """
    check_real("phi", phi, ndim=1)
    if phi.size(-1) == 0:
        raise ValueError(
            f"Expected 'phi' to hold at least one coefficient in its last dimension "
            f"(got shape {tuple(phi.shape)}); pass phi of shape [..., p] with p >= 1"
        )
    if theta is None:
        return phi, phi.new_empty((*phi.shape[:-1], 0))
    check_real("theta", theta, ndim=1)
    phi, theta = to_one_dtype(phi=phi, theta=theta)
    batch_shape = broadcast_shape(phi=phi.shape[:-1], theta=theta.shape[:-1])
    return phi.expand(batch_shape + phi.shape[-1:]), theta.expand(batch_shape + theta.shape[-1:])


def check_state_space(
    A: Tensor, B: Tensor, C: Tensor, D: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Return the four parts of a state-space model with one dtype, their sizes checked."""
    for name, value, ndim in (("A", A, 2), ("B", B, 1), ("C", C, 1), ("D", D, 0)):
        check_real(name, value, ndim)
    size = A.size(-1)
    if A.size(-2) != size or size == 0:
        raise ValueError(
            f"Expected 'A' to be square with at least one state (got shape {tuple(A.shape)}); "
            f"pass A of shape [..., n, n]"
        )
    check_size("B", B, size, "one per state of 'A'")
    check_size("C", C, size, "one per state of 'A'")
    A, B, C, D = to_one_dtype(A=A, B=B, C=C, D=D)
    return A, B, C, D


def check_real(name: str, value: Tensor, ndim: int) -> None:
    r"""Demand a finite real floating-point tensor with at least ``ndim`` dimensions."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Expected '{name}' to be a tensor (got {type(value).__name__})")
    if not value.is_floating_point():
        raise ValueError(
            f"Expected '{name}' to be real floating point (got {value.dtype}); "
            f"convert it with .double()"
        )
    if value.dim() < ndim:
        raise ValueError(
            f"Expected '{name}' to have at least {ndim} dimension(s) "
            f"(got shape {tuple(value.shape)})"
        )
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"Expected '{name}' to be finite (got infinite or undefined entries)")


def check_size(name: str, value: Tensor, size: int, meaning: str) -> None:
    r"""Demand that the last dimension of ``value`` has ``size`` entries."""
    if value.size(-1) != size:
        raise ValueError(
            f"Expected the last dimension of '{name}' to have {size} entries, {meaning} "
            f"(got shape {tuple(value.shape)})"
        )


def check_tolerance(tolerance: float, *, positive: bool = False) -> None:
    r"""Demand a non-negative (or positive) finite number."""
    usable = tolerance > 0 if positive else tolerance >= 0
    if not usable or tolerance == float("inf"):
        kind = "positive" if positive else "non-negative"
        raise ValueError(f"Expected 'tolerance' to be a {kind} finite number (got {tolerance})")


def check_count(name: str, value: int, minimum: int) -> None:
    r"""Demand a whole number of at least ``minimum``."""
    if value < minimum:
        raise ValueError(f"Expected '{name}' to be at least {minimum} (got {value})")


def check_batch(point: Tensor, batch: Tensor | None, batch_size: int | None) -> tuple[Tensor, int]:
    r"""Return the graph ``[N]`` of each node and the number of graphs."""
    num_nodes = point.size(0)
    if batch is None:
        if batch_size not in (None, 1):
            raise ValueError(
                f"Expected 'batch' to be given with batch_size={batch_size} (got None); "
                f"pass the graph of each node, or leave 'batch_size' out"
            )
        return torch.zeros(num_nodes, dtype=torch.long, device=point.device), 1
    if batch.dtype != torch.long or batch.shape != (num_nodes,):
        raise ValueError(
            f"Expected 'batch' to be int64 of shape ({num_nodes},), one entry per node "
            f"(got {batch.dtype} of shape {tuple(batch.shape)})"
        )
    check_one_device(point=point, batch=batch)
    found = int(batch.max()) + 1 if num_nodes else 0
    too_large = batch_size is not None and found > batch_size
    if num_nodes and (int(batch.min()) < 0 or too_large):
        raise ValueError(
            f"Expected the entries of 'batch' to lie in [0, batch_size) "
            f"(got {int(batch.min())} to {found - 1}, batch_size={batch_size})"
        )
    return batch, found if batch_size is None else batch_size


def broadcast_shape(**shapes: torch.Size) -> torch.Size:
    r"""The common shape of the named leading dimensions."""
    try:
        common: torch.Size = torch.broadcast_shapes(*shapes.values())
    except RuntimeError as error:
        got = ", ".join(f"{name}: {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(
            f"Expected leading dimensions that broadcast against each other (got {got})"
        ) from error
    return common


def check_one_device(**tensors: Tensor) -> None:
    r"""Demand that the named tensors lie on the same device."""
    if len({tensor.device for tensor in tensors.values()}) > 1:
        got = ", ".join(f"{name}: {tensor.device}" for name, tensor in tensors.items())
        raise ValueError(f"Expected all tensors on one device (got {got}); move them with .to()")


def to_one_dtype(**tensors: Tensor) -> list[Tensor]:
    r"""Promote the named tensors to the widest of their dtypes; they must share a device."""
    check_one_device(**tensors)
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors.values()))
    return [tensor.to(dtype) for tensor in tensors.values()]
