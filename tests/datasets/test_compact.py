import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from published_files import assert_same
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from torch_grama.datasets.compact import (
    Column,
    CompactFile,
    CompactGraphs,
    cached,
    column,
    narrow,
    read_compact,
    write_compact,
)
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.splits import consecutive_fold


def _same(first, second):
    assert set(first.keys()) == set(second.keys())
    assert first.num_nodes == second.num_nodes
    assert_same(first, second, *set(first.keys()) - {"num_nodes"})


def _molecule(num_nodes, bonds, seed):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.tensor(bonds, dtype=torch.long).reshape(-1, 2)
    both = torch.stack([pairs, pairs.flip(1)], dim=1).reshape(-1, 2)
    attr = torch.randint(0, 5, (len(bonds), 3), generator=generator).repeat_interleave(2, dim=0)
    x = torch.randint(0, 119, (num_nodes, 9), generator=generator)
    return Data(
        x=x,
        edge_index=both.t().contiguous(),
        edge_attr=attr,
        y=torch.rand(1, 4, generator=generator),
    )


@st.composite
def _graphs(draw):
    graphs = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 6))
        pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
        edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t().contiguous()
        weights = torch.tensor([float(u * v) for u, v in pairs])
        x = torch.tensor(
            draw(st.lists(st.integers(-300, 70000), min_size=n, max_size=n)), dtype=torch.long
        )
        value = draw(st.floats(allow_nan=False, width=32))
        graphs.append(
            Data(
                x=x.view(-1, 1),
                edge_index=edge_index,
                edge_weight=weights,
                target=torch.tensor([[value, 0.5]]),
            )
        )
    return graphs


class TestCompactGraphs:
    def test_molecules_take_little_and_come_back_as_they_were(self):
        graphs = [_molecule(3, [(0, 1), (2, 1)], 0), _molecule(1, [], 1), _molecule(2, [(1, 0)], 2)]
        packed = CompactGraphs.from_data(graphs)
        assert str(packed) == "CompactGraphs(3)"
        assert packed.num_edges.tolist() == [4, 0, 2]
        assert packed.edges.dtype == packed.columns["x"].values.dtype == np.uint8
        for before, after in zip(graphs, packed, strict=True):
            _same(before, after)
        kept = packed.fingerprint()  # whatever a user or a worker does
        packed[0].x.fill_(7)
        assert packed.fingerprint() == pickle.loads(pickle.dumps(packed)).fingerprint() == kept
        batch = next(iter(DataLoader(packed, batch_size=3)))
        assert (batch.num_graphs, batch.y.shape, batch.x.shape) == (3, (3, 4), (6, 9))
        bare = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=5, y=torch.tensor([3]))
        _same(CompactGraphs.from_data([bare])[0], bare)

    @settings(max_examples=60, deadline=None)
    @given(_graphs())
    def test_round_trip_of_any_graphs(self, graphs):
        packed = CompactGraphs.from_data(graphs)
        assert len(packed) == len(graphs)
        for before, after in zip(graphs, packed, strict=True):
            _same(before, after)

    def test_indexing_like_a_list(self):
        packed = CompactGraphs.from_data([_molecule(n, [(0, n - 1)], n) for n in range(2, 7)])
        _same(packed[-1], packed[4])
        assert [g.num_nodes for g in packed[1:4:2]] == [3, 5]
        with pytest.raises(IndexError, match="below 5"):
            packed[5]

    def test_fingerprint_follows_the_content(self):
        graphs = [_molecule(3, [(0, 1)], 0)]
        words = {CompactGraphs.from_data(graphs).fingerprint() for _ in range(2)}
        graphs[0].x[0, 0] += 1
        words.add(CompactGraphs.from_data(graphs).fingerprint())
        words.add(CompactGraphs.from_data([Data(x=graphs[0].x)]).fingerprint())
        assert len(words) == 3

    def test_refuses_what_does_not_fit_together(self):
        x = torch.ones(1, 1)
        for graphs, message in (
            ([], "at least one graph"),
            ([Data(x=x), Data(x=x, y=torch.ones(1))], "graph 0 lacks"),
            ([Data(x=x, y=3)], "to be a tensor"),
            ([Data(x=torch.ones(2, 1), z=torch.ones(3))], "one row per node"),
        ):
            with pytest.raises(DatasetError, match=message):
                CompactGraphs.from_data(graphs)
        one, no_edges = np.ones(1, np.int64), np.empty((2, 0))
        long, words = column("node", np.ones((2, 1))), Column("node", np.array(["a"]), "float32")
        for arrays, message in (
            ((one, one, np.array([[0], [1]]), {}), "own graph"),
            ((one, 0 * one, no_edges, {"x": long}), "rows of the node attribute 'x'"),
            ((one, 0 * one, no_edges, {"x": words}), "hold numbers"),
            ((one, one, no_edges, {}), "1 edges in"),
            ((np.array([2, -1]), np.array([0, 0]), no_edges, {}), "negative"),
        ):
            with pytest.raises(DatasetError, match=message):
                CompactGraphs(*arrays)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, 255]), np.uint8),
        (np.array([0, 256]), np.uint16),
        (np.array([-1, 127]), np.int8),
        (np.array([-1, 128]), np.int16),
        (np.array([0, 2**40]), np.int64),
        (np.array([0.0, 3.0], np.float32), np.uint8),
        (np.array([0.5], np.float32), np.float32),
        (np.array([-0.0], np.float32), np.float32),
        (np.array([np.nan, 1.0]), np.float64),
        (np.array([np.inf]), np.float64),
        (np.array([True]), np.bool_),
    ],
)
def test_narrow(values, expected):
    result = narrow(values)
    assert result.dtype == expected
    assert np.array_equal(result.astype(values.dtype), values, equal_nan=values.dtype.kind == "f")


