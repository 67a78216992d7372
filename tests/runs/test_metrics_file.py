"""The table of a run is whole whenever it is read."""

import math

from torch_grama.runs.metrics_file import MetricsFile, read_metrics


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "metrics.csv"
    table = MetricsFile(path, ["epoch", "step", "loss"], [[0, 5, 0.1]])
    table.add([1, 10, math.nan])
    table.add([2, 15, 1 / 3])
    table.flush()
    table.close()
    rows = read_metrics(path)
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert rows[1]["loss"] == ""
    assert float(rows[2]["loss"]) == 1 / 3


def test_a_row_that_is_being_written_is_left_out(tmp_path):
    path = tmp_path / "metrics.csv"
    assert read_metrics(path) == []
    path.write_text("epoch,loss\n0,0.5\n1")
    assert read_metrics(path) == [{"epoch": "0", "loss": "0.5"}]
    path.write_text("")
    assert read_metrics(path) == []
