"""GRAMA: adaptive graph autoregressive moving-average models for PyTorch Geometric.

The names below are loaded when they are first asked for, so that the ``grama`` command can print
its help without waiting for torch.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, which takes time to load
if TYPE_CHECKING:
    from torch_grama.nn import (
        GRAMA,
        Coefficients,
        GatedGCNConv,
        GRAMABlock,
        GRAMAConv,
        NaiveCoefficients,
        Readout,
        Running,
        SelectiveCoefficients,
        SequenceEmbedding,
        capture,
    )

__version__ = "0.2.0"

__all__ = [
    "GRAMA",
    "Coefficients",
    "GRAMABlock",
    "GRAMAConv",
    "GatedGCNConv",
    "NaiveCoefficients",
    "Readout",
    "Running",
    "SelectiveCoefficients",
    "SequenceEmbedding",
    "__version__",
    "capture",
]


def __getattr__(name: str) -> object:
    if name == "nn" or name in __all__:
        import torch_grama.nn as nn

        value: object = nn if name == "nn" else getattr(nn, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "nn"})
