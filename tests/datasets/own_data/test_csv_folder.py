import json
import os
import time

import numpy as np
import pytest
import torch

from torch_grama.datasets import FeatureEncoding, Metric
from torch_grama.datasets.own_data import load_path

NODES = """\
id,age,height,label
ann,30,1.7,a
bob,40,1.8,b
cyd,50,1.6,a
dan,60,1.5,b
eve,20,1.9,a
fay,25,1.75,b
"""
EDGES = """\
source,target
ann,bob
bob,cyd
cyd,dan
dan,eve
eve,fay
"""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "graph"
    path.mkdir()
    (path / "nodes.csv").write_text(NODES)
    (path / "edges.csv").write_text(EDGES)
    return path


def only(data):
    [graph] = data.graphs
    return graph


def test_a_graph_is_read(folder):
    data = load_path(folder)
    graph = only(data)
    assert (data.level, data.kind, data.num_outputs) == ("node", "classification", 2)
    assert data.metric == Metric("accuracy", True)
    assert (data.class_names, data.feature_names) == (("a", "b"), ("age", "height"))
    assert data.node_names == ("ann", "bob", "cyd", "dan", "eve", "fay")
    assert data.node_encoding == FeatureEncoding("float", 2)
    assert data.edge_encoding.kind == "none"
    assert graph.x[1].tolist() == [40.0, np.float32(1.8)]
    assert graph.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert graph.edge_index.tolist() == [
        [0, 1, 2, 3, 4, 1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5, 0, 1, 2, 3, 4],
    ]
    assert any("reverse of 5 of them was added" in note for note in data.notes)


def test_a_split_is_made_stored_and_used_again(folder):
    first = load_path(folder)
    assert (folder / "splits.json").exists()
    stored = (folder / "splits.json").read_bytes()
    again = load_path(folder)
    for mask, twin in zip(first.folds[0].parts, again.folds[0].parts, strict=True):
        assert mask.dtype == torch.bool
        assert torch.equal(mask, twin)
        # One of each class, as there are three of each.
        assert sorted(only(first).y[mask].tolist()) == [0, 1]
    assert (folder / "splits.json").read_bytes() == stored


def test_a_changed_graph_does_not_get_the_old_split(folder, refuses):
    load_path(folder)
    (folder / "nodes.csv").write_text(NODES.replace("fay,25,1.75,b", "fay,25,1.75,a"))
    refuses(folder, r"splits\.json' holds splits of other data .the labels")
    (folder / "nodes.csv").write_text(NODES.replace("fay", "gil"))
    (folder / "edges.csv").write_text(EDGES.replace("fay", "gil"))
    refuses(folder, r"splits\.json' holds splits of other data .the nodes")
    (folder / "edges.csv").write_text(EDGES)
    # Other features change nothing about who is who.
    (folder / "nodes.csv").write_text(NODES.replace("1.75", "1.76"))
    load_path(folder)


def test_other_options_are_no_other_data(folder):
    first = load_path(folder)
    load_path(folder, label="height", ignore=["label"])
    load_path(folder, seed=1)
    load_path(folder, stratify=False)
    turned = load_path(folder, directed=True, classes=["b", "a"])
    assert torch.equal(first.folds[0].train, turned.folds[0].train)
    assert len(json.loads((folder / "splits.json").read_text())["divisions"]) == 4


def test_a_stated_split_is_used(folder):
    (folder / "nodes.csv").write_bytes(stated("train", "Val", "TEST", "valid", "", "train"))
    data = load_path(folder)
    parts = [part.nonzero().flatten().tolist() for part in data.folds[0].parts]
    assert parts == [[0, 5], [1, 3], [2]]
    assert data.feature_names == ("age", "height")
    assert not (folder / "splits.json").exists()


def test_both_directions_listed_or_no_edge_at_all(folder):
    (folder / "edges.csv").write_text("source,target\nann,bob\nbob,ann\ncyd,cyd\n")
    data = load_path(folder)
    assert only(data).edge_index.tolist() == [[0, 1, 2], [1, 0, 2]]
    assert any("listed in both directions" in note for note in data.notes)
    (folder / "edges.csv").write_text("source,target,weight,length\n")
    graph = only(load_path(folder))
    assert (graph.edge_index.shape, graph.edge_index.dtype) == ((2, 0), torch.long)


def test_edge_features_and_weights_follow_their_edges(folder):
    (folder / "edges.csv").write_text(
        "kind,source,target,weight,length\n"
        "road,ann,bob,0.5,1\nrail,bob,cyd,1.5,2\nroad,cyd,dan,2.5,3\nrail,dan,cyd,3.5,4\n"
    )
    data = load_path(folder)
    graph = only(data)
    assert graph.edge_index.tolist() == [[0, 1, 2, 3, 1, 2], [1, 2, 3, 2, 0, 1]]
    assert graph.edge_weight.tolist() == [0.5, 1.5, 2.5, 3.5, 0.5, 1.5]
    listed = [[0, 1, 1], [1, 0, 2], [0, 1, 3], [1, 0, 4]]
    assert graph.edge_attr.tolist() == listed + listed[:2]
    assert data.edge_encoding.num_columns == 3


