from pathlib import Path

import pytest
from html_reader import Reader
from result_files import write_result

from torch_grama.report.error_table import (
    ErrorRow,
    ErrorTable,
    build_demo_page,
    build_error_table,
    format_error,
    format_error_table,
)
from torch_grama.report.held_results import RunResult, gather

DISTANCES = {"far": 12, "near": 3}
LABELS = {"gcn": "GCN", "grama-gcn": "GRAMA(GCN)"}


@pytest.fixture
def held(tmp_path):
    for data, model, seed, error in (
        ("near", "gcn", 0, 0.02),
        ("near", "gcn", 1, 0.04),
        ("far", "gcn", 0, 0.08),
        ("near", "grama-gcn", 0, 0.0001),
        ("far", "grama-gcn", 0, 0.004),
        ("elsewhere", "gcn", 0, 1.0),
        ("near", "unknown", 0, 1.0),
    ):
        write_result(tmp_path, "demo", "short", data, model, 0, seed, metric="mse", test=error)
    return gather([tmp_path])[0]


def test_rows_are_in_order_and_columns_from_near_to_far(held):
    table = build_error_table(held, DISTANCES, LABELS, {"constant": {"near": 0.1, "far": 0.09}})
    assert table.distances == (3, 12)
    assert [row.label for row in table.rows] == ["constant", "GCN", "GRAMA(GCN)"]
    assert [row.label for row in table.references] == ["constant"]
    assert [row.label for row in table.models] == ["GCN", "GRAMA(GCN)"]
    assert table.models[0].errors == {3: pytest.approx(0.03), 12: 0.08}
    assert [table.is_best(row, 3) for row in table.rows] == [False, False, True]
    assert table.ratio("GCN", "GRAMA(GCN)", 12) == pytest.approx(20)


def test_only_the_wanted_seeds_count(held):
    table = build_error_table(held, DISTANCES, LABELS, {}, [0])
    assert table.models[0].errors[3] == 0.02
    table = build_error_table(held, DISTANCES, LABELS, {}, [1])
    assert [row.label for row in table.rows] == ["GCN"]
    assert table.models[0].errors == {3: 0.04}
    assert table.ratio("GCN", "GRAMA(GCN)", 3) is None
    assert not table.is_best(table.rows[0], 12)


def test_text_stars_the_lowest_and_dashes_the_missing(held):
    table = build_error_table(held, DISTANCES, LABELS, {"constant": {"near": 0.1}})
    lines = format_error_table(table).splitlines()
    assert lines[0].split()[3:] == ["3", "hops", "12", "hops"]
    assert lines[2].split() == ["constant", "0.1", "-"]
    assert lines[3].split() == ["GCN", "0.03", "0.08"]
    assert lines[4].split() == ["GRAMA(GCN)", "*1.0e-04", "*0.004"]
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [(None, "-"), (0.08333, "0.0833"), (0.001, "0.001"), (0.00099, "9.9e-04"), (12.0, "12")],
)
def test_errors_are_short(error, text):
    assert format_error(error) == text


RUN = RunResult(0.1, 0.1, 0, 0, 6, 12345, 7.0, "bench", Path("runs/<odd>/result.json"))
TABLE = ErrorTable(
    (3, 8),
    (
        ErrorRow("constant", {3: 0.08, 8: 0.09}, {}),
        ErrorRow("GCN & co", {3: 0.02}, {3: (RUN,)}),
    ),
)


@pytest.fixture
def page(tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG picture")
    words = "A $finding.", "<Mind>", {"width": "32"}
    return build_demo_page(TABLE, picture, Path("runs"), *words, "7 s & more")


def test_page_is_whole_and_asks_for_nothing(page):
    reader = Reader(page)
    assert reader.open == []
    assert len(reader.links) == 1
    assert reader.links[0].startswith("data:image/png;base64,")


def test_page_has_errors_settings_and_runs(page):
    rows = [[text for text, _ in row] for row in Reader(page).rows]
    assert rows[:3] == [
        ["model", "3 hops", "8 hops"],
        ["constant", "0.08", "0.09"],
        ["GCN & co", "0.02", "-"],
    ]
    assert ["width", "32"] in rows
    assert rows[-1] == ["GCN & co", "3", "12,345", "6", "7", "<odd>"]


def test_text_is_escaped(page):
    assert "A $finding.</strong> &lt;Mind&gt;</p>" in page
    assert "7 s &amp; more" in page
