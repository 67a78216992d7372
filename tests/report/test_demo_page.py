from html.parser import HTMLParser
from pathlib import Path

import pytest

from torch_grama.report.error_table import DemoText, ErrorRow, ErrorTable, build_demo_page
from torch_grama.report.held_results import RunResult

RUN = RunResult(0.1, 0.1, 0, 0, 6, 12345, 7.0, "bench", Path("runs/<odd>/result.json"))
TABLE = ErrorTable(
    (3, 8),
    (
        ErrorRow("constant", {3: 0.08, 8: 0.09}, {}),
        ErrorRow("GCN & co", {3: 0.02}, {3: (RUN,)}),
    ),
)
TEXT = DemoText(
    "A <title>",
    "A lead.",
    "A $finding.",
    "Mind.",
    "Grey.",
    {"width": "32"},
    ("grama a", "b"),
    "End.",
)


class Reader(HTMLParser):
    """Cells of tables, and whatever points elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.cells, self.links = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        self.links += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


@pytest.fixture
def page(tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG picture")
    return build_demo_page(TABLE, picture, TEXT, Path("runs"))


def test_page_is_whole_and_asks_for_nothing(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert len(reader.links) == 1
    assert reader.links[0].startswith("data:image/png;base64,")


def test_page_has_errors_settings_and_runs(page):
    reader = Reader()
    reader.feed(page)
    assert reader.cells[:9] == [
        *("model", "3 hops", "8 hops"),
        *("constant", "0.08", "0.09"),
        *("GCN & co", "0.02", "-"),
    ]
    assert reader.cells[-6:] == ["GCN & co", "3", "12,345", "7", "7", "<odd>"]
    assert "width" in reader.cells


def test_text_is_escaped(page):
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "A $finding." in page
    assert "grama a\nb" in page
