"""Figures and tables of the page: their numbers against the files they come from."""

import json
import math

import pytest
from run_folders import make_analysis, write_run

from torch_grama.report.dynamics_figures import (
    dynamics_figures,
    example_picture,
    influence_figures,
    reach_rows,
    smoothness_figure,
)
from torch_grama.report.figure_parts import number, scale_for
from torch_grama.report.held_results import read_paper_numbers
from torch_grama.report.learning_figures import error_figures, learning_figures
from torch_grama.report.page_cards import (
    MEANINGS,
    block_rows,
    compare_runs,
    setting_rows,
    summarize_run,
)
from torch_grama.runs.run_files import read_run_files


@pytest.fixture
def run(tmp_path):
    return read_run_files(write_run(tmp_path / "run"))


def with_analysis(tmp_path, **changes):
    folder = write_run(tmp_path / "changed")
    (folder / "analysis.json").write_text(json.dumps(make_analysis() | changes))
    return read_run_files(folder)


def test_curves_count_epochs_from_one_and_shares_in_percent(run):
    losses, metric = learning_figures([run])
    training, validation = losses.data
    assert training["x"] == list(range(1, 11))
    assert training["y"][1] == pytest.approx(0.5)
    assert validation["y"][0] == pytest.approx(1.2)
    curve, kept = metric.data
    assert curve["y"][0] == pytest.approx(50)
    assert (kept["x"], kept["y"]) == ([10], [pytest.approx(86)])
    assert "higher is better" in metric.title


def test_poles_come_epoch_by_epoch_and_then_of_the_best_weights(run):
    figure, _, _ = dynamics_figures(run, "0")
    labels = [label for label, _ in figure.views]
    assert labels == [*(f"epoch {i}" for i in range(1, 11)), "best weights, every graph"]
    _, (first, _) = figure.views[0]
    assert first["x"] == pytest.approx([0.8 * math.cos(0.1)] * 2, abs=1e-3)
    assert first["y"] == pytest.approx([0.8 * math.sin(0.1), -0.8 * math.sin(0.1)], abs=1e-3)
    circle = figure.data[0]
    assert all(
        math.hypot(x, y) == pytest.approx(1, abs=1e-3)
        for x, y in zip(circle["x"], circle["y"], strict=True)
    )


def test_poles_need_no_log_and_no_analysis(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "coefficients.jsonl").unlink()
    figure, _, _ = dynamics_figures(read_run_files(folder), "0")
    assert (figure.views, figure.control) == ((), "")
    assert len(figure.data) == 3
    (folder / "analysis.json").unlink()
    assert dynamics_figures(read_run_files(folder), "0") == []


def test_heat_maps_over_blocks_graphs_and_training(run):
    _, figure, _ = dynamics_figures(run, "0")
    labels = [label for label, _ in figure.views]
    assert labels == [
        "all blocks, mean over graphs",
        "block 1, graph by graph",
        "block 2, graph by graph",
        "block 1, over training",
        "block 2, over training",
    ]
    (means,) = figure.data
    assert means["x"] == ["φ₁", "φ₂", "θ₁", "θ₂"]
    assert means["z"][0] == pytest.approx([0.55, 0.45, 0.45, 0.55])
    # zero is in the middle of the colours
    assert means["bounds"][0] == -means["bounds"][1]


def test_impulse_responses_have_their_mean_within_their_span(run):
    _, _, figure = dynamics_figures(run, "0")
    band, mean = figure.data[:2]
    assert mean["y"] == pytest.approx([1, 1.0, 0.8])
    assert (band["y"], band["top"]) == ([1, 0.8, 0.7], [1, 1.2, 0.9])
    assert "never forgets" in figure.words


def test_influence_is_a_share_of_all(run):
    total, one = influence_figures([run])
    assert [trace["name"] for trace in total.data] == ["this run (grama)", "gcn"]
    assert sum(total.data[0]["y"]) == pytest.approx(1, abs=1e-3)
    ratios = [b / a for a, b in zip(total.data[1]["y"], total.data[1]["y"][1:], strict=False)]
    assert ratios == pytest.approx([0.1] * 4, rel=1e-2)
    assert one.data[0]["y"][0] == pytest.approx(total.data[0]["y"][0] / 2, rel=1e-3)


