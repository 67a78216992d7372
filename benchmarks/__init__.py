"""Speed and memory of GRAMA beside PyG's layers. Run with ``python -m benchmarks.runtime``."""
