"""What the screen says while a sweep runs."""

import io
import math

import pytest

from torch_grama.search.sweep_result import SweepProgress, SweepReporter, build_sweep_reporter
from torch_grama.search.trial import Failure, TrialOutcome

GOOD = TrialOutcome("lr=0.1-aa", {"lr": 0.1}, "finished", {}, 0.75, 9)
STOPPED = TrialOutcome("lr=0.2-bb", {"lr": 0.2}, "stopped", {}, 0.5, 3)
FAILED = TrialOutcome(
    "lr=9-cc", {"lr": 9}, "failed", {}, math.nan, 0, Failure("out of memory", "[bold]too[/] much")
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("draw", [False, True])
def test_every_trial_is_told_with_the_best_so_far(draw):
    stream = Terminal()
    reporter = SweepProgress(stream, draw)
    reporter.note("before")
    reporter.begin(4, 1, "three are left")
    reporter.running("lr=0.1-aa", 0.5, 0.6)
    reporter.running("lr=0.1-aa", 0.7, math.nan)
    reporter.settled(GOOD, 0.75)
    reporter.settled(STOPPED, 0.75)
    reporter.settled(FAILED, math.nan)
    reporter.note("lr=0.1-aa: its worker died")
    reporter.end()
    text = stream.getvalue()
    for words in (
        *("before", "three are left", "lr=0.1-aa: val 0.7500", "best 0.7500"),
        *("stopped after epoch 3", "failed, out of memory: [bold]too[/] much", "its worker died"),
    ):
        assert words in text


def test_plain_lines_count_those_of_earlier_sessions():
    stream = io.StringIO()
    reporter = SweepProgress(stream)
    reporter.begin(4, 2, "two are left")
    reporter.settled(GOOD, 0.75)
    reporter.settled(STOPPED, 0.75)
    lines = stream.getvalue().splitlines()
    assert [line.partition(" ")[0] for line in lines[1:]] == ["3/4", "4/4"]
    assert lines[-1].endswith("0 s left")


def test_reporters_by_word(capsys):
    assert isinstance(build_sweep_reporter("rich"), SweepProgress)
    own = SweepReporter()
    assert build_sweep_reporter(own) is own
    for reporter in (own, build_sweep_reporter("quiet")):
        reporter.begin(1, 0, "x")
        reporter.running("a", 0.1, 0.2)
        reporter.settled(GOOD, 0.1)
        reporter.note("x")
        reporter.end()
    assert capsys.readouterr() == ("", "")
    build_sweep_reporter("auto").note("x")
    assert capsys.readouterr().err == "x\n"
