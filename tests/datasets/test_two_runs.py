import os
import subprocess
import sys
from pathlib import Path

import pytest

import torch_grama
from torch_grama import datasets

SETS = (
    "generate_transfer('crossed-ring', 10)",
    "generate_transfer('line', 5, 'legacy')",
    "generate_transfer('ring', 5, 'carry')",
    "generate_property(sizes=((25, 60), (34, 60)))",
    "generate_property(seed=8, sizes=((25, 60), (34, 60)))",
    "generate_pattern(counts=(100, 0, 0))",
    "generate_cluster(counts=(20, 0, 0))",
    "generate_cluster(seed=1, counts=(20, 0, 0))",
)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    code = "from torch_grama.datasets import *\n"
    code += "\n".join(f"print({made}.fingerprint())" for made in SETS)
    folder = str(Path(torch_grama.__file__).parents[1])
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name: getattr(datasets, name) for name in datasets.__all__}
    here = [eval(f"{made}.fingerprint()", names) for made in SETS]
    assert there.stdout.split() == here
    assert len(set(here)) == len(SETS)
