"""Every example runs from the command line, on a small budget, and says what it promises."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
EXAMPLES = PROJECT / "examples"

BUDGETS = {
    "another_backbone.py": ["--data", "transfer-ring-3", "--epochs", "1"],
    "forecasting.py": ["--epochs", "3"],
    "long_range_transfer.py": ["--distance", "3", "--epochs", "2", "--seed", "1"],
    "own_graph_data.py": ["--graphs", "40", "--epochs", "2"],
    "own_node_data.py": ["--nodes", "80", "--epochs", "3"],
    "sweep.py": ["--epochs", "3"],
}


@cache
def run(example: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / example), *BUDGETS[example]],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src")},
        timeout=1800,  # a guard against a hang, not a measure
        check=False,
    )


def test_every_example_has_a_budget():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(BUDGETS)


@pytest.mark.slow
@pytest.mark.parametrize("example", BUDGETS)
def test_example_runs(example):
    result = run(example)
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr, result.stderr
    assert result.stdout.strip()


@pytest.mark.parametrize("example", BUDGETS)
def test_example_is_short(example):
    assert len((EXAMPLES / example).read_text(encoding="utf-8").splitlines()) <= 101


@pytest.mark.slow
def test_long_range_transfer_sets_both_models_beside_the_constant():
    out = run("long_range_transfer.py").stdout
    rows = re.findall(r"^ +(constant|GCN|GRAMA\(GCN\)).*? (\d+\.\d+)$", out, re.MULTILINE)
    assert {name for name, _ in rows} == {"constant", "GCN", "GRAMA(GCN)"}
    assert rows[0] == ("constant", f"{1 / 12:.5f}")
    assert all(0 < float(error) < 100 for _, error in rows)
    assert "3 hops" in out
    assert "2 epochs" in out
