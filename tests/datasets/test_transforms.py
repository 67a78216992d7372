import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric import transforms as pyg
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from torch_grama.datasets import transforms as transforms_module
from torch_grama.datasets.catalogue import find
from torch_grama.datasets.compact import CompactGraphs
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.transforms import (
    RWSE,
    LapPE,
    LocalDegreeProfile,
    apply_transforms,
    cache_key,
)


def _data(graph):
    data = from_networkx(graph)
    return Data(edge_index=data.edge_index, num_nodes=graph.number_of_nodes())


def _lonely():
    return Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=4)


class TestRWSE:
    def test_the_default_type_of_the_caller_is_not_kept_on_disk(self):
        expected = RWSE(3)(_lonely()).rwse
        torch.set_default_dtype(torch.float64)
        try:
            result = RWSE(3)(_lonely()).rwse
        finally:
            torch.set_default_dtype(torch.float32)
        assert result.dtype == torch.float32
        assert torch.equal(result, expected)

    def test_equals_the_diagonal_of_the_powers(self):
        graph = nx.gnp_random_graph(12, 0.3, seed=1)
        result = RWSE(7)(_data(graph)).rwse
        adjacency = nx.to_numpy_array(graph)
        walk = adjacency / np.maximum(adjacency.sum(axis=1, keepdims=True), 1)
        expected = [np.diag(np.linalg.matrix_power(walk, k)) for k in range(1, 8)]
        assert np.allclose(result.numpy(), np.stack(expected, axis=1), atol=1e-6)

    def test_equals_that_of_pyg(self):
        data = _data(nx.barabasi_albert_graph(40, 3, seed=1))
        expected = pyg.AddRandomWalkPE(20, attr_name="pe")(data.clone()).pe
        assert torch.allclose(RWSE(20)(data).rwse, expected, atol=1e-6)

    def test_blocks_of_a_large_graph(self, monkeypatch):
        data = _data(nx.gnp_random_graph(50, 0.1, seed=1))
        whole = RWSE(5)(data.clone()).rwse
        monkeypatch.setattr(transforms_module, "_BLOCK_NUMBERS", 50 * 7)
        assert torch.equal(RWSE(5)(data).rwse, whole)

    def test_nodes_without_edges(self):
        result = RWSE(4)(_lonely()).rwse
        assert result.tolist() == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert RWSE(4)(Data(num_nodes=1)).rwse.tolist() == [[0, 0, 0, 0]]


def _check_pairs(data, matrix):
    """The smallest eigenvalues of a Laplacian, with orthonormal eigenvectors."""
    count = data.lap_values.size(1)
    expected = np.linalg.eigvalsh(matrix)[:count]
    assert np.allclose(data.lap_values[0].numpy(), expected, atol=1e-5)
    vectors = data.lap_vectors.double().numpy()
    assert np.allclose(vectors.T @ vectors, np.eye(count), atol=1e-5)
    assert np.allclose(matrix @ vectors, vectors * expected, atol=1e-5)


class TestLapPE:
    @pytest.mark.parametrize("normalization", ["none", "sym"])
    def test_equals_a_full_decomposition(self, normalization):
        graph = nx.gnp_random_graph(25, 0.25, seed=2)
        data = LapPE(6, normalization)(_data(graph))
        if normalization == "none":
            matrix = nx.laplacian_matrix(graph).toarray().astype(float)
        else:
            matrix = nx.normalized_laplacian_matrix(graph).toarray()
        _check_pairs(data, matrix)

    @pytest.mark.parametrize("degree", [0, 10_000])
    @pytest.mark.parametrize("normalization", ["none", "sym"])
    def test_sparse_equals_dense(self, normalization, degree, monkeypatch):
        data = _data(nx.connected_watts_strogatz_graph(120, 6, 0.3, seed=1))
        dense = LapPE(5, normalization)(data.clone())
        monkeypatch.setattr(transforms_module, "_DENSE_NODES", 20)
        monkeypatch.setattr(transforms_module, "_DENSE_DEGREE", degree)
        sparse = LapPE(5, normalization)(data)
        assert torch.allclose(dense.lap_values, sparse.lap_values, atol=1e-5)
        assert torch.allclose(dense.lap_vectors, sparse.lap_vectors, atol=1e-4)

    def test_large_and_disconnected(self, monkeypatch):
        parts = [nx.path_graph(60), nx.cycle_graph(45), nx.star_graph(7), nx.empty_graph(3)]
        graph = nx.disjoint_union_all(parts)
        order = np.random.RandomState(0).permutation(graph.number_of_nodes())
        matrix = nx.to_numpy_array(graph)[np.ix_(order, order)]
        monkeypatch.setattr(transforms_module, "_DENSE_NODES", 20)
        data = LapPE(12)(_data(nx.from_numpy_array(matrix)))
        _check_pairs(data, np.diag(matrix.sum(axis=1)) - matrix)
        assert (data.lap_values[0, :6] < 1e-6).all()

    def test_large_graphs_take_scipy(self, monkeypatch):
        monkeypatch.setattr(transforms_module, "_DENSE_NODES", 20)
        monkeypatch.setitem(sys.modules, "scipy.sparse.csgraph", None)
        with pytest.raises(DatasetError, match=r"take scipy.*torch-grama\[data\]"):
            LapPE(3)(_data(nx.path_graph(40)))

    def test_fewer_nodes_than_frequencies(self):
        data = LapPE(5)(_data(nx.path_graph(3)))
        assert torch.isnan(data.lap_values[0]).tolist() == [False] * 3 + [True] * 2
        assert torch.isnan(data.lap_vectors).all(dim=0).tolist() == [False] * 3 + [True] * 2
        assert LapPE(3)(Data(num_nodes=0)).lap_vectors.shape == (0, 3)
        alone = LapPE(2)(Data(num_nodes=1))
        assert alone.lap_values[0, 0] == 0
        assert alone.lap_vectors[0, 0] == 1

    def test_direction_and_loops_do_not_matter(self):
        both = _data(nx.path_graph(5))
        one_way = Data(edge_index=torch.tensor([[0, 1, 2, 3, 2], [1, 2, 3, 4, 2]]), num_nodes=5)
        assert torch.allclose(LapPE(4)(both).lap_vectors, LapPE(4)(one_way).lap_vectors)

    def test_largest_entry_is_positive(self):
        vectors = LapPE(6)(_data(nx.gnp_random_graph(30, 0.2, seed=5))).lap_vectors
        largest = vectors.abs().argmax(dim=0)
        assert (vectors[largest, torch.arange(6)] > 0).all()

    def test_wrong_arguments(self):
        with pytest.raises(ValueError, match="walk_length"):
            RWSE(0)
        with pytest.raises(ValueError, match="max_freqs"):
            LapPE(0)
        with pytest.raises(ValueError, match="'none' or 'sym'"):
            LapPE(3, "rw")


