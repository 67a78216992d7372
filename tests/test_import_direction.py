"""The package's rings hold, and the checker sees when they do not."""

from pathlib import Path

import pytest

from import_rings import PACKAGE, RINGS, find_empty_names, find_faults, read_imports

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / PACKAGE


def make_package(folder: Path, file: str, text: str) -> Path:
    """Writes a package of one file."""
    package = folder / PACKAGE
    path = package / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return package


def test_no_import_of_the_package_points_outward_or_sideways():
    assert find_faults(SOURCE) == []


def test_the_imports_of_the_package_are_read():
    found = read_imports(SOURCE)
    assert len({one.path for one in found}) > 30
    arrows = {(one.path.relative_to(SOURCE).parts[0], one.module) for one in found}
    assert ("__init__.py", "torch_grama.nn") in arrows
    assert ("nn", "torch_geometric.nn") in arrows
    assert ("analysis", "torch") in arrows


@pytest.mark.parametrize("folder", ["src", "tests", "examples", "benchmarks"])
def test_every_name_says_something(folder):
    assert find_empty_names(PROJECT / folder) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("nn/block.py", "import torch\nfrom torch_geometric.nn import GCNConv\nimport numpy as np"),
        ("nn/engine/triton_kernels.py", "import triton\nimport triton.language as tl"),
        ("nn/block.py", "from torch_grama.nn.engine import scan\nfrom .engine import scan"),
        ("nn/engine/scan.py", "from torch_grama.nn.engine.sums import add\nfrom .sums import add"),
        ("analysis/poles.py", "from torch_grama.nn import GRAMA\nfrom torch_grama import GRAMA"),
        ("datasets/line.py", "import networkx\nimport scipy.sparse\nfrom ..nn import functional"),
        ("datasets/molecules.py", "def read():\n    from rdkit import Chem\n    import ogb.utils"),
        (
            "datasets/picture.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import rich",
        ),
        ("training/task.py", "import pytorch_lightning\nfrom torch_grama.datasets import Fold"),
        (
            "experiments/run.py",
            "from torch_grama.training import task\nimport torch_grama.baselines",
        ),
        ("report/tables.py", "import matplotlib\nfrom torch_grama.experiments import result"),
        ("cli/__init__.py", "import argparse\nfrom torch_grama import __version__, report, cli"),
        ("cli/data.py", "def show():\n    import rich\n    from torch_grama.datasets import load"),
        ("__init__.py", "from torch_grama.nn import GRAMA\nfrom .nn import GRAMABlock"),
    ],
)
def test_checker_lets_pass(tmp_path, file, text):
    assert find_faults(make_package(tmp_path, file, text)) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        # outward
        ("nn/block.py", "import torch_grama.analysis", "nn/block.py:1: 'nn' must not import"),
        ("nn/block.py", "from torch_grama import analysis", "must not import torch_grama.analysis"),
        ("nn/block.py", "from .. import training", "must not import torch_grama.training"),
        ("nn/block.py", "from ..datasets import Fold", "must not import torch_grama.datasets"),
        ("nn/engine/scan.py", "from ...cli import main", "must not import torch_grama.cli"),
        ("nn/engine/scan.py", "from ..block import Block", "'nn/engine' must not import"),
        ("nn/block.py", "from torch_grama import GRAMA", "must not import torch_grama"),
        ("nn/block.py", "def f():\n    import torch_grama.report", "nn/block.py:2: "),
        ("training/task.py", "import torch_grama.experiments", "'training' must not import"),
        ("experiments/run.py", "from torch_grama.cli import data", "torch_grama.cli"),
        ("__init__.py", "from torch_grama.analysis import poles", "'torch_grama' must not import"),
        (
            "nn/block.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch_grama.search",
            "nn/block.py:3: 'nn' must not import torch_grama.search",
        ),
        (
            "nn/block.py",
            "import importlib\nimportlib.import_module('torch_grama.cli')",
            "nn/block.py:2: 'nn' must not import torch_grama.cli",
        ),
        # sideways
        ("analysis/poles.py", "import torch_grama.datasets", "'analysis' must not import"),
        ("datasets/line.py", "from torch_grama.baselines import GCN", "'datasets' must not import"),
        ("report/tables.py", "from ..search import space", "'report' must not import"),
        ("search/tune.py", "from ..reproduce import suite", "'search' must not import"),
        ("reproduce/suite.py", "from ..search import space", "'reproduce' must not import"),
        ("reproduce/suite.py", "import torch_grama.report", "'reproduce' must not import"),
        # inward, to a room that is closed
        ("report/tables.py", "from torch_grama.nn import GRAMA", "'report' must not import"),
        ("report/tables.py", "from torch_grama import GRAMA", "'report' must not import"),
        # to where there is nothing
        ("nn/block.py", "import torch_grama.attic", "'nn' must not import torch_grama.attic"),
        ("attic/old.py", "import torch", "'attic' lies in no ring"),
        ("loose.py", "import torch", "'loose' lies in no ring"),
        # libraries
        ("nn/block.py", "import scipy", "'nn' must not load scipy at import"),
        ("nn/block.py", "def f():\n    import scipy", "'nn' must not load scipy"),
        ("nn/block.py", "import triton", "'nn' must not load triton at import"),
        ("nn/engine/scan.py", "import triton", "'nn' must not load triton at import"),
        ("nn/block.py", "try:\n    import rich\nexcept ImportError:\n    rich = None", "load rich"),
        ("nn/block.py", "class A:\n    import rich", "'nn' must not load rich at import"),
        ("analysis/poles.py", "import torch_geometric", "must not load torch_geometric at import"),
        ("datasets/molecules.py", "import rdkit", "'datasets' must not load rdkit at import"),
        ("datasets/line.py", "def f():\n    import ray", "'datasets' must not load ray"),
        ("cli/data.py", "import rich", "'cli' must not load rich at import"),
        ("__init__.py", "import torch", "'torch_grama' must not load torch at import"),
    ],
)
def test_checker_finds(tmp_path, file, text, fault):
    faults = find_faults(make_package(tmp_path, file, text))
    assert len(faults) == 1, faults
    assert fault in faults[0]


@pytest.mark.parametrize(
    "file", ["nn/utils.py", "datasets/_helpers.py", "misc/x.py", "nn/common.py"]
)
def test_checker_finds_names_that_say_nothing(tmp_path, file):
    faults = find_empty_names(make_package(tmp_path, file, ""))
    assert len(faults) == 1
    assert "a name that says nothing" in faults[0]


def test_every_room_of_the_package_has_a_ring():
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert "nn" in rooms
    assert rooms <= set(RINGS)