def test_nodes_without_features(folder):
    rows = [",".join((row.split(",")[0], row.split(",")[3])) for row in NODES.splitlines()]
    (folder / "nodes.csv").write_text("\n".join(rows))
    data = load_path(folder)
    assert only(data).x.tolist() == [[1.0]] * 6
    assert any("constant 1" in note for note in data.notes)


def test_nodes_without_label_are_in_no_split(folder):
    (folder / "nodes.csv").write_text(NODES + "gil,1,1,\nhal,2,2, \n")
    data = load_path(folder)
    [fold] = data.folds
    assert only(data).y.tolist() == [0, 1, 0, 1, 0, 1, -1, -1]
    used = fold.train | fold.val | fold.test
    assert used.tolist() == [True] * 6 + [False] * 2


def test_a_quantity_as_target(folder):
    data = load_path(folder, label="height", ignore=["label"])
    assert (data.kind, data.metric) == ("regression", Metric("mae", False))
    assert (only(data).y.shape, only(data).y.dtype) == ((6, 1), torch.float32)
    assert data.feature_names == ("age",)
    (folder / "nodes.csv").write_text(NODES.replace("1.7,a", ",a"))
    data = load_path(folder, label="height", ignore=["label"], seed=1)
    assert only(data).y[0].isnan().all()


def test_several_targets(folder):
    data = load_path(folder, label=["age", "height"], ignore=["label"])
    assert (data.kind, data.num_outputs) == ("regression", 2)
    assert only(data).y[0].tolist() == [30.0, np.float32(1.7)]
    names = ["ann", "bob", "cyd", "dan", "eve", "fay"]
    rows = ["id,red,big"] + [f"{name},{n % 2},{n // 3}" for n, name in enumerate(names)]
    (folder / "nodes.csv").write_text("\n".join(rows))
    flags = load_path(folder, label=["red", "big"], classes=["red", "big"])
    assert (flags.kind, flags.num_outputs) == ("multilabel", 2)
    assert flags.class_names == ("red", "big")
    assert flags.metric.name == "average_precision"
    assert only(flags).y.tolist() == [[0, 0], [1, 0], [0, 0], [1, 1], [0, 1], [1, 1]]


def test_category_numbers(folder, refuses):
    data = load_path(folder, categorical=True, ignore=["height"])
    assert data.node_encoding.kind == "categorical"
    assert data.node_encoding.sizes == (61,)
    assert only(data).x.dtype == torch.long
    refuses(folder, r"line 2 has the value 1.7.* 'height', which is no category", categorical=True)


@pytest.mark.parametrize(
    "write",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.replace(",", ";").encode(),
        lambda text: text.replace(",", "\t").encode(),
        lambda text: text.replace(",", " , ").encode(),
        lambda text: text.replace("\n", "\n\n").encode(),
        lambda text: text.rstrip("\n").encode(),
        lambda text: ("\n" + text).encode(),
        lambda text: text.replace("ann", '"ann"').encode(),
    ],
    ids=["bom", "crlf", "cr", "semicolon", "tab", "spaces", "blank", "no-end", "late", "quotes"],
)
def test_other_ways_to_write_the_same(folder, write):
    plain = load_path(folder)
    (folder / "nodes.csv").write_bytes(write(NODES))
    (folder / "edges.csv").write_bytes(write(EDGES))
    same = load_path(folder)  # the stored split fits, so names, labels and edges are the same
    assert torch.equal(only(plain).x, only(same).x)


def test_names_may_be_anything(folder):
    names = ['a "quoted", name', "ünï çode", "1.0", "01", "1", "two\nlines"]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    rows = ["id,label", *(f"{name},{n % 2}" for n, name in enumerate(quoted))]
    (folder / "nodes.csv").write_text("\n".join(rows))
    (folder / "edges.csv").write_text(f"source,target\n{quoted[0]},{quoted[5]}\n1,01\n")
    data = load_path(folder, directed=True)
    assert list(data.node_names) == names
    assert only(data).edge_index.tolist() == [[0, 4], [5, 3]]


def stated(*words):
    """The nodes with a split, the last of them in no part."""
    column = ["split", *words, *[""] * (6 - len(words))]
    rows = zip(NODES.splitlines(), column, strict=True)
    return "\n".join(map(",".join, rows)).encode()


