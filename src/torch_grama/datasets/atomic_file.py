"""Files that appear whole or not at all."""

from torch_grama.runs.atomic_file import publish, write_atomically

__all__ = ["publish", "write_atomically"]