class TestCompactFile:
    @pytest.fixture
    def content(self):
        graphs = [_molecule(n, [(0, n - 1), (0, 1)], n) for n in range(2, 9)]
        fold = consecutive_fold((3, 0, 4))
        return CompactFile(CompactGraphs.from_data(graphs), (fold,), "made by hand")

    @pytest.fixture
    def path(self, content, tmp_path):
        write_compact(tmp_path / "set.npz", content)
        return tmp_path / "set.npz"

    def test_round_trip(self, content, tmp_path):
        path = tmp_path / "deep" / "set.npz"
        write_compact(path, content)
        found = read_compact(path)
        assert found.signature == "made by hand"
        assert [part.tolist() for part in found.folds[0].parts] == [[0, 1, 2], [], [3, 4, 5, 6]]
        assert found.graphs.fingerprint() == content.graphs.fingerprint()
        assert [file.name for file in path.parent.iterdir()] == ["set.npz"]
        write_compact(tmp_path / "twin", content)
        assert (tmp_path / "twin").read_bytes() == path.read_bytes()

    def test_truncated_at_any_length(self, path):
        whole = path.read_bytes()
        for length in [0, 1, 10, *range(50, len(whole), 97), len(whole) - 1]:
            path.write_bytes(whole[:length])
            with pytest.raises(DatasetError, match="delete it"):
                read_compact(path)

    @settings(max_examples=80, deadline=None)
    @given(data=st.data())
    def test_flipped_bits_give_the_same_graphs_or_our_error(self, data, tmp_path_factory):
        graphs = CompactGraphs.from_data([_molecule(4, [(0, 1), (2, 3)], 1)])
        path = tmp_path_factory.mktemp("flip") / "set.npz"
        write_compact(path, CompactFile(graphs))
        raw = bytearray(path.read_bytes())
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(raw)
        try:
            found = read_compact(path)
        except DatasetError:
            return
        assert found.graphs.fingerprint() == graphs.fingerprint()

    def test_another_version_is_refused(self, path, monkeypatch):
        monkeypatch.setattr("torch_grama.datasets.compact.VERSION", 3)
        with pytest.raises(DatasetError, match="version 2"):
            read_compact(path)

    def test_a_failed_write_leaves_nothing(self, content, tmp_path, monkeypatch):
        def broken(*_, **__):
            raise OSError("disk full")

        monkeypatch.setattr(np, "savez_compressed", broken)
        with pytest.raises(OSError, match="disk full"):
            write_compact(tmp_path / "set.npz", content)
        assert list(tmp_path.iterdir()) == []

    def test_cached_builds_once_and_again_when_stale_or_damaged(self, content, tmp_path):
        path = tmp_path / "set.npz"
        calls = []

        def build():
            calls.append(1)
            return content

        for signature, count in (("one", 1), ("one", 1), ("two", 2), (None, 2)):
            assert cached(path, signature, build).signature == (signature or "two")
            assert len(calls) == count
        path.write_bytes(path.read_bytes()[:-20])
        cached(path, "two", build)
        assert len(calls) == 3

    def test_cached_warns_where_it_cannot_write(self, content, tmp_path):
        blocker = tmp_path / "file"
        blocker.write_text("not a folder")
        with pytest.warns(UserWarning, match="GRAMA_CACHE"):
            found = cached(blocker / "set.npz", "one", lambda: content)
        assert len(found.graphs) == 7
