import csv
import io

import pytest
from result_files import write_result

from torch_grama.report.comparison import Column, compare
from torch_grama.report.comparison_formats import FORMATS
from torch_grama.report.comparison_text import (
    describe_ours,
    to_csv,
    to_latex,
    to_markdown,
    to_text,
)
from torch_grama.report.held_results import HeldNumber, gather
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.paper_numbers import read_paper_numbers

COLUMNS = (
    Column("minesweeper", "roc_auc"),
    Column("questions", "roc_auc", absent="data not here"),
)


@pytest.fixture
def comparison(tmp_path):
    for fold, test in enumerate((0.981, 0.985)):
        write_result(tmp_path, model="grama-gcn", fold=fold, test=test)
    write_result(tmp_path, model="gcn", test=0.5, budget="smoke")
    write_result(tmp_path, model="mine_own", test=0.6)
    write_result(tmp_path, suite="other", model="gat", test=0.99)
    held, _ = gather([tmp_path])
    constant = HeldNumber("hetero", "", "minesweeper", "constant", "roc_auc", held[0].runs)
    return compare(
        "hetero",
        "Heterophilic graphs",
        COLUMNS,
        read_paper_numbers("hetero"),
        held,
        models=["tuned-gcn"],
        references={"constant": {"minesweeper": constant}},
        notes=["A note."],
    )


def row_of(comparison, model):
    return next(row for row in comparison.rows if row.model == model)


def test_rows_keep_the_order_of_the_paper_and_end_with_ours(comparison):
    labels = [row.label for row in comparison.rows]
    assert labels[0] == "GCN"
    assert labels[-2:] == ["tuned-gcn", "mine_own"]


def test_ours_stands_beside_the_paper(comparison):
    cell = row_of(comparison, "grama-gcn").cells[0]
    assert cell.ours.mean == pytest.approx(98.3)
    assert cell.paper.mean == 95.27
    assert cell.difference == pytest.approx(98.3 - 95.27)
    assert comparison.best_of_ours(0) == pytest.approx(98.3)
    assert comparison.best_of_paper(0) == 98.33


def test_nothing_is_filled_in(comparison):
    gat = row_of(comparison, "gat").cells
    assert gat[0].ours is None  # run in another suite only
    assert gat[0].absent == "not run"
    assert gat[1].absent == "data not here"
    assert row_of(comparison, "tuned-gcn").cells[0].paper is None
    assert comparison.best_of_ours(1) is None


def test_markdown(comparison):
    lines = to_markdown(comparison).splitlines()
    grama = next(line for line in lines if line.startswith("| GRAMA (GCN)"))
    assert "**98.30 ± 0.28 (2 runs, paper)**" in grama
    assert "95.27 ± 0.71" in grama
    assert "+3.03" in grama
    assert "data not here" in grama
    assert len({line.count(" | ") for line in lines if line.startswith("| ")}) == 1
    assert lines[-1] == "A note."


def test_latex_escapes_what_latex_reads(comparison):
    text = to_latex(comparison)
    assert r"mine\_own" in text
    assert r"CO-GNN($\mu$, $\mu$)" in text
    assert r"$\pm$" in text
    groups, *body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert groups.count("&") == 2
    assert all(line.count("&") == 6 for line in body)
    assert r"\cmidrule(lr){2-4} \cmidrule(lr){5-7}" in text
    assert text.startswith("% Heterophilic graphs\n% A note.\n")
    assert text.count(r"\midrule") == 2  # trivial predictors stand apart


def test_latex_has_minus_signs_but_keeps_hyphens():
    paper = read_paper_numbers("property")
    columns = [Column("property-sssp", "log10_mse")]
    text = to_latex(compare("property", "A $5 {test} of a^b~c\\d", columns, paper, []))
    assert r"$-$4.1289 $\pm$ 0.0988" in text
    assert "A-DGN &" in text
    assert "property-sssp log10 MSE" in text


def test_latex_escapes_every_special_character(tmp_path):
    write_result(tmp_path, model="a$b{c}d^e~f%g#h&i\\j")
    held, _ = gather([tmp_path])
    text = to_latex(compare("hetero", "T", COLUMNS[:1], [], held))
    assert r"a\$b\{c\}d\textasciicircum{}e\textasciitilde{}f\%g\#h\&i\textbackslash{}j &" in text


def test_csv_holds_every_cell(comparison):
    rows = list(csv.DictReader(io.StringIO(to_csv(comparison))))
    assert len(rows) == 2 * (len(comparison.rows) + 1)
    found = next(r for r in rows if (r["model"], r["data"]) == ("grama-gcn", "minesweeper"))
    assert float(found["mean"]) == pytest.approx(98.3)
    assert (found["runs"], found["budget"], found["paper_mean"]) == ("2", "paper", "95.27")
    missing = next(r for r in rows if (r["model"], r["data"]) == ("gat", "minesweeper"))
    assert (missing["mean"], missing["absent"]) == ("", "not run")


