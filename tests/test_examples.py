"""Every example runs from the command line, on a small budget, and says what it promises."""

import re
import runpy
import sys
from functools import cache
from pathlib import Path

import pytest

from grama_process import ForkedProcess

EXAMPLES = Path(__file__).parents[1] / "examples"

BUDGETS = {
    "another_backbone.py": ["--data", "transfer-ring-3", "--epochs", "1"],
    "forecasting.py": ["--epochs", "3"],
    "long_range_transfer.py": ["--distance", "5", "--epochs", "5", "--seed", "1"],
    "own_graph_data.py": ["--graphs", "40", "--epochs", "2"],
    "own_node_data.py": ["--nodes", "80", "--epochs", "3"],
}
ON_RAY = "sweep.py"  # run by tests/search/test_sweep.py


def call(path: str, words: list[str]) -> None:
    sys.argv = [path, *words]
    runpy.run_path(path, run_name="__main__")


@cache
def run(example: str) -> tuple[str, str]:
    process = ForkedProcess(call, str(EXAMPLES / example), BUDGETS[example])
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out, err


def test_every_example_has_a_budget():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*BUDGETS, ON_RAY}


@pytest.mark.slow
@pytest.mark.parametrize("example", BUDGETS)
def test_example_runs(example):
    out, err = run(example)
    assert "Warning" not in err, err
    assert out.strip()


@pytest.mark.parametrize("example", [*BUDGETS, ON_RAY])
def test_example_is_short(example):
    assert len((EXAMPLES / example).read_text(encoding="utf-8").splitlines()) <= 101


@pytest.mark.slow
def test_long_range_transfer_sets_both_models_beside_the_constant():
    out = run("long_range_transfer.py")[0]
    rows = re.findall(r"^ +(constant|GCN|GRAMA\(GCN\)).*? (\d+\.\d+)$", out, re.MULTILINE)
    assert {name for name, _ in rows} == {"constant", "GCN", "GRAMA(GCN)"}
    assert rows[0] == ("constant", f"{1 / 12:.5f}")
    errors = {name: float(error) for name, error in rows}
    assert 0 < errors["GRAMA(GCN)"] < errors["constant"] / 2
    assert 0 < errors["GCN"] < 1
    assert "5 hops" in out
    assert "5 epochs" in out
