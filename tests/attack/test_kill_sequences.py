"""A run that is killed and resumed ends as one that was not, to the last bit."""

import random
import signal

import pytest
from damage import Tally
from killed_runs import CASES, LONG_CASES, assert_same_answer, read_answer, run_in_process


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory):
    """The answers of runs that nobody disturbed, made when first asked for."""
    answers = {}

    def get(case):
        if case not in answers:
            folder = tmp_path_factory.mktemp(case)
            assert run_in_process(case, folder) == 0
            answers[case] = read_answer(folder)
        return answers[case]

    return get


def resume_until_done(case, folder, moments, send=signal.SIGKILL):
    """Runs a case that is killed at each of the moments, then to its end."""
    for moment in moments:
        code = run_in_process(case, folder, moment, send)
        if code == 0:  # it ended before that moment
            break
        assert code in (-send, 128 + send)
    else:
        assert run_in_process(case, folder) == 0
    return read_answer(folder)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["graphs-cosine", "graphs-onecycle", "subgraphs"])
def test_killed_run_resumes_to_the_same_bits(case, tmp_path, whole_runs):
    whole = whole_runs(case)
    draw = random.Random(case)
    moments = [draw.randrange(whole["events"] // 2) for _ in range(2)]
    assert_same_answer(resume_until_done(case, tmp_path, moments), whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "send"), [("graphs-seldom", signal.SIGTERM), ("nodes-plateau", signal.SIGINT)]
)
def test_signal_saves_and_resumes_to_the_same_bits(case, send, tmp_path, whole_runs):
    whole = whole_runs(case)
    moment = whole["events"] // 3
    assert run_in_process(case, tmp_path, moment, send) == 128 + send
    assert_same_answer(resume_until_done(case, tmp_path, []), whole)
    # it went on from where the signal came, not from the start
    assert read_answer(tmp_path)["events"] < 0.9 * whole["events"]


@pytest.mark.long
@pytest.mark.parametrize("case", [*CASES, *LONG_CASES])
def test_twenty_kills(case, tmp_path, whole_runs):
    whole = whole_runs(case)
    draw, tally = random.Random(case), Tally(f"kills of {case}")
    for number in range(20):
        moments = [draw.randrange(whole["events"]) for _ in range(1 + number % 3)]
        with tally.one(f"{case} at {moments}"):
            answer = resume_until_done(case, tmp_path / str(number), moments)
            assert_same_answer(answer, whole)
    tally.close()
