"""What the user sees."""

import contextlib
import io

import pytest

from torch_grama.training import EpochReport, FitStart
from torch_grama.training.progress import PlainReporter, RichReporter, build_reporter

START = FitStart("cora", "GRAMA", 12_345, 500_000, "cpu", 0, 10)


def report(epoch, value=0.75):
    return EpochReport(epoch, 10, 0.5, "accuracy", value, 0.8, 2, 61.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(stream, word="auto"):
    """Tells a reporter of a run, and returns it."""
    with contextlib.redirect_stderr(stream):
        reporter = build_reporter(word)
        reporter.note("before")
        reporter.begin(START)
        for epoch in range(1, 11):
            reporter.epoch(report(epoch))
        reporter.note("by the [way]")
        reporter.end()
    return reporter


def test_lines_say_what_matters():
    assert str(START) == ("cora: GRAMA, 12,345 parameters of 500,000, on cpu")
    assert str(report(3)) == (
        "epoch 3/10  1 min 01 s left  loss 0.5000  val accuracy 0.7500  best 0.8000 at 2"
    )
    resumed = FitStart("cora", "GRAMA", 5, None, "cpu", 7, 10)
    assert str(resumed).endswith("5 parameters, on cpu, after epoch 7")
    early = EpochReport(1, 10, 0.5, "accuracy", None, float("nan"), 0, 0.0)
    assert "val accuracy -" in str(early)
    assert "best" not in str(early)


def test_plain_lines_come_now_and_then_and_at_the_end():
    stream = io.StringIO()
    assert isinstance(show(stream), PlainReporter)
    lines = stream.getvalue().splitlines()
    assert lines == ["before", str(START), str(report(1)), "by the [way]", str(report(10))]


def test_a_terminal_gets_a_bar():
    stream = Terminal()
    reporter = show(stream)
    assert isinstance(reporter, RichReporter)
    reporter.end()
    reporter.epoch(report(10))
    text = stream.getvalue()
    for piece in ("before", str(START), "10/10", "best 0.8000 at 2", "by the [way]"):
        assert piece in text


@pytest.mark.parametrize(("word", "said"), [("quiet", "before\nby the [way]\n"), ("json", "")])
def test_quiet_says_notes_alone_and_json_nothing(word, said):
    stream = io.StringIO()
    show(stream, word)
    assert stream.getvalue() == said


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match=r"'plain', .*got 'plane'"):
        build_reporter("plane")