def test_influence_that_is_zero_has_no_point_on_a_logarithmic_axis(tmp_path):
    entry = make_analysis()["influence"]["model"] | {"total": [1.0, 0.0, 0.5]}
    run = with_analysis(tmp_path, influence={"model": entry})
    total, _ = influence_figures([run])
    assert total.data[0]["y"][1] is None
    assert influence_figures([with_analysis(tmp_path, influence={})]) == []


def test_reach_is_printed_with_its_error(run):
    rows = reach_rows([run, run])
    assert [model for model, *_ in rows] == ["run", "run: gcn", "run", "run: gcn"]
    assert rows[0][1:] == (0.9, "0.9 ± 0.05", "32 sampled nodes per graph")


def test_smoothness_follows_the_recurrence(run):
    figure = smoothness_figure([run])
    assert figure.data[0]["y"] == [0.9, 0.5, 0.4]
    assert figure.data[0]["text"][1] == "block 1, step 1"
    assert "from 0.9 to 0.4" in figure.words


def test_errors_of_every_kind(run):
    confusion, against, labels, distance = error_figures(run, "0")
    assert confusion.data[0]["z"] == [[80, 20], [10, 90]]
    assert confusion.data[0]["y"] == ["free", "mine"]
    assert against.data[0]["x"] == [0.0, 1.0]
    assert [trace["name"] for trace in labels.data] == ["found", "missed", "false alarm"]
    assert (distance.data[0]["x"], distance.data[0]["y"]) == ([0, 2], [0.1, 0.3])
    assert error_figures(run, "0", many=True)[0].title == "run: confusion matrix"


def test_the_example_is_handed_on_as_it_is(run):
    picture = example_picture(run)
    assert picture["nodes"] == ["4", "5", "6", "7"]
    assert picture["spread"][0][1] == [1, 0.1, 0, 0]


def test_nodes_have_the_names_of_the_data_and_edges_to_nowhere_are_left_out(tmp_path):
    names, edges = ["ann", "bob", "cleo", "dan"], [[0, 1], [0, 77], [1, -1], ["a", 2], [2]]
    example = make_analysis()["example"] | {"names": names, "edges": edges}
    picture = example_picture(with_analysis(tmp_path, example=example))
    assert (picture["nodes"], picture["edges"]) == (names, [[0, 1]])


@pytest.mark.parametrize(
    "change",
    [
        {"sources": [0, 1, 2, 9]},
        {"sources": [0]},
        {"positions": [[0, 0]]},
        {"positions": [[0, None]] * 4},
        {"labels": ["one"]},
        {"nodes": [1]},
        {"spread": [[[1, 2]]]},
    ],
)
def test_an_example_that_does_not_fit_is_left_out(tmp_path, change):
    run = with_analysis(tmp_path, example=make_analysis()["example"] | change)
    assert example_picture(run) is None


def test_a_card_says_the_numbers_that_matter(run):
    card = summarize_run(run)
    assert (card.headline, card.caption) == ("90.00 %", "test AUC")
    facts = {name: value for name, value, _ in card.facts}
    assert all(meaning for _, _, meaning in card.facts)
    assert facts["validation AUC"] == "91.00 %"
    assert facts["best epoch"] == "10 of 10"
    assert facts["parameters"] == "12,345"
    assert facts["time"] == "1 min 15 s"
    assert facts["influence range"] == "0.9 ± 0.05 hops"
    assert card.verdicts[0].startswith("Still improving at the end")
    assert card.verdicts[-1].startswith("States grow")


def test_a_card_of_a_run_under_way(tmp_path):
    card = summarize_run(read_run_files(write_run(tmp_path / "run", finished=False)))
    assert card.state == "unfinished"
    assert (card.headline, card.caption) == ("86.00 %", "validation AUC")
    assert ("epochs so far", "10 of at most 20") in [fact[:2] for fact in card.facts]


def test_instability_is_said(tmp_path):
    blocks = make_analysis()["blocks"]
    blocks[0] = blocks[0] | {"stable": [True, False], "closed_loop": None}
    blocks[1] = blocks[1] | {"closed_loop": {"radius": [0.9]}}
    card = summarize_run(with_analysis(tmp_path, blocks=blocks))
    assert card.verdicts[-1].startswith("States stay bounded")
    assert "the coefficients of 1 of 2 blocks are unstable" in card.verdicts[-1]


