from result_files import write_result

from torch_grama.report.comparison import Column
from torch_grama.report.held_results import HeldNumber, RunResult, gather
from torch_grama.report.paper_numbers import read_paper_numbers
from torch_grama.report.suite_table import build_table

MINES = Column("minesweeper", "roc_auc")


def models(table):
    return [row.model for row in table.rows]


def test_rows_are_those_of_the_paper_then_ours(tmp_path):
    write_result(tmp_path, model="our-own")
    write_result(tmp_path, suite="lrgb", model="elsewhere")
    held, _ = gather([tmp_path])
    table = build_table("hetero", "Title", [MINES], ["hetero"], held, ["wanted"])
    paper = [n.model for n in read_paper_numbers("hetero") if n.data == "minesweeper"]
    assert models(table) == [*dict.fromkeys(paper), "wanted", "our-own"]
    assert table.rows[-1].cells[0].ours.mean == 80
    assert table.rows[-2].cells[0].absent == "not run"


def test_only_the_wanted_rows_are_shown(tmp_path):
    write_result(tmp_path, model="our-own")
    write_result(tmp_path, model="gcn")
    held, _ = gather([tmp_path])
    table = build_table("hetero", "Title", [MINES], ["hetero"], held, only=["gcn"])
    assert models(table) == ["gcn"]


def test_a_summary_takes_each_column_from_its_suite(tmp_path):
    write_result(tmp_path, suite="hetero", model="gcn", test=0.8)
    write_result(tmp_path, suite="hetero-extended", model="gcn", test=0.3)
    held, _ = gather([tmp_path])
    sources = {"minesweeper": "hetero"}
    table = build_table("summary", "Title", [MINES], ["hetero"], held, sources=sources)
    cell = next(row for row in table.rows if row.model == "gcn").cells[0]
    assert cell.ours.mean == 80
    without = build_table("summary", "Title", [MINES], ["hetero"], held)
    assert all(row.cells[0].ours is None for row in without.rows)


def test_a_summary_keeps_the_order_of_its_rows(tmp_path):
    order = ["grama-gps", "gcn", "gatedgcn"]
    sources = {"minesweeper": "hetero"}
    table = build_table(
        "summary", "Title", [MINES], ["hetero"], [], order, sources=sources, only=order
    )
    assert models(table) == order


def test_runtime_has_its_metrics_as_columns(tmp_path):
    run = RunResult(7.0, 7.0, 0, 0, 0, 0, 0.0, "bench", tmp_path)
    printed = next(n for n in read_paper_numbers("runtime") if n.metric == "training_ms")
    ours = HeldNumber("runtime", "bench", "training", printed.model, "training_ms", (run,))
    columns = [Column("training", "training_ms"), Column("inference", "inference_ms")]
    table = build_table("runtime", "Times", columns, ["runtime"], [ours])
    row = next(row for row in table.rows if row.model == printed.model)
    assert row.cells[0].paper.mean == printed.mean
    assert row.cells[0].difference == 7.0 - printed.mean
    assert row.cells[1].ours is None
