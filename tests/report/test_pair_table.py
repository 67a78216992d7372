import csv
import io

import pytest

from torch_grama.report.held_results import HeldNumber, RunResult
from torch_grama.report.pair_table import pair_up, summarize, to_csv, to_markdown, to_text


def _held(model, tests, metric="accuracy", first=0):
    runs = tuple(
        RunResult(0.5, test, seed=0, fold=fold, epochs=10, parameters=100, seconds=5.0)
        for fold, test in enumerate(tests, start=first)
    )
    return HeldNumber("pairs", "full", "cora", model, metric, runs)


def _line(alone, with_grama, metric="accuracy"):
    held = [_held("gcn", alone, metric), _held("grama-gcn", with_grama, metric)]
    return pair_up({"cora": (metric, [("gcn", "grama-gcn")])}, held)[0]


@pytest.mark.parametrize(
    ("metric", "alone", "with_grama", "verdict"),
    [
        ("accuracy", [0.5, 0.6, 0.7], [0.6, 0.71, 0.8], "win"),
        ("mae", [0.5, 0.6, 0.7], [0.6, 0.71, 0.8], "loss"),
        ("mae", [0.5, 0.6], [0.4, 0.5], "win"),
        ("accuracy", [0.5, 0.6, 0.7], [0.6, 0.5, 0.71], "tie"),
        ("accuracy", [0.5], [0.9], "tie"),  # one run has no standard error
        ("accuracy", [0.5, 0.5], [0.5, 0.5], "tie"),
    ],
)
def test_a_verdict_is_a_gain_beyond_one_standard_error(metric, alone, with_grama, verdict):
    assert _line(alone, with_grama, metric).verdict == verdict


def test_the_error_is_that_of_paired_differences():
    # scores that vary much while their differences hardly do
    line = _line([0.1, 0.5, 0.9], [0.11, 0.52, 0.91])
    assert line.gains == pytest.approx([1.0, 2.0, 1.0])
    assert line.error == pytest.approx(0.5774 / 3**0.5, rel=1e-3)


def test_runs_of_one_side_alone_do_not_count():
    held = [_held("gcn", [0.1, 0.9]), _held("grama-gcn", [0.8], first=1)]
    (line,) = pair_up({"cora": ("accuracy", [("gcn", "grama-gcn")])}, held)
    assert [(alone.fold, with_it.fold) for alone, with_it in line.runs] == [(1, 1)]
    held = [_held("gcn", [0.1, 0.9]), _held("grama-gcn", [None, 0.8])]
    assert len(pair_up({"cora": ("accuracy", [("gcn", "grama-gcn")])}, held)[0].runs) == 1


def test_what_was_not_run_says_so():
    pairs = {"cora": ("accuracy", [("gcn", "grama-gcn"), ("gps", "grama-gps")])}
    lines = pair_up(pairs, [_held("gcn", [0.5, 0.5]), _held("grama-gcn", [0.6, 0.7])])
    assert [line.verdict for line in lines] == ["win", "not run"]
    assert summarize(lines) == "GRAMA: 1 won, 0 tied, 0 lost of 1 pair; 1 not run."
    for text in (to_text(lines), to_markdown(lines)):
        assert "not run" in text
        assert "+15.00 ± 5.00" in text
        assert "0.5 / 0.5" in text  # seconds per epoch
    rows = list(csv.DictReader(io.StringIO(to_csv(lines))))
    assert [float(row["gain"]) for row in rows] == pytest.approx([0.1, 0.2])


def test_columns_that_do_not_fit_the_width_are_left_out_and_named():
    lines = [_line([0.5, 0.5], [0.6, 0.7])]
    text = to_text(lines, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "+15.00 ± 5.00" in text
    assert text.endswith("\nLeft out to fit the width: parameters, s per epoch.\n")
    assert "Left out" not in to_text(lines)


@pytest.mark.parametrize(("metric", "sign"), [("accuracy", 1), ("mae", -1)])
def test_a_gain_in_csv_has_the_unit_of_the_scores_beside_it(metric, sign):
    rows = csv.DictReader(io.StringIO(to_csv([_line([0.5, 0.5], [0.6, 0.7], metric)])))
    for row in rows:
        difference = float(row["with_grama"]) - float(row["alone"])
        assert float(row["gain"]) == pytest.approx(sign * difference)