NODE_FAULTS = {
    "empty file": (b"", r"nodes\.csv' is empty"),
    "header alone": (b"id,label\n", r"nodes\.csv' has no rows"),
    "no id": (NODES.replace("id,", "name,").encode(), r"names no column 'id'"),
    "no label": (NODES.replace("label", "kind").encode(), "names no column 'label'"),
    "nearly a label": (NODES.replace("label", "lable").encode(), r"is it 'lable'\?"),
    "two labels": (NODES.replace("age", "y").encode(), "names both 'label' and 'y'"),
    "a NUL behind a number": (NODES.replace("40", "40\0").encode(), "line 3 has a NUL character"),
    "column twice": (NODES.replace("age", "height").encode(), "the name 'height' twice"),
    "column without name": (NODES.replace("age", " ").encode(), "a column without a name"),
    "short row": (NODES.replace("bob,40,1.8,b", "bob,40,1.8").encode(), "line 3 has 3 cells where"),
    "long row": (NODES.replace("bob,40", "bob,4,0").encode(), "line 3 has 5 cells where 4"),
    "short quoted row": (NODES.replace("bob,40,", '"bob",').encode(), "line 3 has 3 cells where"),
    "ragged in pairs": (
        NODES.replace("bob,40,1.8,b", "bob,40,1.8").replace("a\ndan", "a,x\ndan").encode(),
        "line 3 has 3 cells where",
    ),
    "open quote": (NODES.replace("eve", '"eve').encode(), "line 7 cannot be read"),
    "node twice": (
        NODES.replace("dan", "ann").encode(),
        "line 5 lists the node 'ann' again, first seen on line 2",
    ),
    "empty name": (NODES.replace("dan", "").encode(), "line 5 has an empty 'id'"),
    "not a number": (NODES.replace("40", "4o").encode(), "line 3: the cell '4o' in .* 'age'"),
    "infinite": (NODES.replace("40", "-inf").encode(), "line 3: .* is not finite"),
    "too large": (NODES.replace("40", "1e39").encode(), "line 3: .* is not finite"),
    "underscore": (NODES.replace("40", "4_0").encode(), "line 3: the cell '4_0'"),
    "label missing everywhere": (
        NODES.replace(",a\n", ",\n").replace(",b\n", ",\n").encode(), "have no label"
    ),
    "label among numbers": (
        NODES.replace(",a\n", ",1.5\n").encode(), "line 3 has the label 'b' among numbers"
    ),
    "label not finite": (
        NODES.replace(",a\n", ",1\n").replace(",b\n", ",inf\n").encode(),
        "line 3 has the label 'inf' among numbers",
    ),
    "class of two": (NODES.replace("1.5,b", "1.5,a").encode(), "got 2 of class 'b'"),
    "not utf-8": (NODES.encode().replace(b"dan", b"d\xe4n"), r"line 5 is not in UTF-8 .*0xe4"),
    "utf-16": (NODES.encode("utf-16"), "is in UTF-16: save it in UTF-8"),
    "odd split": (stated("train", "tset"), "line 3 has the split 'tset'"),
    "empty part": (stated("train", "val"), "leaves 'test' empty"),
    "split without label": (
        stated("train", "val", "test").replace(b"1.8,b", b"1.8,"),
        "line 3 is in 'val' but has no label",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "sentence"), NODE_FAULTS.values(), ids=NODE_FAULTS)
def test_faults_in_nodes(folder, content, sentence, refuses):
    (folder / "nodes.csv").write_bytes(content)
    refuses(folder, sentence)


