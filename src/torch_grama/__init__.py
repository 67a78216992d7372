"""GRAMA: adaptive graph autoregressive moving-average models for PyTorch Geometric."""

__version__ = "0.1.0"