def test_plain_text_lines_up(comparison):
    lines = to_text(comparison).splitlines()
    assert "constant" in to_text(comparison)
    rule = next(line for line in lines if line.startswith("---"))
    assert all(len(line) <= len(rule) for line in lines[2 : 4 + len(comparison.rows)])
    assert any("*98.30" in line for line in lines)


def test_formats_by_word(comparison):
    assert sorted(FORMATS) == ["csv", "html", "latex", "markdown", "text"]
    assert all(form(comparison) for form in FORMATS.values())


def test_errors_print_small_numbers_in_scientific_form(tmp_path):
    write_result(
        tmp_path, "transfer", data="transfer-ring-50", model="gcn", metric="mse", test=0.00123456
    )
    held, _ = gather([tmp_path])
    table = compare(
        "transfer", "Transfer", [Column("transfer-ring-50", "mse")],
        read_paper_numbers("transfer"), held,
    )  # fmt: skip
    assert "1.23e-03 (1 run, paper)" in to_markdown(table)
    assert "-0.0253" in to_markdown(table)


def test_fewer_runs_than_the_budget_asks_for_are_counted(comparison):
    few = Column("minesweeper", "roc_auc", runs={"paper": 10, "smoke": 1})
    ours, smoke = (row_of(comparison, model).cells[0] for model in ("grama-gcn", "gcn"))
    assert describe_ours(ours, few) == "98.30 ± 0.28 (2 of 10 runs, paper)"
    assert describe_ours(smoke, few) == "50.00 (1 run, smoke)"
    assert describe_ours(ours, COLUMNS[0]) == "98.30 ± 0.28 (2 runs, paper)"


def test_a_deviation_is_printed_like_its_mean():
    scale = scale_of("mse")
    assert scale.text_of_deviation(0.008, 1.114) == "0.0080"
    assert scale.text_of_deviation(0.00002, 1.114) == "2.00e-05"  # 0.0000 would say none
    assert scale.text_of_deviation(0.008, 0.0012) == "8.00e-03"
    assert scale_of("roc_auc").text_of_deviation(0.5, 98.3) == "0.50"
    assert scale.text_with_deviation(1.114, 0.008) == "1.1140 ± 0.0080"
    assert scale.text_with_deviation(1.114, None) == "1.1140"


def test_validation_alone_is_never_the_best(tmp_path):
    write_result(tmp_path, model="gcn", test=None)
    held, _ = gather([tmp_path])
    table = compare("hetero", "T", COLUMNS[:1], [], held)
    assert "validation" in to_text(table)
    assert "*validation" not in to_text(table)


def test_a_metric_that_names_its_column_is_not_said_twice():
    assert Column("training", "training_ms").heading == "training ms"
    assert Column("minesweeper", "roc_auc").heading == "minesweeper AUC"


def test_a_narrow_terminal_gets_one_block_after_the_other(comparison):
    wide, narrow = to_text(comparison), to_text(comparison, width=80)
    assert max(map(len, narrow.splitlines())) <= 80 < max(map(len, wide.splitlines()))
    assert narrow.count("GRAMA (GatedGCN)") == 2
    words = [line.split() for line in narrow.splitlines()]
    for line in wide.splitlines()[2:]:
        model, *cells = line.split("  ")
        assert all(any(w in text for text in words) for cell in cells for w in cell.split()), model
    assert to_text(comparison, width=10).count("GRAMA (GatedGCN)") == 2
    assert to_text(comparison, width=500) == wide


def test_numbers_of_an_older_version_have_a_mark_that_is_explained(tmp_path):
    for model in ("grama-gcn", "gcn"):
        write_result(tmp_path, model=model, versions={"torch_grama": "0.1.0"})
    held, _ = gather([tmp_path])
    table = compare("hetero", "T", COLUMNS[:1], read_paper_numbers("hetero"), held, notes=["One."])
    assert table.notes[0] == "One."
    assert table.notes[1].startswith("† made by version 0.1.0;")
    ours = {row.model: describe_ours(row.cells[0], COLUMNS[0]) for row in table.rows}
    assert ours["grama-gcn"] == "80.00 † (1 run, paper)"
    assert ours["gcn"] == "80.00 (1 run, paper)"
    assert "80.00 $^\\dagger$" in to_latex(table)
    lines = csv.DictReader(io.StringIO(to_csv(table)))
    assert {line["version"] for line in lines if line["mean"]} == {"0.1.0"}
