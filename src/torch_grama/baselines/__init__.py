"""The systems that GRAMA is compared with, all called alike."""

from torch_grama.baselines.graph_head import GraphHead

__all__ = ["GraphHead"]
