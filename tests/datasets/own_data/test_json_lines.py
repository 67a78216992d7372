import json
import os

import pytest
import torch

from torch_grama.datasets.errors import DatasetFaults
from torch_grama.datasets.own_data import describe, load_path, write_json_lines


def graph(**changed):
    table = {
        "nodes": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]],
        "edges": [[0, 1], [1, 2]],
        "label": "a",
        **changed,
    }
    return {key: value for key, value in table.items() if value is not ...}


def save(folder, graphs, name="graphs.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(table) + "\n" for table in graphs))
    return path


def labelled(*labels, **changed):
    return [graph(label=label, **changed) for label in labels]


WORDS = labelled(*"ababab")


def test_graphs_are_read(tmp_path):
    data = load_path(save(tmp_path, WORDS))
    assert (data.level, data.kind, data.num_outputs) == ("graph", "classification", 2)
    assert data.graphs[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    [fold] = data.folds
    assert sorted(torch.cat(fold.parts).tolist()) == list(range(6))
    assert sorted(os.listdir(tmp_path)) == ["graphs.jsonl", "graphs.jsonl.splits.json"]


def test_a_folder_of_files_in_the_order_of_their_names(tmp_path):
    folder = tmp_path / "graphs"
    folder.mkdir()
    save(folder, labelled("b", "b", "b"), "2.ndjson")
    save(folder, labelled("a", "a", "a"), "1.jsonl")
    (folder / "readme.txt").write_text("not a graph")
    data = load_path(folder)
    assert [int(graph.y) for graph in data.graphs] == [0, 0, 0, 1, 1, 1]
    load_path(folder)
    assert (folder / "splits.json").exists()


def test_edge_features_follow_their_edges(tmp_path):
    tables = labelled(*"ababab", edge_attr=[[1, 2], [3, 4]], edge_weight=[0.5, 0.25])
    data = load_path(save(tmp_path, tables))
    assert data.graphs[0].edge_attr.tolist() == [[1, 2], [3, 4], [1, 2], [3, 4]]
    assert data.graphs[0].edge_weight.tolist() == [0.5, 0.25, 0.5, 0.25]
    assert data.edge_encoding.num_columns == 2
    directed = load_path(save(tmp_path, tables), directed=True)
    assert directed.graphs[0].edge_index.tolist() == [[0, 1], [1, 2]]
    assert directed.graphs[0].edge_attr.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("labels", "kind", "targets", "names"),
    [
        (["x", "y", "x", "y", "x", "y"], "classification", [0, 1] * 3, ("x", "y")),
        ([3, 7, 3, 7, 3, 7], "classification", [0, 1] * 3, ("3", "7")),
        ([10, 9, 10, 9, 10, 9], "classification", [1, 0] * 3, ("9", "10")),
        ([True, False] * 3, "classification", [1, 0] * 3, ("false", "true")),
        (["1", "2"] * 3, "classification", [0, 1] * 3, ("1", "2")),
        ([0, 1, 2, 3, 4, 5], "classification", [0, 1, 2, 3, 4, 5], tuple("012345")),
        ([17, 5, 3, 99, 12, 8], "regression", [[17], [5], [3], [99], [12], [8]], ()),
        ([0.5, 1.0, 2.0, 1.0, 0.5, 2.0], "regression", [[0.5], [1], [2], [1], [0.5], [2]], ()),
        ([1.0, 0.0] * 3, "regression", [[1], [0]] * 3, ()),
        ([[3], [7]] * 3, "classification", [0, 1] * 3, ("3", "7")),
        ([[1.5, 2.0], [0.0, 1.0]] * 3, "regression", [[1.5, 2], [0, 1]] * 3, ()),
        ([[1, 7], [0, 1]] * 3, "regression", [[1, 7], [0, 1]] * 3, ()),
        ([[1, 0, 1], [0, 1, 1]] * 3, "multilabel", [[1, 0, 1], [0, 1, 1]] * 3, ("0", "1", "2")),
        ([["red"], ["big", "red"], []] * 2, "multilabel", [[0, 1], [1, 1], [0, 0]] * 2,
         ("big", "red")),
    ],
)  # fmt: skip
def test_targets(tmp_path, labels, kind, targets, names):
    stratify = labels != [0, 1, 2, 3, 4, 5]
    for key in ("label", "y"):
        tables = [{**graph(label=...), key: label} for label in labels]
        data = load_path(save(tmp_path, tables, f"{key}.jsonl"), stratify=stratify)
        assert data.kind == kind
        assert torch.cat([item.y for item in data.graphs]).tolist() == targets
        assert data.class_names == names
        assert data.num_outputs == (len(names) or len(targets[0]))


def test_graphs_without_label_are_in_no_split(tmp_path):
    for labels in (["a", None, "b"] * 3, [0.5, None, 1.5] * 3, [[1, 0], None, [0, 1]] * 3):
        data = load_path(save(tmp_path, labelled(*labels), f"{len(str(labels))}.jsonl"))
        [fold] = data.folds
        used = sorted(torch.cat(fold.parts).tolist())
        assert used == [0, 2, 3, 5, 6, 8]
        missing = data.graphs[1].y
        assert bool(missing.isnan().all()) if missing.is_floating_point() else int(missing) == -1


def test_a_stated_split(tmp_path):
    words = ["train", "val", "test", None, "train", ""]
    tables = [graph(label=label, split=word) for label, word in zip("ababab", words, strict=True)]
    [fold] = load_path(save(tmp_path, tables)).folds
    assert (fold.train.tolist(), fold.val.tolist(), fold.test.tolist()) == ([0, 4], [1], [2])
    assert os.listdir(tmp_path) == ["graphs.jsonl"]


def test_other_ways_to_write_the_same(tmp_path):
    plain = load_path(save(tmp_path, WORDS))
    text = (tmp_path / "graphs.jsonl").read_text()
    for content in (
        b"\xef\xbb\xbf" + text.encode(),
        text.replace("\n", "\r\n").encode(),
        text.replace("\n", "\n\n").encode(),
        text.rstrip("\n").encode(),
        text.replace('"nodes"', '"x"').encode(),
        text.replace('"a"', '" a "').encode(),
    ):
        (tmp_path / "graphs.jsonl").write_bytes(content)
        same = load_path(tmp_path / "graphs.jsonl")
        assert torch.equal(plain.graphs[1].x, same.graphs[1].x)
        assert torch.equal(plain.folds[0].train, same.folds[0].train)


def test_nodes_as_numbers_and_without_features(tmp_path):
    data = load_path(save(tmp_path, labelled(*"ababab", nodes=[7, 8.5, 9])))
    assert data.graphs[0].x.tolist() == [[7.0], [8.5], [9.0]]
    tables = labelled(*"ababab", nodes=..., num_nodes=3, colour="red")
    data = load_path(save(tmp_path, tables, "bare.jsonl"))
    assert data.graphs[0].x.tolist() == [[1.0]] * 3
    assert any("constant 1" in note for note in data.notes)
    assert any("not read: colour" in note for note in data.notes)
    quiet = load_path(tmp_path / "bare.jsonl", ignore=["colour"])
    assert not any("colour" in note for note in quiet.notes)


def test_a_graph_without_edges_among_others(tmp_path):
    tables = [graph(edges=[], edge_attr=[]), *labelled(*"babab", edge_attr=[1, 2])]
    data = load_path(save(tmp_path, tables))
    assert data.graphs[0].edge_index.shape == (2, 0)
    assert data.graphs[0].edge_attr.shape == (0, 1)


def fault(**changed):
    """Five good graphs and a bad one in line 3."""
    return [*WORDS[:2], graph(**changed), *WORDS[3:]]


FAULTS = {
    "no nodes key": (fault(nodes=...), "line 3 has neither 'nodes' nor a sensible 'num_nodes'"),
    "both nodes keys": (fault(x=[[1, 2]]), "line 3 has both 'nodes' and 'x'"),
    "absurd number of nodes": (fault(nodes=..., num_nodes=10**12), "line 3 has neither"),
    "no edges key": (fault(edges=...), "line 3 has no 'edges'"),
    "both label keys": (fault(y=1), "line 3 has both 'label' and 'y'"),
    "empty graph": (fault(nodes=[]), "line 3 has no nodes"),
    "empty features": (fault(nodes=[[], [], []]), "line 3 has no nodes"),
    "ragged features": (fault(nodes=[[1, 2], [3]]), "line 3 has 'nodes' that are no rows"),
    "words as features": (fault(nodes=[["1", "2"]] * 3), "line 3 has 'nodes' that are no rows"),
    "missing features": (fault(nodes=[[1, None]] * 3), "line 3 has 'nodes' that are no rows"),
    "other number of features": (fault(nodes=[[1], [2], [3]]), "line 3 differs from .* line 1"),
    "huge number": (fault(nodes=[[1e39, 1]] * 3), "line 3, node 0 has the value"),
    "dangling edge": (fault(edges=[[0, 1], [1, 3]]), "line 3, edge 1 names the node 3, but"),
    "negative edge": (fault(edges=[[0, -1]]), "line 3, edge 0 names the node -1"),
    "edges of truth": (fault(edges=[[True, False]]), "line 3 lists edges as bool"),
    "edges of words": (fault(edges=[["a", "b"]]), "line 3 has 'edges' that are no rows"),
    "edge features too few": (
        [*labelled(*"ababa", edge_attr=[[1], [2]]), graph(edge_attr=[[1]], label="b")],
        r"line 6 has 'edge_attr' of the shape \(1, 1\) for 2 edges: store one row",
    ),
    "edge features missing": (
        [*labelled(*"ababa", edge_attr=[[1], [2]]), graph(label="b")], "line 6 differs from"
    ),
    "label of an object": (fault(label={"a": 1}), "line 3 has a label that is a dict"),
    "label as a list": (fault(label=[1, 2]), "line 1 has a label of another length"),
    "lists of other lengths": (
        labelled([1, 0], [0, 1], [1], [1, 0], [0, 1]), "line 3 has a label of another length"
    ),
    "truth among numbers": (labelled([1, 0], [True, 0], [1, 1]), "line 2 has a list of labels"),
    "huge number in a list": (labelled([1, 0], [10**400, 0], [1, 1]), "line 2 has a list"),
    "no label": (labelled(None, None, None), "have no label"),
    "no names": (labelled([], [], []), "have no label"),
    "split of a number": (fault(split=1), "line 3 has a 'split' that is no word"),
    "list": ([[1, 2]], "line 1 is a list, not a graph"),
}  # fmt: skip


@pytest.mark.parametrize(("tables", "sentence"), FAULTS.values(), ids=FAULTS)
def test_faults(tmp_path, tables, sentence, refuses):
    refuses(save(tmp_path, tables), sentence)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b'{"nodes": [[1]], "edges": [], "lab', "line 1 cannot be read"),
        (b'{"nodes": [[NaN]], "edges": [], "label": 1}', "line 1 cannot be read .NaN"),
        (b'{"nodes": [[-Infinity]], "edges": [], "label": 1}', "line 1 cannot be read .-Infinity"),
        (b'{"nodes": [[1e999]], "edges": [], "label": 1}', "line 1, node 0 has the value inf"),
        (b'{"nodes": [[1]], "edges": [], "label": 1e999}', "line 1 has the label 'inf'"),
        (b'{"nodes": [[1]], "edges": [], "label": "\xff"}', "line 1 is not in UTF-8"),
        ("{}".encode("utf-16"), "is in UTF-16"),
        (b"[" * 100_000, "line 1 cannot be read"),
        (b"[\n{}\n]\n", "line 1 cannot be read"),
    ],
)
def test_broken_files(tmp_path, content, sentence, refuses):
    path = tmp_path / "graphs.jsonl"
    path.write_bytes(content)
    refuses(path, sentence)


