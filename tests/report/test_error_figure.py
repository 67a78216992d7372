from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.report.error_table import ErrorRow, ErrorTable, draw_errors, spread
from torch_grama.report.held_results import RunResult

RUN = RunResult(0.1, 0.1, 0, 0, 0, 10, 1.0, "bench", Path("run/result.json"))


def row(label, *errors, trivial=False):
    by_distance = dict(zip((3, 5, 8), errors, strict=False))
    return ErrorRow(label, by_distance, {} if trivial else dict.fromkeys(by_distance, (RUN,)))


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws and returns the axes."""
    from matplotlib.figure import Figure

    kept = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: (kept.append(f), save(f, *a, **k)))

    def draw(*rows, emphasize=""):
        draw_errors(ErrorTable((3, 5, 8), rows), tmp_path / "picture.png", "Title", emphasize)
        (axes,) = kept[-1].axes
        return axes

    return draw


def test_every_row_has_a_line_and_a_label(drawn, tmp_path):
    axes = drawn(
        row("constant", 0.08, 0.08, 0.08, trivial=True),
        row("GCN", 0.01, 0.05, 0.08),
        row("GRAMA", 1e-5, 1e-4),
        emphasize="GRAMA",
    )
    assert axes.get_yscale() == "log"
    assert [line.get_xydata().tolist() for line in axes.lines][2] == [[3, 1e-5], [5, 1e-4]]
    texts = {text.get_text(): text for text in axes.texts}
    assert set(texts) == {"constant", "GCN", "GRAMA"}
    assert texts["GRAMA"].get_fontweight() == "bold"
    colours = [line.get_color() for line in axes.lines]
    assert len(set(colours)) == 3
    assert texts["GCN"].get_color() == colours[1]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_reference_that_lies_on_another_is_drawn_once(drawn):
    axes = drawn(
        row("constant", 0.08, 0.08, 0.08, trivial=True),
        row("degree table", 0.08, 0.08, 0.08 + 1e-15, trivial=True),
        row("copy", 0.16, 0.16, 0.16, trivial=True),
    )
    assert [text.get_text() for text in axes.texts] == ["constant", "copy"]


def test_labels_stay_inside_and_apart(drawn):
    axes = drawn(*(row(f"model {i}", 0.08, 0.08, 0.08) for i in range(8)))
    figure = axes.figure
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    width, height = figure.get_size_inches() * figure.dpi
    assert all(box.x1 <= width and box.y0 >= 0 and box.y1 <= height for box in boxes)
    ordered = sorted(boxes, key=lambda box: box.y0)
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(ordered))


@given(st.lists(st.floats(0, 1), max_size=8))
def test_spread_keeps_order_and_gap(heights):
    moved = spread(heights, 0.1)
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    assert all(moved[b] - moved[a] >= 0.1 - 1e-9 for a, b in pairwise(order))
    assert all(height <= 1 + 1e-9 for height in moved)


def test_spread_leaves_what_is_apart():
    assert spread([0.9, 0.1, 0.5], 0.1) == [0.9, 0.1, 0.5]
