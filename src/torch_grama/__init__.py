"""GRAMA: adaptive graph autoregressive moving-average models for PyTorch Geometric."""

from torch_grama.nn import (
    GRAMA,
    GatedGCNConv,
    GRAMABlock,
    NaiveCoefficients,
    SelectiveCoefficients,
    SequenceEmbedding,
)

__version__ = "0.1.0"

__all__ = [
    "GRAMA",
    "GRAMABlock",
    "GatedGCNConv",
    "NaiveCoefficients",
    "SelectiveCoefficients",
    "SequenceEmbedding",
    "__version__",
]
