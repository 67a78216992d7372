import io

import pytest

from torch_grama.reproduce.demo_runs import count_epochs, epochs_done, progress_board
from torch_grama.reproduce.reproduction import PlannedRun


class Terminal(io.StringIO):
    def isatty(self):
        return True


def write_epochs(run: PlannedRun, count: int, finished: bool = False) -> None:
    run.folder.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{epoch},0.5\n" for epoch in range(count))
    (run.folder / "metrics.csv").write_text(f"epoch,val/mse\n{rows}")
    (run.folder / "config.yaml").write_text("seed: 0\n")
    if finished:
        (run.folder / "result.json").write_text("{}")


@pytest.fixture
def runs(tmp_path):
    settings = {"trainer.max_epochs": 4}
    return [
        PlannedRun(data, model, 0, 0, tmp_path / data / model, settings)
        for model in ("gcn", "grama")
        for data in ("near", "far")
    ]


def test_epochs_are_read_from_the_folder(runs):
    assert epochs_done(runs[0]) == 0
    write_epochs(runs[0], 3)
    assert (epochs_done(runs[0]), count_epochs(runs[0])) == (3, 4)


def test_bars_follow_the_folders(runs):
    stream = Terminal()
    with progress_board(runs, stream, str.upper, interval=0.01):
        write_epochs(runs[0], 2, finished=True)  # stopped early: counts in full
        write_epochs(runs[1], 1)
        write_epochs(runs[2], 4, finished=True)
        write_epochs(runs[3], 4, finished=True)
    text = stream.getvalue()
    last = text[text.rindex("GCN") :]
    assert "5/8 epochs  far" in last
    assert "8/8 epochs  done" in last


def test_nothing_is_printed_elsewhere(runs):
    stream = io.StringIO()
    with progress_board(runs, stream):
        write_epochs(runs[0], 1)
    assert stream.getvalue() == ""


def test_an_error_passes_through(runs):
    with pytest.raises(KeyError), progress_board(runs, Terminal()):
        raise KeyError
