import csv
import io
from dataclasses import replace

import pytest
from html_reader import Reader
from result_files import write_result

from torch_grama.report.comparison import (
    Column,
    compare,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
    to_text,
)
from torch_grama.report.held_results import (
    HeldNumber,
    RunResult,
    gather,
    read_paper_numbers,
    scale_of,
)

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
    write_result(tmp_path, model="<b>mine", test=0.6)
    write_result(tmp_path, suite="other", model="gat", test=0.99)
    held, _ = gather([tmp_path])
    return compare(
        "hetero",
        "Heterophilic graphs",
        COLUMNS,
        ["hetero"],
        held,
        models=["tuned-gcn"],
        references={"constant": {"minesweeper": 0.5}},
        notes=["A note."],
    )


def row_of(comparison, model):
    return next(row for row in comparison.rows if row.model == model)


def test_ours_stands_beside_the_paper(comparison):
    cell = row_of(comparison, "grama-gcn").cells[0]
    assert cell.ours.mean == pytest.approx(98.3)
    assert cell.paper.mean == 95.27
    assert cell.difference == pytest.approx(98.3 - 95.27)
    assert comparison.best(0, "ours") == pytest.approx(98.3)
    assert comparison.best(0, "paper") == 98.33


def test_nothing_is_filled_in(comparison):
    gat = row_of(comparison, "gat").cells
    assert gat[0].ours is None  # run in another suite only
    assert gat[0].absent == "not run"
    assert gat[1].absent == "data not here"
    assert row_of(comparison, "tuned-gcn").cells[0].paper is None
    assert comparison.best(1, "ours") is None


def test_markdown(comparison):
    lines = to_markdown(comparison).splitlines()
    grama = next(line for line in lines if line.startswith("| GRAMA (GCN)"))
    assert "**98.30 ± 0.28 (2 runs, full)**" in grama
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


def test_latex_has_minus_signs_keeps_hyphens_and_escapes_all_that_is_special(tmp_path):
    columns = [Column("property-sssp", "log10_mse")]
    text = to_latex(compare("property", "T", columns, ["property"], []))
    for words in (r"$-$4.1289 $\pm$ 0.0988", "A-DGN &", "property-sssp log10 MSE"):
        assert words in text
    write_result(tmp_path, model="a$b{c}d^e~f%g#h&i\\j")
    held, _ = gather([tmp_path])
    text = to_latex(compare("hetero", "T", COLUMNS[:1], [], held))
    assert r"a\$b\{c\}d\textasciicircum{}e\textasciitilde{}f\%g\#h\&i\textbackslash{}j &" in text


def test_csv_holds_every_cell(comparison):
    rows = list(csv.DictReader(io.StringIO(to_csv(comparison))))
    assert len(rows) == 2 * (len(comparison.rows) + 1)
    found = next(r for r in rows if (r["model"], r["data"]) == ("grama-gcn", "minesweeper"))
    assert float(found["mean"]) == pytest.approx(98.3)
    assert (found["runs"], found["budget"], found["paper_mean"]) == ("2", "full", "95.27")
    missing = next(r for r in rows if (r["model"], r["data"]) == ("gat", "minesweeper"))
    assert (missing["mean"], missing["absent"]) == ("", "not run")
    constant = [(r["mean"], r["absent"]) for r in rows if r["model"] == "constant"]
    assert constant == [("50.0", ""), ("", "data not here")]


def test_plain_text_lines_up(comparison):
    lines = to_text(comparison).splitlines()
    assert "constant" in to_text(comparison)
    rule = next(line for line in lines if line.startswith("---"))
    assert all(len(line) <= len(rule) for line in lines[2 : 4 + len(comparison.rows)])
    assert any("*98.30" in line for line in lines)


def test_errors_print_small_numbers_in_scientific_form(tmp_path):
    write_result(
        tmp_path, "transfer", data="transfer-ring-50", model="gcn", metric="mse", test=0.00123456
    )
    held, _ = gather([tmp_path])
    columns = [Column("transfer-ring-50", "mse")]
    table = compare("transfer", "Transfer", columns, ["transfer"], held)
    assert "1.23e-03 (1 run, full)" in to_markdown(table)
    assert "-0.0253" in to_markdown(table)


