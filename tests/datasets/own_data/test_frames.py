"""Frames of pandas and Parquet files: the same data as the CSV files they could be."""

import sys

import pytest
import torch

from torch_grama.datasets import DatasetError, from_frames, load_path

pandas = pytest.importorskip("pandas")


def frames():
    nodes = pandas.DataFrame(
        {
            "ID": range(100, 112),
            "age": [30, None, 50, *range(9)],
            "size": range(12),
            "job": ["nurse", None, "pilot"] * 4,
            "member": [True, False] * 6,
            "joined": pandas.to_datetime(["2024-01-31", None, "2020-02-29"] * 4),
            "label": pandas.Categorical(["a", "b"] * 6),
            "split": ["train"] * 6 + ["val"] * 3 + ["test"] * 3,
        }
    )
    edges = pandas.DataFrame({"from": [100, 101], "to": [102, 103], "weight": [0.5, 1.5]})
    return nodes, edges


def same(one, other):
    assert one.feature_names == other.feature_names
    assert one.class_names == other.class_names
    assert one.node_names == other.node_names
    assert one.form == other.form
    assert one.graphs[0].keys() == other.graphs[0].keys()
    for key, value in one.graphs[0].to_dict().items():
        assert torch.equal(value, other.graphs[0][key])
    for part, twin in zip(one.folds[0].parts, other.folds[0].parts, strict=True):
        assert torch.equal(part, twin)


def test_frames_are_what_their_csv_files_are(tmp_path):
    nodes, edges = frames()
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    data = from_frames(nodes, edges)
    same(data, load_path(tmp_path))
    assert data.feature_names == (
        "age", "age=(missing)", "size", "job=nurse", "job=pilot", "job=(missing)",
        "member=False", "member=True", "joined", "joined=(missing)",
    )  # fmt: skip
    assert data.node_names[0] == "100"


@pytest.mark.parametrize("stems", [("nodes", "edges"), ("nodes",), ("edges",)])
def test_parquet_files_are_what_csv_files_are(tmp_path, stems):
    pytest.importorskip("pyarrow")
    for stem, frame in zip(("nodes", "edges"), frames(), strict=True):
        if stem in stems:
            frame.to_parquet(tmp_path / f"{stem}.parquet")
        else:
            frame.to_csv(tmp_path / f"{stem}.csv", index=False)
    same(from_frames(*frames()), load_path(tmp_path))


def test_a_split_is_made_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes, edges = frames()
    data = from_frames(nodes.drop(columns="split"), edges, seed=3)
    assert [int(part.sum()) for part in data.folds[0].parts] == [7, 3, 2]
    assert not list(tmp_path.iterdir())
    assert any("one was made by class (seed 3)." in note for note in data.notes)
    assert any(note.startswith("The edges of the frame of edges were") for note in data.notes)


def test_options_form_and_classes_that_pandas_made_decimal(tmp_path):
    nodes, edges = frames()
    nodes["label"] = [0, 1, None] * 4
    data = from_frames(nodes.drop(columns="split"), edges, ignore=["joined", "job", "member"])
    assert (data.kind, data.class_names) == ("classification", ("0", "1"))
    nodes.drop(columns="split").to_csv(tmp_path / "nodes.csv", index=False)  # as 0.0 and 1.0
    edges.to_csv(tmp_path / "edges.csv", index=False)
    same(load_path(tmp_path, ignore=["joined", "job", "member"]), data)
    assert data.feature_names == ("age", "age=(missing)", "size")
    new = nodes.assign(age=None, job="x")
    again = from_frames(new, edges, form=data.form, targets=False)
    assert again.graphs[0].x[:, 0].tolist() == [pytest.approx(data.form.nodes[0].fill)] * 12


def test_numbers_of_a_frame_have_no_marks_of_thousands(tmp_path):
    nodes, edges = frames()
    nodes = nodes.drop(columns=["split", "joined", "job", "member"])
    nodes = nodes.assign(size=1.234, price=["0,5", "1,5"] * 6, label=2.345)
    data = from_frames(nodes, edges)
    assert data.graphs[0].x[0, -2:].tolist() == pytest.approx([1.234, 0.5])
    assert data.graphs[0].y[0].item() == pytest.approx(2.345)
    again = from_frames(nodes.assign(price=1.234), edges, form=data.form, targets=False)
    assert again.graphs[0].x[0, -1].item() == pytest.approx(1.234)


def test_the_index_names_the_nodes_where_no_column_does(tmp_path):
    nodes, edges = frames()
    same(from_frames(nodes.set_index("ID"), edges), from_frames(nodes, edges))
    by_place = edges.assign(**{"from": [0, 1], "to": [2, 3]})
    assert from_frames(nodes.drop(columns="ID"), by_place).node_names[:2] == ("0", "1")
    if "pyarrow" in sys.modules:
        nodes.set_index("ID").to_parquet(tmp_path / "nodes.parquet")
        edges.to_parquet(tmp_path / "edges.parquet")
        same(load_path(tmp_path), from_frames(nodes, edges))


def test_faults_of_frames_name_the_row():
    nodes, edges = frames()
    with pytest.raises(DatasetError, match="frame of edges names no column 'target', only 'from'"):
        from_frames(nodes, edges.drop(columns="to"))
    with pytest.raises(DatasetError, match="frame of edges, row 1 names the node '7'"):
        from_frames(nodes, edges.assign(to=[102, 7]))
    with pytest.raises(DatasetError, match=r"frame of nodes, row 2: the cell 'inf' .* 'size'"):
        from_frames(nodes.assign(size=[1, 2, float("inf"), *range(9)]), edges)
    with pytest.raises(DatasetError, match="column 'split' of the frame of nodes leaves 'test'"):
        from_frames(nodes.assign(split=["train"] * 6 + ["val"] * 6), edges)
    for column in ("job", "ID", "size"):  # as a CSV file with it
        with pytest.raises(DatasetError, match="frame of nodes, row 1 has a NUL character"):
            from_frames(nodes.assign(**{column: ["1", "1\0", *["2"] * 10]}), edges)
    with pytest.raises(DatasetError, match="frame of nodes has a NUL character"):
        from_frames(nodes.rename(columns={"size": "size\0"}), edges)
    with pytest.raises(TypeError, match=r"no option 'lable' .did you mean 'label'"):
        from_frames(nodes, edges, lable="x")


def test_a_damaged_or_doubled_parquet_file(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    nodes, edges = frames()
    edges.to_csv(tmp_path / "edges.csv", index=False)
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1 is all")
    with pytest.raises(DatasetError, match=r"nodes\.parquet' is not a whole Parquet file"):
        load_path(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DatasetError, match=r"run `pip install 'torch-grama\[tables\]'`, or save"):
        load_path(tmp_path)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(DatasetError, match=r"both 'nodes\.csv' and 'nodes\.parquet'"):
        load_path(tmp_path)
