from pathlib import Path

import pytest

from torch_grama.datasets import DatasetError, DatasetMissingError
from torch_grama.datasets.own_data import load_path


def test_nothing_there(tmp_path):
    with pytest.raises(DatasetMissingError, match=r"There is no '.*nothing': give the path of"):
        load_path(tmp_path / "nothing")


def test_forms_that_are_not_known(tmp_path, refuses):
    refuses(tmp_path, "none of the known forms: give a folder with nodes.csv and edges.csv")
    (tmp_path / "graph.graphml").write_text("<graphml/>")
    refuses(tmp_path / "graph.graphml", "none of the known forms")
    (tmp_path / "nodes.csv").write_text("id,label\n")
    refuses(tmp_path / "nodes.csv", "one table of a graph: give the folder")
    (tmp_path / "graphs.jsonl").write_text("{}")
    refuses(tmp_path, "both tables and JSON lines")


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".pth", ".jsonl", ".ndjson", ".json"])
def test_a_folder_or_garbage_in_place_of_a_file(tmp_path, suffix, refuses):
    (tmp_path / f"garbage{suffix}").write_bytes(b"\x00\x01garbage")
    refuses(tmp_path / f"garbage{suffix}", "garbage")
    (tmp_path / f"folder{suffix}").mkdir()
    refuses(tmp_path / f"folder{suffix}", "none of the known forms")


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".jsonl"])
def test_a_file_that_cannot_be_read(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"graph{suffix}"
    path.write_bytes(b"x")

    def forbidden(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    monkeypatch.setattr(Path, "open", forbidden)
    monkeypatch.setattr("os.open", forbidden)
    with pytest.raises(DatasetError, match="Permission denied"):
        load_path(path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": "edge"}, "'level' to be one of node, graph"),
        ({"level": "nodes"}, r"got 'nodes'\) \(did you mean 'node'\?\)$"),
        ({"kind": "clasification"}, "did you mean 'classification'"),
        ({"metric": "auc"}, "'metric' to be one of accuracy"),
        ({"fractions": (0.5, 0.5, 0.5)}, "sum to 1"),
        ({"classes": ["a", "a"]}, "to be distinct"),
        ({"classes": ["a"], "kind": "regression"}, "no 'classes' for a regression"),
    ],
)
def test_options_are_checked_first(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_path("nowhere", **options)
