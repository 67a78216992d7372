"""The table in the README is what the kept result files say."""

from pathlib import Path

import pytest
from result_files import write_result

from torch_grama.report.held_results import gather
from torch_grama.report.pair_table import (
    BEGIN,
    END,
    SUITE,
    build_readme_table,
    renew_table,
)
from torch_grama.reproduce.suite import find_configs, find_suite

PROJECT = Path(__file__).parents[2]


PAIRS = {"minesweeper": ("roc_auc", [("tuned-gcn", "grama-gcn-root"), ("gcn", "grama-gcn")])}


def rows(table: str) -> list[list[str]]:
    """The cells of each line of data."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_readme_is_up_to_date():
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    held, faults = gather([PROJECT / "src" / "torch_grama" / "results"])
    assert faults == []
    pairs = find_suite(SUITE, find_configs(None)).pairs()
    assert renew_table(text, held, pairs) == text, "run `grama results --readme README.md`"


def table_of(folder: Path, **changes: object) -> str:
    """The table after one more pair of runs was kept."""
    for model, val, test in (
        ("gcn", 0.80, 0.81),
        ("grama-gcn", 0.90, 0.84),
        ("tuned-gcn", 0.85, 0.86),
        ("grama-gcn-root", 0.88, 0.89),
    ):
        write_result(
            folder, **{"suite": SUITE, "model": model, "val": val, "test": test, **changes}
        )
    return build_readme_table(gather([folder])[0], PAIRS)


def test_validation_chooses_the_pair_and_the_other_model(tmp_path):
    write_result(tmp_path, suite="hetero", model="gat", val=0.84, test=0.95)
    ((data, metric, with_it, backbone, alone, gain, other, paper),) = rows(table_of(tmp_path))
    assert (data, metric, with_it, backbone) == ("minesweeper", "AUC ↑", "84.00", "gcn")
    assert (alone, gain) == ("81.00", "+3.00")
    assert other == "86.00 (tuned-gcn)"
    assert paper == "98.33"  # the highest of the paper's GRAMA rows


def test_lower_is_better_for_errors(tmp_path):
    errors = {"suite": SUITE, "data": "chickenpox", "metric": "mse"}
    for model, error in (("gcn", 0.02), ("grama-gcn", 0.01), ("gin", 0.3), ("grama-gin", 0.1)):
        write_result(tmp_path, **errors, model=model, val=error, test=error)
    pairs = {"chickenpox": ("mse", [("gin", "grama-gin"), ("gcn", "grama-gcn")])}
    table = build_readme_table(gather([tmp_path])[0], pairs)
    ((_, metric, with_it, backbone, _, gain, other, _),) = rows(table)
    assert (metric, with_it, backbone, gain) == ("MSE ↓", "0.0100", "gcn", "+0.0100")
    assert other == "0.3000 (gin)"


def test_all_pairs_are_counted(tmp_path):
    for fold in range(2):
        table = table_of(tmp_path, fold=fold)
    assert "GRAMA: 2 won, 0 tied, 0 lost of 2 pairs." in table


@pytest.mark.parametrize("changes", [{"suite": "hetero"}, {"budget": "smoke"}, {"test": None}])
def test_what_is_no_full_pair_is_not_run(tmp_path, changes):
    ((_, _, with_it, backbone, alone, gain, _, paper),) = rows(table_of(tmp_path, **changes))
    assert (with_it, backbone, alone, gain, paper) == (
        *("not run", "-", "not run", "not run"),
        "98.33",
    )


def test_table_is_replaced_between_its_markers():
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    renewed = renew_table(text, [], PAIRS)
    assert renewed == f"before\n{BEGIN}\n{build_readme_table([], PAIRS)}\n{END}\nafter\n"
    assert renew_table(renewed, [], PAIRS) == renewed


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}"])
def test_a_text_without_markers_is_refused(text):
    with pytest.raises(ValueError, match="Expected the lines"):
        renew_table(text, [], PAIRS)