def test_the_table_of_blocks_has_the_worst_of_all_graphs(run):
    first, _ = block_rows(run)
    assert set(first) - {"block", "backbone"} == set(MEANINGS)
    assert list(first.values()) == [
        *("block 1", "GCNConv", "1"),
        "0",  # rounding is no instability
        *("yes", "yes", "unbounded", "1.4", "1.1"),
    ]


def test_runs_stand_among_the_numbers_of_the_paper(tmp_path):
    runs = [
        read_run_files(
            write_run(tmp_path / f"run{i}", test=0.9 + i / 100, val=0.9 - i / 100, seed=i)
        )
        for i in range(2)
    ]
    (table,) = compare_runs(runs)
    values = [row.value for row in table.rows if row.value is not None]
    assert values == sorted(values, reverse=True)
    printed = {cell.row for cell in read_paper_numbers("hetero") if cell.data == "minesweeper"}
    assert printed <= {row.model for row in table.rows if not row.is_ours}
    (mean,) = [row for row in table.rows if row.source == "mean of 2 runs here"]
    assert (mean.value, mean.text) == (pytest.approx(90.5), "90.50")
    # the test value of the run that is best on validation, not the best test value
    better = sum(cell.value < 90 for cell in table.rows if not cell.is_ours and cell.value)
    assert f"ahead of {better} of the" in table.sentence


def test_data_with_options_is_compared_neither_with_the_paper_nor_with_data_without(tmp_path):
    runs = [write_run(tmp_path / name) for name in "abc"]
    for folder in runs[1:]:
        text = (folder / "config.yaml").read_text()
        changed = text.replace("  fold: 0", "  fold: 0\n  options: {variant: carry}")
        (folder / "config.yaml").write_text(changed)
    plain, other = compare_runs([read_run_files(folder) for folder in runs])
    assert (plain.data, other.data) == ("minesweeper", "minesweeper (variant carry)")
    assert [row.source for row in plain.rows if row.is_ours] == ["a"]
    assert {row.source for row in other.rows} == {"b", "c", "mean of 2 runs here"}


def test_own_data_is_not_compared_with_the_paper(tmp_path):
    runs = [read_run_files(write_run(tmp_path / name, data="mine")) for name in ("a", "b")]
    assert compare_runs(runs[:1]) == []  # nothing to compare with
    unfinished = read_run_files(write_run(tmp_path / "run", finished=False))
    assert compare_runs([unfinished]) == []
    (table,) = compare_runs(runs)
    assert {row.source for row in table.rows} == {"a", "b", "mean of 2 runs here"}
    assert (table.sentence, table.origin) == ("", "")
    (table,) = compare_runs([read_run_files(write_run(tmp_path / "other", test=None))])
    assert "read its test part" in table.sentence


@pytest.mark.parametrize(
    ("before", "after", "means"),
    [("seed: 3", "seed: 4", 1), ("fold: 0", "fold: 1", 1), ("max_epochs: 20", "max_epochs: 2", 0)],
)
def test_a_mean_is_over_runs_that_differ_in_seed_and_fold_alone(tmp_path, before, after, means):
    folders = [write_run(tmp_path / name) for name in "ab"]
    text = (folders[1] / "config.yaml").read_text()
    (folders[1] / "config.yaml").write_text(text.replace(before, after))
    (table,) = compare_runs([read_run_files(folder) for folder in folders])
    assert sum(row.source.startswith("mean of") for row in table.rows) == means


def test_settings_that_differ_come_first(tmp_path):
    folders = [write_run(tmp_path / name) for name in "ab"]
    text = (folders[1] / "config.yaml").read_text()
    (folders[1] / "config.yaml").write_text(text.replace("seed: 3", "seed: 4\nextra: 1"))
    rows = setting_rows([read_run_files(folder) for folder in folders], "settings")
    assert {name: values for name, values, differs in rows if differs} == {
        "seed": ["3", "4"],
        "extra": ["", "1"],
    }
    assert [differs for _, _, differs in rows[:3]] == [True, True, False]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.12345, "0.123"), (1e-7, "1.00e-07"), (12345.0, "12,345")],
)
def test_numbers_for_people(value, text):
    assert number(value) == text


def test_only_a_wide_span_of_positive_values_is_logarithmic():
    assert scale_for([1e-4, 1.0])["log"]
    assert not any(scale_for(values)["log"] for values in ([0.5, 1.0], [0.0, 1.0], []))
