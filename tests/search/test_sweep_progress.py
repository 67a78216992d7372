"""What the screen says while a sweep runs."""

import io
import math

import pytest

from torch_grama.search.sweep_result import SweepReporter
from torch_grama.search.trial import Failure, TrialOutcome

GOOD = TrialOutcome("lr=0.1-aa", {"lr": 0.1}, "finished", {}, 0.75, 9)
STOPPED = TrialOutcome("lr=0.2-bb", {"lr": 0.2}, "stopped", {}, 0.5, 3)
FAILED = TrialOutcome(
    "lr=9-cc", {"lr": 9}, "failed", {}, math.nan, 0, Failure("out of memory", "[bold]too[/] much")
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("report", ["plain", "rich", "auto", "quiet"])
def test_every_trial_is_told_with_the_best_so_far(report, capsys):
    stream = Terminal()
    reporter = SweepReporter(report, stream)
    reporter.note("before")
    reporter.begin(5, 2, "three are left")
    reporter.running("lr=0.1-aa", 0.5, 0.6)
    reporter.running("lr=0.1-aa", 0.7, math.nan)
    reporter.settled(GOOD, 0.75)
    reporter.settled(STOPPED, 0.75)
    reporter.settled(FAILED, math.nan)
    reporter.note("lr=0.1-aa: its worker died")
    reporter.end()
    text = stream.getvalue()
    assert capsys.readouterr() == ("", "")
    for words in (
        *("before", "three are left", "3/5  lr=0.1-aa: val 0.7500", "best 0.7500", "0.0 s left"),
        *("stopped after epoch 3", "failed, out of memory: [bold]too[/] much", "its worker died"),
    ):
        assert (words in text) == (report != "quiet")