EDGE_FAULTS = {
    "empty file": (b"", r"edges\.csv' is empty"),
    "no source": (EDGES.replace("source", "start").encode(), "no column 'source'.*-o source=NAME"),
    "two sources": (b"src,from,target\n", "names both 'src' and 'from': .*`-o source=src`"),
    "no target": (EDGES.replace("target", "goal").encode(), "names no column 'target'"),
    "dangling": (EDGES.replace("dan,eve", "dan,zoe").encode(), "line 5 names the node 'zoe'"),
    "dangling source": (EDGES.replace("cyd,dan", "zoe,dan").encode(), "line 4 names .*'zoe'"),
    "empty end": (EDGES.replace("cyd,dan", ",dan").encode(), "line 4 names the node ''"),
    "ragged": (EDGES.replace("cyd,dan", "cyd").encode(), "line 4 has 1 cell where 2 columns"),
    "column twice": (b"source,target,target\n", "the name 'target' twice"),
    "weight in words": (
        b"source,target,weight\nann,bob,heavy\nbob,cyd,light\n", "words in the column 'weight'"
    ),
    "weight not finite": (b"source,target,weight\nann,bob,inf\n", "line 2: .* is not finite"),
    "a NUL": (EDGES.encode().replace(b"cyd,dan", b"cyd\0,dan"), "line 4 has a NUL character"),
    "not utf-8": (EDGES.encode() + b"\xff,ann\n", "line 7 is not in UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "sentence"), EDGE_FAULTS.values(), ids=EDGE_FAULTS)
def test_faults_in_edges(folder, content, sentence, refuses):
    (folder / "edges.csv").write_bytes(content)
    message = refuses(folder, sentence)
    assert "edges.csv" in message


@pytest.mark.parametrize(("one", "other"), [("{:03}", "{}"), ("{}", "{:03}"), ("{}", "{}.0")])
def test_ids_that_a_program_took_for_numbers(folder, one, other, refuses):
    rows = [f"{one.format(n)},{n % 2}" for n in range(6)]
    (folder / "nodes.csv").write_text("\n".join(["id,label", *rows]))
    (folder / "edges.csv").write_text(f"source,target\n{one.format(1)},{other.format(2)}\n")
    twin = one.format(2)
    refuses(folder, f"'{other.format(2)}', .*: write the ids .* alike, since '{twin}' is among")


def test_a_column_that_changes_its_mind(folder, refuses):
    for first, second, line in (("1", "word", 22), ("word", "1", 2)):
        rows = ["id,x,label"]
        rows += [f"{n},{first if n < 20 else second},{n % 2}" for n in range(30)]
        (folder / "nodes.csv").write_text("\n".join(rows))
        refuses(folder, f"line {line}: the cell 'word' .* is no number while others are")


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_table_longer_than_a_block_of_rows(folder, quote, refuses):
    rows = [f"{quote}{n}{quote},{n},{n % 2}" for n in range(1300)]
    (folder / "edges.csv").write_text("source,target\n0,1299\n")
    (folder / "nodes.csv").write_text("id,x,label\n\n" + "\n".join(rows))
    graph = only(load_path(folder))
    assert graph.x.flatten().tolist() == list(range(1300))
    assert graph.edge_index.tolist() == [[0, 1299], [1299, 0]]
    (folder / "splits.json").unlink()
    for fault, sentence in (
        ("1200,1200", "line 1203 has 2 cells where 3"),
        ("1200,word,0", "line 1203: the cell 'word' .* is no number while others are"),
        ("7,1200,0", "line 1203 lists the node '7' again, first seen on line 10"),
    ):
        broken = [*rows[:1200], fault, *rows[1201:]]
        (folder / "nodes.csv").write_text("id,x,label\n\n" + "\n".join(broken))
        refuses(folder, sentence)


def test_a_file_is_missing(folder, refuses):
    (folder / "edges.csv").unlink()
    refuses(folder, r"has no file 'edges\.csv'.*source and target")
    (folder / "edges.csv").write_text(EDGES)
    (folder / "nodes.csv").unlink()
    refuses(folder, r"has no file 'nodes\.csv'.*id and label")


def test_options_that_do_not_fit(folder, refuses):
    refuses(folder, "names no column 'colour', .*: correct the option", ignore=["colour"])
    refuses(folder, r"no column 'hieght' \(is it 'height'\?\), .*: correct", ignore=["hieght"])
    refuses(folder, "names no column 'mood'", label="mood")
    refuses(folder, "ask for level 'node'", level="graph")
    refuses(folder, "line 2 has the label 'a': write a finite number", kind="regression")
    refuses(folder, "several flags were asked for", kind="multilabel")
    refuses(folder, "line 3 has the label 'b', which is outside the classes 'a', 'c'",
            classes=["a", "c"])  # fmt: skip
    refuses(folder, "line 2 has a label that is infinite or partly missing|line 2 has the label",
            label=["label", "age"])  # fmt: skip


def test_an_unwritable_folder_still_loads(folder, monkeypatch):
    def forbidden(path, content):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("torch_grama.datasets.splits.write_atomically", forbidden)
    data = load_path(folder)
    assert any("could not be stored" in note for note in data.notes)
    assert sorted(os.listdir(folder)) == ["edges.csv", "nodes.csv"]


def load_large(folder, nodes):
    """The processor time that a graph of ten times as many edges takes."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(nodes, 4)).round(4).astype(str)
    rows = (f"user{n},{','.join(x[n])},{n % 5}" for n in range(nodes))
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,a,b,c,d,label\n" + "\n".join(rows))
    pairs = generator.integers(nodes, size=(10 * nodes, 2)).tolist()
    lines = "\n".join(f"user{source},user{target}" for source, target in pairs)
    (folder / "edges.csv").write_text("source,target\n" + lines)
    start = time.process_time()
    data = load_path(folder)
    taken = time.process_time() - start
    assert only(data).num_nodes == nodes
    assert only(data).edge_index[:, : len(pairs)].T.tolist() == pairs
    return taken


def test_a_large_graph_loads_in_linear_time(tmp_path):
    small = min(load_large(tmp_path / str(n), 1_000) for n in range(3))
    assert load_large(tmp_path / "large", 10_000) < 40 * small
