"""Which files of the project pytest collects."""

from importlib.util import find_spec

# Triton exists for Linux alone; without it the device code cannot be imported for its doctests.
collect_ignore_glob = [] if find_spec("triton") else ["src/torch_grama/nn/engine/triton_*.py"]
