import pytest
import torch
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor

from torch_grama.nn.graph_input import GraphInput, check_values, read_graph_input

EDGES = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
BATCH = torch.tensor([0, 0, 2])


def entries(graph):
    weight = (
        torch.ones(graph.edge_index.size(1)) if graph.edge_weight is None else graph.edge_weight
    )
    return sorted(zip(*graph.edge_index.tolist(), weight.tolist(), strict=True))


class TestRead:
    def test_one_graph(self):
        graph = read_graph_input(3, EDGES)

        assert graph.edge_index is EDGES
        assert (graph.num_nodes, graph.batch, graph.batch_size) == (3, None, 1)
        assert graph.edge_weight is None
        assert graph.edge_attr is None

    def test_the_number_of_graphs_comes_from_the_batch_vector(self):
        assert read_graph_input(3, EDGES, batch=BATCH).batch_size == 3

    def test_the_number_of_graphs_may_be_given(self):
        assert read_graph_input(3, EDGES, batch=BATCH, batch_size=5).batch_size == 5

    def test_no_edges(self):
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

    def test_matrices_are_built_once(self):
        graph = read_graph_input(3, EDGES)
        built = []

        for _ in range(2):
            graph.adjacency("key", lambda: built.append(1) or "matrix")

        assert len(built) == 1

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"edge_index": [[0], [1]]}, TypeError, r"'edge_index' to be a Tensor \(got list\)"),
            ({"edge_index": EDGES.int()}, TypeError, r"int64.*got torch.int32.*edge_index.long"),
            ({"edge_index": EDGES.float()}, TypeError, r"int64.*got torch.float32"),
            ({"edge_index": EDGES.t()}, ValueError, r"\[2, num_edges\] \(got \[4, 2\]\)"),
            ({"edge_index": EDGES[0]}, ValueError, r"\[2, num_edges\] \(got \[4\]\)"),
            ({"edge_weight": torch.ones(3)}, ValueError, r"'edge_weight'.*\[4\].*\(got \[3\]\)"),
            ({"edge_weight": torch.ones(4, 1)}, ValueError, r"'edge_weight'.*\(got \[4, 1\]\)"),
            ({"edge_attr": torch.ones(4)}, ValueError, r"'edge_attr'.*\[4, edge_dim\].*\[4\]"),
            (
                {"edge_attr": torch.ones(5, 2)},
                ValueError,
                r"'edge_attr'.*\[4, edge_dim\].*\[5, 2\]",
            ),
            ({"batch": BATCH.int()}, TypeError, r"'batch' to hold int64.*got torch.int32"),
            ({"batch": BATCH[:2]}, ValueError, r"'batch' to have shape \[3\].*\(got \[2\]\)"),
            (
                {"batch_size": 2},
                ValueError,
                r"'batch' vector for more than one graph.*batch_size=2",
            ),
            (
                {
                    "edge_index": to_torch_csr_tensor(EDGES, size=(3, 3)),
                    "edge_weight": torch.ones(4),
                },
                ValueError,
                r"no 'edge_weight' beside a sparse 'edge_index'",
            ),
        ],
    )
    def test_bad_input_gets_one_sentence(self, change, error, message):
        with pytest.raises(error, match=message) as caught:
            read_graph_input(**{"num_nodes": 3, "edge_index": EDGES, **change})
        assert "\n" not in str(caught.value)


class TestValues:
    x = torch.ones(3, 2)

    def check(self, x=x, pe=None, **graph):
        check_values(x, GraphInput(**{"num_nodes": 3, "edge_index": EDGES, **graph}), pe)

    def test_good_values_pass(self):
        self.check(
            pe=self.x, edge_weight=torch.ones(4), edge_attr=self.x, batch=BATCH, batch_size=3
        )

    def test_an_empty_slot_at_the_end_passes(self):
        self.check(batch=BATCH, batch_size=4)

    def test_nothing_at_all_passes(self):
        self.check(
            x=torch.empty(0, 2),
            num_nodes=0,
            edge_index=torch.empty(2, 0, dtype=torch.long),
            batch=torch.empty(0, dtype=torch.long),
        )

    def test_a_sum_that_overflows_is_no_fault(self):
        self.check(x=torch.full((3, 2), 3e38))

    def test_integer_edge_attributes_are_finite(self):
        self.check(edge_attr=torch.ones(4, 1, dtype=torch.long))

    @pytest.mark.parametrize(("index", "span"), [(3, "0 to 3"), (-1, "-1 to 2"), (99, "0 to 99")])
    def test_node_numbers_out_of_range(self, index, span):
        edges = EDGES.clone()
        edges[1, 2] = index

        with pytest.raises(ValueError, match=rf"between 0 and 2 \(got {span} for 3 nodes\)"):
            self.check(edge_index=edges)

    @pytest.mark.parametrize("batch", [[0, 1, 0], [1, 0, 0], [-1, 0, 0]])
    def test_unsorted_batch(self, batch):
        with pytest.raises(ValueError, match="'batch' to be sorted"):
            self.check(batch=torch.tensor(batch), batch_size=2)

    def test_graph_numbers_beyond_the_batch_size(self):
        with pytest.raises(ValueError, match=r"below batch_size=2 \(got 2\)"):
            self.check(batch=BATCH, batch_size=2)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    def test_features_that_are_not_finite(self, value):
        x = self.x.clone()
        x[1, 0] = x[2, 1] = value

        with pytest.raises(ValueError, match=r"node features \(got 2 that.*first in row 1\)"):
            self.check(x=x)

    def test_infinities_of_both_signs_do_not_cancel(self):
        x = self.x.clone()
        x[0, 0], x[2, 1] = float("inf"), -float("inf")

        with pytest.raises(ValueError, match=r"finite node features.*first in row 0"):
            self.check(x=x)

    def test_a_sequence_names_the_node(self):
        x = torch.ones(3, 4, 2)
        x[2, 1, 0] = float("nan")

        with pytest.raises(ValueError, match="first in row 2"):
            self.check(x=x)

    @pytest.mark.parametrize("name", ["edge_weight", "edge_attr", "pe"])
    def test_other_features_that_are_not_finite(self, name):
        bad = torch.ones(4) if name == "edge_weight" else torch.ones(4, 2)
        bad[3] = float("nan")

        with pytest.raises(ValueError, match=rf"finite '{name}'.*first in row 3.*check_input"):
            self.check(**{name: bad})
