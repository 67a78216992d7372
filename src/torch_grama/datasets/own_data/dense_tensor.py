"""Tensors from a file, taken only if they are plain numbers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_grama.datasets.errors import DatasetError


def as_array(value: object, where: str, name: str) -> NDArray[np.generic]:
    r"""Returns the numbers of a dense tensor.

    Args:
        value (object): What the file holds.
        where (str): Which graph it belongs to.
        name (str): Its name.

    Raises:
        DatasetError: It is no dense tensor of real numbers.
    """
    if (
        not isinstance(value, Tensor)
        or value.layout != torch.strided
        or value.device.type != "cpu"
        or value.is_quantized
        or value.is_complex()
    ):
        raise DatasetError(
            f"{where} has no '{name}' that is a dense tensor of numbers (it is "
            f"{'missing' if value is None else type(value).__name__}): save it as one."
        )
    value = value.detach()
    array: NDArray[np.generic] = (value.double() if value.is_floating_point() else value).numpy()
    return array
