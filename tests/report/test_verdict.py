"""What a run is said to be: better than nothing, ended early or not, overfitting or not."""

import pytest
from run_folders import write_run

from torch_grama.report.verdict import judge_run, judge_stability
from torch_grama.runs.run_files import read_run_files
from torch_grama.runs.safe_files import Record


def verdict(folder, losses=(), **result):
    """Of a run with these training and validation losses, AUC 0.9 on test."""
    write_run(folder, analysis=False, **result)
    rows = ["epoch,train/loss,val/loss,val/roc_auc"]
    rows += [f"{n},{a},{b},0.5" for n, (a, b) in enumerate(losses, start=1)]
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    return judge_run(read_run_files(folder))


def test_three_lines(tmp_path):
    lines = verdict(
        tmp_path / "run",
        [(1.0, 1.1), (0.5, 0.6), (0.4, 0.5)],
        trivial={"constant": 0.5},
        stop_reason="max_epochs",
        best_epoch=4,
        epochs=10,
        first_epoch=1,
    )
    assert lines == [
        "Better than the trivial answer (constant) by 40.0 points: test AUC 90.00 against 50.00.",
        "Trained for all 10 epochs; epoch 4 was the best, so more would hardly help.",
        "No overfitting: the loss ended at 0.5 on validation and 0.4 in training.",
    ]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"trivial": {"constant": 0.9}}, "No better than the trivial answer"),
        ({"trivial": {"constant": 0.2, "copy": 0.8}}, "(repeating the input) by 10.0 points"),
        ({"metric": "mae", "test": 1.0, "trivial": {"constant": 4.0}}, "by 75 % of the error"),
        ({"metric": "mae", "test": 5.0, "trivial": {"constant": 4.0}}, "No better than"),
        (
            {"metric": "log10_mse", "test": -0.5, "trivial": {"constant": 0.5}},
            "by 90 % of the error",
        ),
        ({"stop_reason": "patience"}, "Stopped early after epoch 10: validation AUC had not"),
        ({"stop_reason": "min_lr"}, "the learning rate had reached its minimum"),
        ({"stop_reason": "max_epochs"}, "Still improving at the end: epoch 10 of 10"),
        ({"best_epoch": 22, "epochs": 25}, "Still improving at the end: epoch 23 of 25"),
    ],
)
def test_each_case_has_its_words(tmp_path, result, words):
    assert words in " ".join(verdict(tmp_path / "run", **result))


@pytest.mark.parametrize(
    ("losses", "start"),
    [
        (
            [(1.0, 1.0), (0.5, 0.6), (0.1, 0.9)],
            "Overfitting later on: validation loss rose",
        ),
        ([(1.0, 0.6), (0.5, 0.6), (0.1, 0.6)], "Some overfitting"),
        ([(1.0, 1.0), (0.9, 0.95)], "No overfitting"),
        # dropout keeps the training loss above
        ([(1.0, 0.5), (0.6, 0.2), (0.5, 0.3)], "No overfitting"),
        ([(1.0, 0.9), (1e26, 3e26)], "Training diverged: the training loss rose from 1 to 1e+26"),
        ([(4e26, 3e26), (1e26, 2e26)], "Training diverged: the training loss ended at 1e+26"),
        ([(1.0, "")], None),
    ],
)
def test_overfitting_is_told_from_the_losses(tmp_path, losses, start):
    last = verdict(tmp_path / "run", losses)[-1]
    assert last.startswith(start) if start else "overfitting" not in last.lower()


def test_a_best_epoch_that_was_the_last_to_be_validated_is_at_the_end(tmp_path):
    end = {"first_epoch": 1, "best_epoch": 6, "stop_reason": "max_epochs"}
    assert "would hardly help" in " ".join(verdict(tmp_path / "run", epochs=8, **end))
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("trainer:", "trainer:\n  check_val_every: 3"))
    lines = judge_run(read_run_files(tmp_path / "run"))
    assert "Still improving at the end: epoch 6 of 8 was the best" in " ".join(lines)


def test_an_unfinished_run_has_no_verdict(tmp_path):
    assert judge_run(read_run_files(write_run(tmp_path / "run", finished=False))) == []


@pytest.mark.parametrize(
    ("stable", "radius", "sentence"),
    [
        ([True], 1.36, "States grow: one step with the backbone changes them by a factor of up to "
         "1.36, although the coefficients of all blocks are stable by themselves."),
        ([True], 0.9, "States stay bounded: one step with the backbone changes them by a factor of "
         "up to 0.9, and the coefficients of all blocks are stable by themselves."),
        ([False, True], 1.5, "1.5, and the coefficients of 1 of 2 blocks are unstable"),
        ([False, True], 1.0, "although the coefficients of 1 of 2 blocks are unstable"),
        ([True], None, "Without the backbone, the coefficients of all blocks are stable."),
    ],
)  # fmt: skip
def test_one_sentence_on_stability(stable, radius, sentence):
    # two graphs, of which each block may be stable on one alone
    blocks = [
        {"block": number, "stable": [True, one], "closed_loop": {"radius": [radius]}}
        for number, one in enumerate(stable)
    ]
    (said,) = judge_stability(Record({"blocks": blocks}))
    assert sentence in said
    assert said.count(".") - said.count("1.") - said.count("0.") <= 1
