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
    renew_table,
)

PROJECT = Path(__file__).parents[2]


def rows(table: str) -> list[list[str]]:
    """The cells of each line below the head."""
    return [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_readme_is_up_to_date():
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    held, faults = gather([PROJECT / "src" / "torch_grama" / "results"])
    assert faults == []
    assert renew_table(text, held) == text, "run `grama results --readme README.md`"


def table_of(folder: Path, scores: dict[str, float], **changes: object) -> str:
    """The table of one result a model, which has its score on validation and on test."""
    for model, score in scores.items():
        write_result(folder, model=model, **{"val": score, "test": score, **changes})
    return build_readme_table(gather([folder])[0])


def test_validation_chooses_the_variant_and_the_other_model(tmp_path):
    for model, val, test in (
        ("grama-gcn", 0.90, 0.99),
        ("grama-gatedgcn", 0.95, 0.96),
        ("gcn", 0.80, 0.93),
        ("gat", 0.85, 0.81),
    ):
        table = table_of(tmp_path, {model: val}, test=test)
    ((data, metric, ours, variant, other, paper),) = rows(table)
    assert (data, metric, ours, variant) == ("minesweeper", "AUC ↑", "96.00", "grama-gatedgcn")
    assert other == "81.00 (gat)"
    assert paper == "98.33"  # the highest of the paper's GRAMA rows


ERRORS = {"suite": "temporal", "data": "chickenpox", "metric": "mse"}


def test_lower_is_better_for_errors(tmp_path):
    table = table_of(tmp_path, {"grama-gcn": 0.02, "grama-gps": 0.001}, **ERRORS)
    ((_, metric, ours, variant, other, *_),) = rows(table)
    assert (metric, ours, variant, other) == ("MSE ↓", "1.00e-03", "grama-gps", "not run")


@pytest.mark.parametrize("changes", [{}, ERRORS], ids=["scores", "errors"])
@pytest.mark.parametrize(("ours", "other"), [(0.1, 0.2), (0.2, 0.1)])
def test_where_grama_is_behind_is_said(tmp_path, changes, ours, other):
    table = table_of(tmp_path, {"grama-gcn": ours, "gcn": other}, **changes)
    sentence = f"GRAMA is behind the best other model on: {changes.get('data', 'minesweeper')}."
    is_behind = ours > other if changes else ours < other
    assert (sentence in table) == is_behind


def test_backbones_ahead_of_grama_around_them_are_named(tmp_path):
    scores = {
        "grama-gcn": 0.90,
        "gcn": 0.80,
        "tuned-gcn": 0.91,
        "grama-gatedgcn": 0.95,
        "gatedgcn": 0.96,
        "gps": 0.99,  # GRAMA around it was not run
    }
    last = table_of(tmp_path, scores).splitlines()[-1]
    expected = "A backbone alone is ahead of GRAMA around it on: minesweeper (gatedgcn, tuned-gcn)."
    assert last == expected


def test_no_backbone_is_named_where_none_is_ahead(tmp_path):
    assert "alone" not in table_of(tmp_path, {"grama-gcn": 0.9, "gcn": 0.8, "tuned-gcn": 0.9})


def test_rows_are_in_the_order_of_their_numbers(tmp_path):
    names = ["transfer-line-3", "transfer-line-10", "transfer-line-50", "transfer-ring-3"]
    for data in reversed(names):
        table = table_of(tmp_path, {"grama-gcn": 0.1}, **ERRORS | {"data": data})
    assert [data for data, *_ in rows(table)] == names


@pytest.mark.parametrize(
    "changes", [{"suite": "ablation-depth"}, {"budget": "smoke"}, {"test": None}]
)
def test_ablations_small_budgets_and_validation_alone_are_left_out(tmp_path, changes):
    assert table_of(tmp_path, {"grama-gcn": 0.9}, **changes) == NOTHING


def test_the_deviation_is_stated(tmp_path):
    for fold, test in enumerate((0.7, 0.9)):
        table = table_of(tmp_path, {"grama-gcn": test}, fold=fold)
    assert rows(table)[0][2] == "80.00 ± 14.14"


def test_table_is_replaced_between_its_markers():
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    renewed = renew_table(text, [])
    assert renewed == f"before\n{BEGIN}\n{NOTHING}\n{END}\nafter\n"
    assert renew_table(renewed, []) == renewed


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}"])
def test_a_text_without_markers_is_refused(text):
    with pytest.raises(ValueError, match="Expected the lines"):
        renew_table(text, [])


def test_numbers_of_an_older_version_have_a_mark(tmp_path):
    old = {"versions": {"torch_grama": "0.1.0"}}
    table = table_of(tmp_path, {"grama-gcn": 0.8, "gcn": 0.8}, **old)
    assert "| 80.00 † | grama-gcn | 80.00 (gcn) |" in table
    assert "\n† made by version 0.1.0; the model has changed since" in table