def test_options(tmp_path, refuses):
    path = save(tmp_path, WORDS)
    refuses(path, "ask for level 'graph'", level="node")
    refuses(path, "under one key", label=["a", "b"])
    refuses(path, "have no label", label="mood")
    refuses(path, "line 2 has the label 'b', which is outside the classes 'a'", classes=["a"])
    numbers = save(tmp_path, labelled(0, 1, 0, 1, 0, 1), "numbers.jsonl")
    assert load_path(numbers, kind="regression").num_outputs == 1
    tags = save(tmp_path, labelled(["a"], ["b"], ["a"]), "tags.jsonl")
    assert load_path(tags, classes=["b", "a", "c"]).num_outputs == 3
    refuses(tags, "line 2 has the label 'b'.*outside the classes", classes=["a"], seed=5)
    refuses(tags, "a list of names where a regression", kind="regression")
    flags = save(tmp_path, labelled([1, 0], [0, 1], [1, 1]), "flags.jsonl")
    assert load_path(flags, classes=["x", "y"]).class_names == ("x", "y")
    refuses(flags, "2 labels where one class", kind="classification")
    quantities = save(tmp_path, labelled([1, 2.5], [0, 1], [1, 1]), "quantities.jsonl")
    refuses(quantities, "line 1 has the flags", kind="multilabel")
    codes = save(tmp_path, labelled(*"ababab", nodes=[[1, 2]], edges=[]), "codes.jsonl")
    assert load_path(codes, categorical=True).node_encoding.sizes == (2, 3)


