"""The table in the README is what the kept result files say."""

from pathlib import Path

import pytest
from result_files import write_result

from torch_grama.report.held_results import gather
from torch_grama.report.readme_table import (
    BEGIN,
    END,
    NOTHING,
    build_readme_table,
    replace_table,
)

PROJECT = Path(__file__).parents[2]


def rows(table: str) -> list[list[str]]:
    """The cells of each line below the head."""
    return [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_readme_is_up_to_date():
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    held, faults = gather([PROJECT / "results"])
    assert faults == []
    renewed = replace_table(text, build_readme_table(held))
    assert renewed == text, "run `grama results --readme README.md`"


def test_validation_chooses_the_variant_and_the_other_model(tmp_path):
    for model, val, test in (
        ("grama-gcn", 0.90, 0.99),
        ("grama-gatedgcn", 0.95, 0.96),
        ("gcn", 0.80, 0.93),
        ("gat", 0.85, 0.81),
    ):
        write_result(tmp_path, model=model, val=val, test=test)
    held, _ = gather([tmp_path])
    ((data, metric, ours, variant, other, paper, runs, hardware),) = rows(build_readme_table(held))
    assert (data, metric, ours, variant) == ("minesweeper", "AUC ↑", "96.00", "grama-gatedgcn")
    assert other == "81.00 (gat)"
    assert paper == "98.33"  # the highest of the paper's GRAMA rows
    assert (runs, hardware) == ("1", "test bench")


def test_lower_is_better_for_errors(tmp_path):
    for model, error in (("grama-gcn", 0.02), ("grama-gps", 0.001)):
        write_result(
            tmp_path,
            suite="transfer",
            data="transfer-line-3",
            model=model,
            metric="mse",
            val=error,
            test=error,
        )
    held, _ = gather([tmp_path])
    ((_, metric, ours, variant, other, *_),) = rows(build_readme_table(held))
    assert (metric, ours, variant, other) == ("MSE ↓", "1.00e-03", "grama-gps", "not run")


@pytest.mark.parametrize(
    ("metric", "data", "suite", "ours", "other", "is_behind"),
    [
        ("roc_auc", "minesweeper", "hetero", 0.9, 0.91, True),
        ("roc_auc", "minesweeper", "hetero", 0.91, 0.9, False),
        ("mse", "transfer-line-3", "transfer", 0.2, 0.1, True),
        ("mse", "transfer-line-3", "transfer", 0.1, 0.2, False),
    ],
)
def test_where_grama_is_behind_is_said(tmp_path, metric, data, suite, ours, other, is_behind):
    for model, score in (("grama-gcn", ours), ("gcn", other)):
        write_result(
            tmp_path, suite=suite, data=data, model=model, metric=metric, val=score, test=score
        )
    held, _ = gather([tmp_path])
    sentence = f"GRAMA is behind the best other model on: {data}."
    assert (sentence in build_readme_table(held)) == is_behind


def test_backbones_ahead_of_grama_around_them_are_named(tmp_path):
    for model, score in (
        ("grama-gcn", 0.90),
        ("gcn", 0.80),
        ("tuned-gcn", 0.91),
        ("grama-gatedgcn", 0.95),
        ("gatedgcn", 0.96),
        ("gps", 0.99),  # GRAMA around it was not run
    ):
        write_result(tmp_path, model=model, val=score, test=score)
    held, _ = gather([tmp_path])
    last = build_readme_table(held).splitlines()[-1]
    expected = "A backbone alone is ahead of GRAMA around it on: minesweeper (gatedgcn, tuned-gcn)."
    assert last == expected


def test_no_backbone_is_named_where_none_is_ahead(tmp_path):
    for model, score in (("grama-gcn", 0.90), ("gcn", 0.80), ("tuned-gcn", 0.90)):
        write_result(tmp_path, model=model, val=score, test=score)
    held, _ = gather([tmp_path])
    assert "alone" not in build_readme_table(held)


def test_rows_are_in_the_order_of_their_numbers(tmp_path):
    names = ["transfer-line-3", "transfer-line-10", "transfer-line-50", "transfer-ring-3"]
    for data in reversed(names):
        write_result(tmp_path, suite="transfer", data=data, model="grama-gcn", metric="mse")
    held, _ = gather([tmp_path])
    assert [data for data, *_ in rows(build_readme_table(held))] == names


def test_ablations_are_left_out(tmp_path):
    write_result(tmp_path, suite="ablation-depth", model="grama-gcn-l4s2")
    held, _ = gather([tmp_path])
    assert build_readme_table(held) == NOTHING


def test_only_the_wanted_budget_counts(tmp_path):
    write_result(tmp_path, budget="smoke")
    held, _ = gather([tmp_path])
    assert build_readme_table(held) == NOTHING
    assert len(rows(build_readme_table(held, "smoke"))) == 1


def test_a_number_without_a_test_value_is_none(tmp_path):
    write_result(tmp_path, model="grama-gcn", test=None)
    held, _ = gather([tmp_path])
    assert build_readme_table(held) == NOTHING


def test_deviation_and_runs_are_stated(tmp_path):
    for fold, test in enumerate((0.7, 0.9)):
        write_result(tmp_path, model="grama-gcn", fold=fold, test=test)
    held, _ = gather([tmp_path])
    ((_, _, ours, *_, runs, _),) = rows(build_readme_table(held))
    assert (ours, runs) == ("80.00 ± 14.14", "2")


def test_table_is_replaced_between_its_markers():
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    renewed = replace_table(text, "| new |")
    assert renewed == f"before\n{BEGIN}\n| new |\n{END}\nafter\n"
    assert replace_table(renewed, "| new |") == renewed


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}"])
def test_a_text_without_markers_is_refused(text):
    with pytest.raises(ValueError, match="Expected the lines"):
        replace_table(text, "table")


def test_numbers_of_an_older_version_have_a_mark(tmp_path):
    for model in ("grama-gcn", "gcn"):
        write_result(tmp_path, model=model, versions={"torch_grama": "0.1.0"})
    held, _ = gather([tmp_path])
    table = build_readme_table(held)
    assert "| 80.00 † | grama-gcn | 80.00 (gcn) |" in table
    assert "\n† made by version 0.1.0; the model has changed since" in table
