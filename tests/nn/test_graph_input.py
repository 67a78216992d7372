import pytest
import torch
from torch_geometric.utils import (
    to_dense_batch,
    to_torch_coo_tensor,
    to_torch_csc_tensor,
    to_torch_csr_tensor,
)

from torch_grama.nn import GRAMA
from torch_grama.nn.graph_input import (
    GraphInput,
    PaddedLayout,
    check_edge_attr,
    check_values,
    read_graph_input,
)

EDGES = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
BATCH = torch.tensor([0, 0, 2])
BAD = [float("nan"), float("inf"), -float("inf")]


def entries(graph):
    weight = (
        torch.ones(graph.edge_index.size(1)) if graph.edge_weight is None else graph.edge_weight
    )
    return sorted(zip(*graph.edge_index.tolist(), weight.tolist(), strict=True))


class TestRead:
    def test_one_graph_and_several(self):
        graph = read_graph_input(3, EDGES)
        assert graph.edge_index is EDGES
        assert (graph.num_nodes, graph.batch, graph.batch_size) == (3, None, 1)
        assert graph.edge_weight is graph.edge_attr is None
        assert read_graph_input(3, EDGES, batch=BATCH).batch_size == 3
        assert read_graph_input(3, EDGES, batch=BATCH, batch_size=5).batch_size == 5
        empty = torch.empty(2, 0, dtype=torch.long)
        assert read_graph_input(3, empty).edge_index.size() == (2, 0)

    @pytest.mark.parametrize(
        "layout", [to_torch_csr_tensor, to_torch_coo_tensor, to_torch_csc_tensor]
    )
    def test_a_sparse_matrix_is_read_as_the_transposed_adjacency(self, layout):
        weight = torch.tensor([0.5, 2.0, 3.0, 4.0])
        transposed = layout(EDGES.flip(0), weight, size=(3, 3))
        graph = read_graph_input(3, transposed)
        assert entries(graph) == entries(GraphInput(3, EDGES, weight))

    def test_a_sparse_matrix_of_ones_carries_no_weights(self):
        graph = read_graph_input(3, to_torch_csr_tensor(EDGES.flip(0), size=(3, 3)))
        assert graph.edge_weight is None
        assert entries(graph) == entries(GraphInput(3, EDGES))

    def test_sparse_values_that_are_learned_stay_weights(self):
        value = torch.ones(4, requires_grad=True)
        # rows 0, 1 and 2 with one, one and two entries
        matrix = torch.sparse_csr_tensor([0, 1, 2, 4], [2, 0, 0, 1], value, (3, 3))
        graph = read_graph_input(3, matrix)
        graph.edge_weight.sum().backward()
        assert value.grad.tolist() == [1.0] * 4


class TestValues:
    x = torch.ones(3, 2)

    def check(self, x=x, cached=None, **graph):
        check_values(x, GraphInput(**{"num_nodes": 3, "edge_index": EDGES, **graph}), cached)

    @pytest.mark.parametrize(
        "given",
        [
            {"edge_weight": torch.ones(4), "edge_attr": x, "batch": BATCH, "batch_size": 3},
            {"batch": BATCH, "batch_size": 4},  # an empty slot at the end
            {"x": torch.full((3, 2), 3e38)},  # whose sum overflows
            {"edge_attr": torch.ones(4, 1, dtype=torch.long)},
            {"x": x[:0], "num_nodes": 0, "edge_index": EDGES[:, :0], "batch": BATCH[:0]},
        ],
        ids=["all", "empty slot", "large", "integers", "nothing"],
    )
    def test_good_values_pass(self, given):
        self.check(**given)

    @pytest.mark.parametrize("batch", [[0, 1, 0], [1, 0, 0], [-1, 0, 0]])
    def test_unsorted_batch(self, batch):
        with pytest.raises(ValueError, match="'batch' to be sorted"):
            self.check(batch=torch.tensor(batch), batch_size=2)

    @pytest.mark.parametrize(
        ("size", "faults", "message"),
        [
            *(((3, 2), {(1, 0): bad, (2, 1): bad}, r"got 2 .*first in row 1") for bad in BAD),
            # of both signs, which do not cancel
            ((3, 2), {(0, 0): BAD[1], (2, 1): BAD[2]}, r"got 2 .*first in row 0"),
            # a sequence, of which the node is named
            ((3, 4, 2), {(2, 1, 0): BAD[0]}, r"got 1 .*first in row 2"),
        ],
    )
    def test_features_that_are_not_finite(self, size, faults, message):
        x = torch.ones(size)
        for place, value in faults.items():
            x[place] = value
        with pytest.raises(ValueError, match=rf"finite node features \({message}\)"):
            self.check(x=x)


def test_a_users_module_may_read_the_edge_attributes_it_likes():
    check_edge_attr(torch.zeros(6, 3).long(), None, False)
    check_edge_attr(torch.zeros(6, 3).long(), 3, False)


class TestLayout:
    batch = torch.tensor([0, 0, 0, 2, 2, 3])  # graph 1 and graph 4 have no nodes

    def test_equals_pyg_where_graphs_lack_nodes(self):
        x = torch.randn(6, 2)
        layout = PaddedLayout.of(self.batch, 5)
        dense, mask = to_dense_batch(x, self.batch, batch_size=5)
        assert torch.equal(layout.lay_out(x), dense)
        assert torch.equal(layout.padding, ~mask)
        assert torch.equal(layout.take_back(dense), x)

    def test_gradients(self):
        x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
        layout = PaddedLayout.of(self.batch, 5)
        assert torch.autograd.gradcheck(lambda x: layout.take_back(layout.lay_out(x).cos()), x)

    def test_no_graphs(self):
        layout = PaddedLayout.of(self.batch[:0], 0)
        assert layout.lay_out(torch.empty(0, 2)).size() == (0, 0, 2)
        assert layout.take_back(torch.empty(0, 0, 2)).size() == (0, 2)

    def test_a_model_reads_it_once_a_pass(self, batch, monkeypatch):
        read = []
        of = PaddedLayout.of
        monkeypatch.setattr(PaddedLayout, "of", lambda *args: read.append(args) or of(*args))
        model = GRAMA(5, 8, 2, seq_len=3, num_blocks=2, backbone="gps").double()
        model(batch.x, batch.edge_index, batch=batch.batch)
        assert len(read) == 1