def test_a_list_of_labels_may_have_gaps(tmp_path):
    path = tmp_path / "graphs.jsonl"
    lists = [[1, None, 0], [None, 1, 1], [0, 0, None], None, [None] * 3, [1, 1, 0]]
    lines = [{"x": [[1.0]], "edges": [], "label": label} for label in lists]
    path.write_text("\n".join(map(json.dumps, lines)))
    data = load_path(path)
    assert (data.kind, data.num_outputs) == ("multilabel", 3)
    y = torch.cat([graph.y for graph in data.graphs])
    assert y.nan_to_num(-1).tolist() == [
        [1, -1, 0], [-1, 1, 1], [0, 0, -1], [-1, -1, -1], [-1, -1, -1], [1, 1, 0],
    ]  # fmt: skip
    assert sorted(torch.cat(data.folds[0].parts).tolist()) == [0, 1, 2, 5]  # 3 and 4 have none
    text = " ".join(describe(data).split())
    assert "3 labels: 0 (66.7%), 1 (66.7%), 2 (33.3%)" in text
    assert "2 items have no label, of 6." in text
    assert "3 labels are not known, in items with others." in text
    again = load_path(write_json_lines(data.graphs, tmp_path / "again.jsonl"))
    assert torch.equal(torch.cat([graph.y for graph in again.graphs]).isnan(), y.isnan())
    lines[0]["label"] = [0.5, None, 2]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert load_path(path, seed=1).kind == "regression"


def test_all_lines_that_are_wrong_are_told(tmp_path):
    path = tmp_path / "graphs.jsonl"
    good = json.dumps({"x": [[1.0]], "edges": [], "label": "a"})
    path.write_text("\n".join([good, "{", good, "[]"]))
    with pytest.raises(DatasetFaults, match=r"line 2 cannot be read.*1 more fault:") as caught:
        load_path(path)
    assert "line 4 is a list" in str(caught.value.faults[1])
    bad = [json.dumps({"x": [[1.0]], "edges": [[0, n]], "label": "a"}) for n in (1, 0, 2)]
    path.write_text("\n".join(bad))
    with pytest.raises(DatasetFaults) as caught:
        load_path(path)
    assert [str(fault).count("names the node") for fault in caught.value.faults] == [1, 1]
