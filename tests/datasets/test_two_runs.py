import os
import subprocess
import sys
from pathlib import Path

import pytest

import torch_grama

CODE = """
from torch_grama.datasets import *
print(generate_transfer("crossed-ring", 10).fingerprint())
print(generate_transfer("line", 5, "legacy").fingerprint())
print(generate_transfer("ring", 5, "carry").fingerprint())
print(generate_property(sizes=((25, 60), (34, 60))).fingerprint())
print(generate_pattern(counts=(100, 0, 0)).fingerprint())
print(generate_cluster(counts=(20, 0, 0)).fingerprint())
print(generate_cluster(seed=1, counts=(20, 0, 0)).fingerprint())
print(generate_property(seed=8, sizes=((25, 60), (34, 60))).fingerprint())
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    folder = str(Path(torch_grama.__file__).parents[1])
    runs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        runs.append(done.stdout.split())
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 8
