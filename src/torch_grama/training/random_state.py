"""Random numbers that can be put back where they were."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from torch import Tensor

from torch_grama.training.loaders import mix_seed


def seed_all(*parts: int) -> None:
    r"""Seeds Python, NumPy and torch, on every device, from several numbers."""
    seed = mix_seed(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state() -> dict[str, object]:
    r"""Where all random numbers stand, in plain values and tensors."""
    _, keys, position, has_gauss, cached = cast(
        tuple[str, np.ndarray, int, int, float], np.random.get_state()
    )
    version, words, gauss = random.getstate()
    return {
        "python": [version, list(words), gauss],
        "numpy": [keys.tolist(), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_state(state: Mapping[str, object]) -> None:
    r"""Goes on with the random numbers of :func:`random_state`."""
    version, words, gauss = cast(tuple[int, list[int], float | None], state["python"])
    random.setstate((version, tuple(words), gauss))
    keys, position, has_gauss, cached = cast(tuple[list[int], int, int, float], state["numpy"])
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(cast(Tensor, state["torch"]))
    cuda = cast(list[Tensor], state["cuda"])
    if cuda and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(cuda[: torch.cuda.device_count()])
