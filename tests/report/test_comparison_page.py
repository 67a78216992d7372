"""The comparison as a page."""

from html.parser import HTMLParser

import pytest
from result_files import write_result

from torch_grama.report.comparison import Column, compare
from torch_grama.report.comparison_page import to_html
from torch_grama.report.held_results import gather
from torch_grama.report.paper_numbers import read_paper_numbers


class Cells(HTMLParser):
    """Reads rows of (text, class) and all attributes that could fetch something."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.links, self._kind = [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._kind = dict(attrs).get("class", "")
            self.rows[-1].append(["", self._kind])
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._kind = None

    def handle_data(self, data):
        if self._kind is not None:
            self.rows[-1][-1][0] += data


@pytest.fixture
def page(tmp_path):
    for fold, test in enumerate((0.981, 0.985)):
        write_result(tmp_path, model="grama-gcn", fold=fold, test=test)
    write_result(tmp_path, model="<b>mine", test=0.6)
    held, _ = gather([tmp_path])
    columns = [Column("minesweeper", "roc_auc"), Column("questions", "roc_auc", "data not here")]
    paper = read_paper_numbers("hetero")
    notes = ["1 < 2 & so `on`."]
    return to_html(compare("hetero", "Title & more", columns, paper, held, notes=notes))


def test_the_page_has_the_layout_of_the_paper(page):
    groups, kinds, *rows = Cells(page).rows
    assert [text for text, _ in groups] == ["Model", "minesweeper AUC ↑", "questions AUC ↑"]
    assert [text for text, _ in kinds] == ["ours", "paper", "difference"] * 2
    assert all(len(row) == 7 for row in rows)
    ours = next(row for row in rows if row[0][0] == "GRAMA (GCN)")
    assert ours[1] == ["98.30 ± 0.28 (2 runs, paper)", "ours best"]
    assert ours[2][0] == "95.27 ± 0.71"
    assert ours[3][0] == "+3.03"
    assert ours[4] == ["data not here", "ours absent"]
    assert "1,000 parameters, test bench" in page


def test_the_page_stands_alone_and_trusts_no_name(page):
    assert Cells(page).links == []
    assert "<b>mine" not in page
    assert "&lt;b&gt;mine" in page
    assert "1 &lt; 2 &amp; so <code>on</code>." in page
    assert "<title>Title &amp; more</title>" in page