def test_degree_profile_by_hand():
    # 0 - 1 - 2, 1 - 3: the centre has degree 3, the leaves 1.
    data = _data(nx.star_graph(3))
    result = LocalDegreeProfile()(data).x
    assert result[0].tolist() == pytest.approx([3, 1, 1, 1, 0], abs=4e-3)
    assert result[1].tolist() == pytest.approx([1, 3, 3, 3, 0], abs=4e-3)


@dataclass(frozen=True)
class _Counting:
    """Counts its calls; the number is no argument."""

    amount: int = 1
    name: ClassVar[str] = "counting"
    adds: ClassVar[tuple[str, ...]] = ()
    calls: ClassVar[list[int]] = []

    def __call__(self, data):
        self.calls.append(self.amount)
        data["marked"] = torch.full((data.num_nodes, 1), float(self.amount))
        return data


class TestCache:
    @pytest.fixture
    def task(self, tmp_path):
        _Counting.calls.clear()
        task = find("transfer-line-3").load(Storage(tmp_path))
        return replace(task, graphs=CompactGraphs.from_data(task.graphs[:4]))

    def test_computed_once_for_each_argument(self, task, tmp_path):
        for amount in (2, 2, 2, 1, 2, 1, 3):
            result = apply_transforms(task, [_Counting(amount)], Storage(tmp_path))
            for graph in result.graphs:
                assert graph.marked.unique().tolist() == [amount]
        assert _Counting.calls == [2] * 4 + [1] * 4 + [3] * 4
        assert torch.equal(result.graphs[0].x, task.graphs[0].x)
        assert result.folds is task.folds
        assert apply_transforms(task, [], Storage(tmp_path)) is task

    def test_graphs_that_differ_in_features_alone_are_encoded_once(
        self, task, tmp_path, monkeypatch
    ):
        graphs = [_data(nx.path_graph(5)), *(_data(nx.cycle_graph(5)) for _ in range(3))]
        for number, graph in enumerate(graphs):
            graph.x = torch.full((5, 1), float(number))
        transforms = [RWSE(4), LocalDegreeProfile(), LapPE(3)]
        expected = []
        for graph in graphs:
            for transform in transforms:
                graph = transform(graph.clone())
            expected.append(graph)
        calls = []
        for kind in (RWSE, LapPE):
            plain = kind.__call__
            monkeypatch.setattr(
                kind, "__call__", lambda self, data, f=plain: calls.append(self) or f(self, data)
            )
        found = apply_transforms(replace(task, graphs=graphs), transforms, Storage(tmp_path)).graphs
        assert len(calls) == 4
        for graph, encoded in zip(expected, found, strict=True):
            for name in ("x", "rwse", "lap_vectors", "lap_values"):
                assert torch.equal(encoded[name], graph[name])

    def test_key_holds_all_it_depends_on(self, task, monkeypatch):
        graphs = task.graphs
        assert isinstance(graphs, CompactGraphs)
        other = CompactGraphs.from_data([*graphs[:3], graphs[0]])
        both = [LapPE(10), RWSE(20)]
        chosen = ([RWSE(20)], [RWSE(16)], [LapPE(10)], [LapPE(10, "sym")], both, both[::-1])
        keys = {cache_key([RWSE(20)], other), *(cache_key(each, graphs) for each in chosen)}
        assert len(keys) == 7
        assert cache_key([RWSE(20)], graphs) in keys
        monkeypatch.setattr(transforms_module, "CACHE_VERSION", 99)
        assert cache_key([RWSE(20)], graphs) not in keys

    def test_changed_data_under_the_same_name(self, task, tmp_path):
        storage = Storage(tmp_path)
        apply_transforms(task, [RWSE(3)], storage)
        ring = find("transfer-ring-3").load(storage)
        renamed = replace(ring, name=task.name, graphs=ring.graphs[:4])
        result = apply_transforms(renamed, [RWSE(3)], storage)
        assert result.graphs[0].rwse.shape == (6, 3)
        assert isinstance(result.graphs, list)

    def test_profile_becomes_the_features(self, task, tmp_path):
        result = apply_transforms(task, [LocalDegreeProfile()], Storage(tmp_path))
        assert result.node_encoding.num_columns == 6
        assert result.graphs[0].x.shape == (4, 6)
