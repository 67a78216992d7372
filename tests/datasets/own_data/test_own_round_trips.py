"""What is written and read again is the same, in every form."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from torch_grama.datasets.own_data import load_path, write_csv_folder, write_json_lines
from torch_grama.datasets.splits import PARTS

# what makes the examples is traced too otherwise, and takes twice as long
pytestmark = pytest.mark.no_cover

KINDS = ("classification", "regression", "multilabel")
floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
# Any printable name, not only plain ones; a table strips the spaces around a cell.
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]), min_size=1, max_size=6
).map(str.strip).filter(bool)  # fmt: skip


@st.composite
def matrices(draw, rows, columns):
    size = rows * columns
    values = draw(st.lists(floats, min_size=size, max_size=size))
    return torch.tensor(values, dtype=torch.float32).view(rows, columns)


@st.composite
def targets(draw, rows, kind):
    """With every class present, so that classes keep their numbers."""
    if kind == "classification":
        count = draw(st.integers(1, min(4, rows)))
        rest = draw(st.lists(st.integers(0, count - 1), min_size=rows, max_size=rows))
        return torch.tensor([*range(count), *rest][:rows])
    width = draw(st.integers(2, 3)) if kind == "multilabel" else draw(st.integers(1, 3))
    if kind == "multilabel":
        flags = st.lists(st.integers(0, 1), min_size=rows * width, max_size=rows * width)
        return torch.tensor(draw(flags)).float().view(rows, width)
    y = draw(matrices(rows, width))
    y[0, 0] = 0.5  # all zeros and ones would be flags
    return y


@st.composite
def graphs(draw, width, edge_width, weighted):
    count = draw(st.integers(1, 8))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = draw(st.lists(ends, max_size=12))
    index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()
    data = Data(x=draw(matrices(count, width)), edge_index=index)
    if edge_width:
        data.edge_attr = draw(matrices(len(pairs), edge_width))
    if weighted:
        data.edge_weight = draw(matrices(len(pairs), 1))[:, 0]
    return data


@st.composite
def node_tasks(draw):
    data = draw(graphs(draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.booleans())))
    count = data.num_nodes or 0
    while count < 3:  # three nodes are the least that can be split
        data.x = torch.cat([data.x, data.x[:1]])
        count += 1
    data.y = draw(targets(count, draw(st.sampled_from(KINDS))))
    parts = torch.tensor([0, 1, 2, *draw(st.lists(st.integers(0, 3), max_size=count - 3))])
    parts = torch.cat([parts, parts.new_full((count - len(parts),), 3)])
    for number, name in enumerate(PARTS):
        data[f"{name}_mask"] = parts == number
    return data


@st.composite
def graph_tasks(draw):
    shape = draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.booleans())
    drawn = draw(st.lists(graphs(*shape), min_size=3, max_size=6))
    y = draw(targets(len(drawn), draw(st.sampled_from(KINDS))))
    words = [*PARTS, *draw(st.lists(st.sampled_from(PARTS)))]
    for data, target, word in zip(drawn, y, [*words, *[""] * 6], strict=False):
        data.y = target.view(1) if target.dim() == 0 else target[None]
        if word:
            data.split = word
    return drawn


def assert_same_graph(found, expected):
    for name in ("x", "edge_index", "edge_attr", "edge_weight"):
        left, right = found.get(name), expected.get(name)
        if right is not None and right.numel():
            assert left is not None
            assert left.dtype == right.dtype
            assert torch.equal(left, right), name
    assert found.edge_index.shape == expected.edge_index.shape


def kind_of(y):
    if not y.is_floating_point():
        return "classification"
    flags = y.size(-1) > 1 and bool(((y == 0) | (y == 1)).all())
    return "multilabel" if flags else "regression"


def assert_same_node_task(found, data):
    [graph] = found.graphs
    assert_same_graph(graph, data)
    assert found.kind == kind_of(data.y)
    assert torch.equal(graph.y, data.y)
    [fold] = found.folds
    for name in PARTS:
        assert torch.equal(getattr(fold, name), data[f"{name}_mask"])


def assert_same_graph_task(found, graphs):
    assert len(found.graphs) == len(graphs)
    for left, right in zip(found.graphs, graphs, strict=True):
        assert_same_graph(left, right)
        assert torch.equal(left.y, right.y)
    [fold] = found.folds
    for name in PARTS:
        expected = [n for n, graph in enumerate(graphs) if graph.get("split") == name]
        assert getattr(fold, name).tolist() == expected


@settings(max_examples=30, deadline=None)
@given(data=node_tasks(), drawn=st.data())
def test_tables(data, drawn):
    count = data.num_nodes or 0
    named = drawn.draw(
        st.lists(names, min_size=count, max_size=count, unique=True) | st.just([]), label="names"
    )
    columns = [] if data.y.dim() == 1 or data.y.size(1) == 1 else range(data.y.size(1))
    with tempfile.TemporaryDirectory() as folder:
        write_csv_folder(data, folder, node_names=named)
        kind = kind_of(data.y)
        found = load_path(
            folder,
            directed=True,
            label=[f"y{column}" for column in columns],
            kind=kind if kind == "classification" else None,
        )
    assert_same_node_task(found, data)
    assert list(found.node_names) == (named or [str(node) for node in range(count)])


@settings(max_examples=30, deadline=None)
@given(graph_tasks())
def test_lines(graphs):
    with tempfile.TemporaryDirectory() as folder:
        path = write_json_lines(graphs, Path(folder, "graphs.jsonl"))
        assert_same_graph_task(load_path(path, directed=True), graphs)


@settings(max_examples=20, deadline=None)
@given(node_tasks())
def test_arrays(data):
    data.edge_attr = data.edge_weight = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.npz")
        np.savez_compressed(
            path,
            node_features=data.x.numpy(),
            node_labels=data.y.numpy(),
            edges=data.edge_index.T.numpy(),
            **{f"{part}_masks": data[f"{part}_mask"][None].numpy() for part in PARTS},
        )
        assert_same_node_task(load_path(path, directed=True), data)


@settings(max_examples=20, deadline=None)
@given(node_tasks())
def test_a_saved_graph(data):
    with tempfile.TemporaryDirectory() as folder:
        torch.save(data, Path(folder, "graph.pt"))
        assert_same_node_task(load_path(Path(folder, "graph.pt")), data)


@settings(max_examples=20, deadline=None)
@given(graph_tasks())
def test_saved_graphs(graphs):
    with tempfile.TemporaryDirectory() as folder:
        torch.save(graphs, Path(folder, "graphs.pt"))
        found = load_path(Path(folder, "graphs.pt"), level="graph")
    assert_same_graph_task(found, graphs)