def test_fewer_runs_than_the_budget_asks_for_are_counted(comparison):
    few = Column("minesweeper", "roc_auc", runs={"full": 10, "smoke": 1})
    ours, smoke = (row_of(comparison, model).cells[0] for model in ("grama-gcn", "gcn"))
    assert replace(ours, column=few).our_text == "98.30 ± 0.28 (2 of 10 runs, full)"
    assert replace(smoke, column=few).our_text == "50.00 (1 run, smoke)"
    assert ours.our_text == "98.30 ± 0.28 (2 runs, full)"


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
    table = compare("hetero", "T", COLUMNS[:1], ["hetero"], held, notes=["One."])
    assert table.notes[0] == "One."
    assert table.notes[1].startswith("† made by version 0.1.0;")
    ours = {row.model: row.cells[0].our_text for row in table.rows}
    assert ours["grama-gcn"] == "80.00 † (1 run, full)"
    assert ours["gcn"] == "80.00 (1 run, full)"
    assert "80.00 $^\\dagger$" in to_latex(table)
    lines = csv.DictReader(io.StringIO(to_csv(table)))
    assert {line["version"] for line in lines if line["mean"]} == {"0.1.0"}


@pytest.fixture
def page(comparison):
    return to_html(replace(comparison, title="Title & more", notes=("1 < 2 & so `on`.",)))


def test_the_page_has_the_layout_of_the_paper(page):
    groups, kinds, *rows = Reader(page).rows
    assert [text for text, _ in groups] == ["Model", "minesweeper AUC ↑", "questions AUC ↑"]
    assert [text for text, _ in kinds] == ["ours", "paper", "difference"] * 2
    assert all(len(row) == 7 for row in rows)
    ours = next(row for row in rows if row[0][0] == "GRAMA (GCN)")
    assert ours[1] == ["98.30 ± 0.28 (2 runs, full)", "ours best"]
    assert ours[2][0] == "95.27 ± 0.71"
    assert ours[3][0] == "+3.03"
    assert ours[4] == ["data not here", "ours absent"]
    assert "1,000 parameters, test bench" in page


def test_the_page_stands_alone_and_trusts_no_name(page):
    assert Reader(page).links == []
    assert "<b>mine" not in page
    assert "&lt;b&gt;mine" in page
    assert "1 &lt; 2 &amp; so <code>on</code>." in page
    assert "<title>Title &amp; more</title>" in page


def models(table):
    return [row.model for row in table.rows]


def test_rows_are_those_of_the_paper_then_ours_or_only_the_wanted(tmp_path):
    write_result(tmp_path, model="our-own")
    write_result(tmp_path, suite="lrgb", model="elsewhere")
    held, _ = gather([tmp_path])
    table = compare("hetero", "Title", COLUMNS[:1], ["hetero"], held, ["wanted"])
    paper = [n.model for n in read_paper_numbers("hetero") if n.data == "minesweeper"]
    assert models(table) == [*dict.fromkeys(paper), "wanted", "our-own"]
    assert table.rows[-1].cells[0].ours.mean == 80
    assert table.rows[-2].cells[0].absent == "not run"
    table = compare("hetero", "Title", COLUMNS[:1], ["hetero"], held, only=["gcn"])
    assert models(table) == ["gcn"]


def test_a_summary_takes_each_column_from_its_suite_and_keeps_the_order_of_its_rows(tmp_path):
    write_result(tmp_path, suite="hetero", model="gcn", test=0.8)
    write_result(tmp_path, suite="hetero-extended", model="gcn", test=0.3)
    held, _ = gather([tmp_path])
    order, call = ["grama-gps", "gcn", "gatedgcn"], ("summary", "T", COLUMNS[:1], ["hetero"], held)
    table = compare(*call, order, sources={"minesweeper": "hetero"}, only=order)
    assert models(table) == order
    assert table.rows[1].cells[0].ours.mean == 80
    assert all(row.cells[0].ours is None for row in compare(*call).rows)


def test_runtime_has_its_metrics_as_columns(tmp_path):
    run = RunResult(7.0, 7.0, 0, 0, 0, 0, 0.0, "bench", tmp_path)
    printed = next(n for n in read_paper_numbers("runtime") if n.metric == "training_ms")
    ours = HeldNumber("runtime", "bench", "training", printed.model, "training_ms", (run,))
    columns = [Column("training", "training_ms"), Column("inference", "inference_ms")]
    table = compare("runtime", "Times", columns, ["runtime"], [ours])
    row = next(row for row in table.rows if row.model == printed.model)
    assert row.cells[0].paper.mean == printed.mean
    assert row.cells[0].difference == 7.0 - printed.mean
    assert row.cells[1].ours is None
