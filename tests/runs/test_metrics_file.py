"""The table of a run is whole whenever it is read."""

import math

from torch_grama.runs.metrics_file import MetricsFile, read_metrics


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "metrics.csv"
    table = MetricsFile(path, ["epoch", "step", "loss"], [[1, 5, 0.1]])
    table.add([2, 10, math.nan])
    table.add([3, 15, 1 / 3])
    table.flush()
    table.close()
    rows = read_metrics(path)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert rows[1]["loss"] == ""
    assert float(rows[2]["loss"]) == 1 / 3


def test_a_row_that_is_being_written_is_left_out(tmp_path):
    path = tmp_path / "metrics.csv"
    assert read_metrics(path) == []
    path.write_text("epoch,loss\n1,0.5\n2")
    assert read_metrics(path) == [{"epoch": "1", "loss": "0.5"}]
    path.write_text("")
    assert read_metrics(path) == []


def test_a_table_of_old_is_read_with_epochs_from_one(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,loss\n0,0.5\n1,0.4\n")
    assert [row["epoch"] for row in read_metrics(path)] == ["1", "2"]
