"""A yes or no of a device that is asked for later than it is computed."""

from __future__ import annotations

import torch
from torch import Tensor


class LateFlag:
    r"""Copies a truth value to the CPU while the device goes on.

    Reading it waits for what the device was given before the flag, not for what came after: with
    enough work queued in between, the device never runs dry.

    Args:
        flag (Tensor): A boolean of no dimension.
    """

    def __init__(self, flag: Tensor) -> None:
        self._flag = flag
        self._copied: torch.cuda.Event | None = None
        if flag.device.type == "cuda":
            self._flag = torch.empty((), dtype=torch.bool, pin_memory=True)
            self._flag.copy_(flag, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record(torch.cuda.current_stream(flag.device))

    def read(self) -> bool:
        r"""The value, once it is there."""
        if self._copied is not None:
            self._copied.synchronize()
        return bool(self._flag)
